"""Aesara as a graph library: plans of its graphs, and the rules for its Ops."""

from jaxprgen.frontend.aesara import (
    basic,
    blas,
    elemwise,
    extra_ops,
    fft,
    identity,
    math,
    nlinalg,
    printing,
    raise_op,
    reduction,
    shape,
    special,
    slinalg,
    sort,
    subtensor,
    typed_list,
)
from jaxprgen.frontend.aesara.plan import plan_of

__all__ = [
    "basic",
    "blas",
    "elemwise",
    "extra_ops",
    "fft",
    "identity",
    "math",
    "nlinalg",
    "plan_of",
    "printing",
    "raise_op",
    "reduction",
    "shape",
    "special",
    "slinalg",
    "sort",
    "subtensor",
    "typed_list",
]
