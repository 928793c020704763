"""Inputs of Aesara's functions that may be no arrays: slices, and None where an Op takes it."""

from __future__ import annotations

from typing import Any

from aesara.graph.basic import Variable
from aesara.graph.fg import FunctionGraph
from aesara.tensor.basic import Default, Eye, Tri
from aesara.tensor.type_other import SliceType

OPTIONAL: dict[type, tuple[int, ...]] = {Default: (0, 1), Eye: (1,), Tri: (1,)}
"""Which inputs of an Op may be None, though they are declared to be tensors."""


def may_be_no_array(graph: FunctionGraph, variable: Variable) -> bool:
    """Whether a slice is declared, or all nodes that take the variable take None as well."""
    if isinstance(variable.type, SliceType):
        return True
    clients: Any = graph.clients[variable]
    return bool(clients) and all(
        node != "output" and i in OPTIONAL.get(type(node.op), ()) for node, i in clients
    )


def is_no_array(x: Any) -> bool:
    """Whether an argument is one of those."""
    return x is None or isinstance(x, slice)
