"""How to draw from what aemcmc adds to Aesara; imported once a graph holds an Op of aemcmc's."""

from __future__ import annotations

import importlib

from jaxprgen.aesara.random import define
from jaxprgen.emit.constraints import parse_constraints
from jaxprgen.emit.polya_gamma import polya_gamma

define(
    importlib.import_module("aemcmc.dists").PolyaGammaRV,
    polya_gamma,
    # Of smaller `h`, which aemcmc draws too, there is no exact sampler.
    parse_constraints("h z", "h >= 1"),
)
