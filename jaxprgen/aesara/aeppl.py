"""Marks that aeppl puts on variables, imported with the first graph that holds one of its Ops."""

from __future__ import annotations

import importlib

from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.identity import lower_identity

lowers(
    importlib.import_module("aeppl.dists").DiracDelta,
    importlib.import_module("aeppl.abstract").ValuedVariable,
    importlib.import_module("aeppl.transforms").TransformedVariable,
    folds=False,
    needs=lambda node, output: [0],
)(lower_identity)
