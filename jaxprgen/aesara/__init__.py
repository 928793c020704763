"""Aesara as a graph library: plans of its graphs, and the rules for its Ops."""

from jaxprgen.aesara import (
    advanced_subtensor,
    basic,
    blas,
    builders,
    deferred,
    diagonal,
    elemwise,
    extra_ops,
    fft,
    identity,
    ifelse,
    math,
    nlinalg,
    printing,
    raise_op,
    random,
    reduction,
    scan,
    selection,
    shape,
    slinalg,
    sort,
    special,
    subtensor,
)
from jaxprgen.aesara.plan import plan_of
from jaxprgen.lowering.registry import defer

defer("aemcmc", "jaxprgen.aesara.aemcmc")
defer("aesara.sandbox.fourier", "jaxprgen.aesara.fourier")
defer("aesara.tensor.nnet", "jaxprgen.aesara.nnet")
defer("aesara.tensor.signal", "jaxprgen.aesara.pool")
defer("aesara.typed_list", "jaxprgen.aesara.typed_list")

__all__ = [
    "advanced_subtensor",
    "basic",
    "blas",
    "builders",
    "deferred",
    "diagonal",
    "elemwise",
    "extra_ops",
    "fft",
    "identity",
    "ifelse",
    "math",
    "nlinalg",
    "plan_of",
    "printing",
    "raise_op",
    "random",
    "reduction",
    "scan",
    "selection",
    "shape",
    "slinalg",
    "sort",
    "special",
    "subtensor",
]
