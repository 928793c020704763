"""Products of vectors and matrices, convolutions of vectors."""

from __future__ import annotations

import numpy as np
from aesara.tensor.math import Convolve, Dot, MatMul

from jaxprgen.emit import convolution, linalg
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(Dot)
def lower_dot(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.dot` of vectors and matrices, in the declared dtype."""
    dtype = ctx.dtype
    return linalg.dot(x.astype(dtype), y.astype(dtype))


@lowers(MatMul)
def lower_matmul(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.matmul`, in the Op's dtype. Without one, Aesara declares ``floatX`` whatever NumPy's
    result is, which is converted: of complex numbers that gives the real part.
    """
    natural = np.result_type(x.dtype, y.dtype) if ctx.op.dtype is None else ctx.dtype
    working = np.dtype(np.int32) if natural.kind == "b" else natural
    product = linalg.matmul(x.astype(working), y.astype(working))
    if natural.kind == "b":  # True wherever any product is.
        product = ew.truth(product)
    return product.astype(ctx.dtype)


@lowers(Convolve)
def lower_convolve(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.convolve`, in the declared dtype."""
    dtype = ctx.dtype
    x, y = x.astype(dtype), y.astype(dtype)
    return convolution.convolve(x, y, ctx.op.mode)
