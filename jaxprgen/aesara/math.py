"""Products of vectors and matrices, convolutions of vectors."""

from __future__ import annotations

import numpy as np
from aesara.tensor.math import Convolve, Dot, MatMul

from jaxprgen.emit import convolution, linalg
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import Value, dtype_of
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(Dot)
def lower_dot(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.dot` of vectors and matrices, in the declared dtype."""
    b, dtype = ctx.builder, ctx.dtype
    return linalg.dot(b, ew.convert(b, x, dtype), ew.convert(b, y, dtype))


@lowers(MatMul)
def lower_matmul(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.matmul`, in the Op's dtype. Without one, Aesara declares ``floatX`` whatever NumPy's
    result is, which is converted: of complex numbers that gives the real part.
    """
    b = ctx.builder
    natural = np.result_type(dtype_of(x), dtype_of(y)) if ctx.op.dtype is None else ctx.dtype
    working = np.dtype(np.int32) if natural.kind == "b" else natural
    product = linalg.matmul(b, ew.convert(b, x, working), ew.convert(b, y, working))
    if natural.kind == "b":  # True wherever any product is.
        product = ew.truth(b, product)
    return ew.convert(b, product, ctx.dtype)


@lowers(Convolve)
def lower_convolve(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.convolve`, in the declared dtype."""
    b, dtype = ctx.builder, ctx.dtype
    x, y = ew.convert(b, x, dtype), ew.convert(b, y, dtype)
    return convolution.convolve(b, x, y, ctx.op.mode)
