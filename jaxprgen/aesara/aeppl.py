"""Marks that aeppl puts on variables, imported with the first graph that holds one of its Ops."""

from __future__ import annotations

import importlib
from typing import Any

from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(
    importlib.import_module("aeppl.dists").DiracDelta,
    importlib.import_module("aeppl.abstract").ValuedVariable,
    importlib.import_module("aeppl.transforms").TransformedVariable,
    folds=False,
    needs=lambda node, output: [0],
)
def lower_mark(ctx: RuleContext, x: Value, *_: Any) -> Value:
    """Return the variable itself, without what it is marked with."""
    return x
