"""Rules for `aesara.tensor.nnet`, loaded with the first graph that has one of its Ops.

Importing that package warns of its deprecation, which only those who use it should see.
"""

from jaxprgen.aesara.nnet import (
    abstract_conv,
    basic,
    batchnorm,
    blocksparse,
    conv,
    conv3d2d,
    corr,
    corr3d,
    ctc,
    neighbours,
    sigm,
)

__all__ = [
    "abstract_conv",
    "basic",
    "batchnorm",
    "blocksparse",
    "conv",
    "conv3d2d",
    "corr",
    "corr3d",
    "ctc",
    "neighbours",
    "sigm",
]
