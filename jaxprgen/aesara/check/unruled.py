"""What is known of Ops beside rules: which of their inputs decide sizes by their values.

By the qualified names of classes, so that nothing is imported for it; subclasses are included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from aesara.graph.basic import Apply

from jaxprgen.lowering.registry import Positions

T = TypeVar("T")

STATIC: dict[str, Positions] = {
    "aesara.tensor.random.op.RandomVariable": (1,),
}


def static_of(node: Apply) -> Sequence[int]:
    """The inputs of the node whose values decide the sizes of its results."""
    found = _first(node, STATIC) or ()
    return found(node) if callable(found) else found


def _first(node: Apply, table: dict[str, T]) -> T | None:
    names = (f"{base.__module__}.{base.__qualname__}" for base in type(node.op).__mro__)
    return next((table[name] for name in names if name in table), None)
