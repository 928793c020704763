"""Aesara as a graph library, and the rules for Ops that it alone has."""

import aesara as aesara  # First: the end of its import imports modules of this package.

from jaxprgen import ops as ops
from jaxprgen.aesara import containers as containers, faults as faults, jax_arrays as jax_arrays
from jaxprgen.aesara.loops import compiled_loop
from jaxprgen.aesara.sparse_draws import with_generators
from jaxprgen.graphs.library import GraphLibrary
from jaxprgen.lowering.registry import lowers_package

LIBRARY = GraphLibrary(compiled_loop, with_generators)

lowers_package("aeppl", "jaxprgen.aesara.aeppl")
lowers_package("aemcmc", "jaxprgen.aesara.aemcmc")
lowers_package("aesara.sandbox.fourier", "jaxprgen.aesara.fourier")
lowers_package("aesara.sandbox.multinomial", "jaxprgen.aesara.multinomial")
lowers_package("aesara.sandbox.rng_mrg", "jaxprgen.aesara.rng_mrg")
lowers_package("aesara.sparse", "jaxprgen.ops.sparse")
lowers_package("aesara.tensor.nnet", "jaxprgen.aesara.nnet")
lowers_package("aesara.tensor.signal", "jaxprgen.aesara.pool")
lowers_package("aesara.typed_list", "jaxprgen.ops.typed_list")
