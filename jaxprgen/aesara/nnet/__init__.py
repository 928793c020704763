"""Rules for `aesara.tensor.nnet`, imported with the first graph that holds one of its Ops.

Importing that package warns of its deprecation, which only those who use it should see.
"""

from jaxprgen.aesara.nnet import basic, conv

__all__ = ["basic", "conv"]
