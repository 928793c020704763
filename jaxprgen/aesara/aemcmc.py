"""Random variables of aemcmc, imported with the first graph that holds one of its Ops."""

from __future__ import annotations

import importlib

from jaxprgen.emit.constraints import parse_constraints
from jaxprgen.emit.polya_gamma import polya_gamma
from jaxprgen.ops.random import define

define(
    importlib.import_module("aemcmc.dists").PolyaGammaRV,
    polya_gamma,
    parse_constraints("h z", "h > 0"),
)
