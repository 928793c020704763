"""Rules for `aesara.tensor.nnet`, loaded with the first graph that has one of its Ops.

Importing that package warns of its deprecation, which only those who use it should see.
"""

from jaxprgen.frontend.aesara.nnet import basic, conv3d2d, sigm

__all__ = ["basic", "conv3d2d", "sigm"]
