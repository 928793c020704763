"""Aesara as a graph library: plans of its graphs, and the rules for its Ops."""

import aesara as aesara  # First: the end of its import imports modules of this package.

from jaxprgen.aesara import (
    advanced_subtensor,
    basic,
    blas,
    builders,
    diagonal,
    elemwise,
    extra_ops,
    fft,
    identity,
    ifelse,
    jax_arrays,
    loop_results,
    masked,
    math,
    nlinalg,
    random,
    scan,
    shape,
    slinalg,
    sort,
    special,
    subtensor,
)
from jaxprgen.aesara.plan import plan_of
from jaxprgen.lowering.registry import lowers_package

lowers_package("aeppl", "jaxprgen.aesara.aeppl")
lowers_package("aemcmc", "jaxprgen.aesara.aemcmc")
lowers_package("aesara.sandbox.fourier", "jaxprgen.aesara.fourier")
lowers_package("aesara.sandbox.multinomial", "jaxprgen.aesara.multinomial")
lowers_package("aesara.sparse", "jaxprgen.aesara.sparse")
lowers_package("aesara.tensor.nnet", "jaxprgen.aesara.nnet")
lowers_package("aesara.tensor.signal", "jaxprgen.aesara.pool")
lowers_package("aesara.typed_list", "jaxprgen.aesara.typed_list")

__all__ = [
    "advanced_subtensor",
    "basic",
    "blas",
    "builders",
    "diagonal",
    "elemwise",
    "extra_ops",
    "fft",
    "identity",
    "ifelse",
    "jax_arrays",
    "loop_results",
    "masked",
    "math",
    "nlinalg",
    "plan_of",
    "random",
    "scan",
    "shape",
    "slinalg",
    "sort",
    "special",
    "subtensor",
]
