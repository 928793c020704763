"""Products of vectors and matrices, convolutions of vectors."""

from __future__ import annotations

import numpy as np
from aesara.tensor.math import Convolve, Dot, MatMul

from jaxprgen.emit import convolution, linalg
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import Value, dtype_of
from jaxprgen.frontend.context import RuleContext
from jaxprgen.frontend.registry import lowers


@lowers(Dot)
def lower_dot(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.dot` of vectors and matrices, in the declared dtype."""
    b, dtype = ctx.builder, ctx.dtype
    return linalg.dot(b, ew.convert(b, x, dtype), ew.convert(b, y, dtype))


@lowers(MatMul)
def lower_matmul(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.matmul`, in the declared dtype; of complex numbers, if that is real, its real part."""
    b = ctx.builder
    common = np.result_type(dtype_of(x), dtype_of(y))
    working = common if common.kind == "c" else ctx.dtype
    product = linalg.matmul(b, ew.convert(b, x, working), ew.convert(b, y, working))
    return ew.convert(b, product, ctx.dtype)


@lowers(Convolve)
def lower_convolve(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.convolve`, in the declared dtype."""
    b, dtype = ctx.builder, ctx.dtype
    x, y = ew.convert(b, x, dtype), ew.convert(b, y, dtype)
    return convolution.convolve(b, x, y, ctx.op.mode)
