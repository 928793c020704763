"""Products of vectors and matrices."""

from __future__ import annotations

from aesara.tensor.math import Dot, MatMul

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import linalg
from jaxprgen.emit.values import Value
from jaxprgen.frontend.context import RuleContext
from jaxprgen.frontend.registry import lowers


@lowers(Dot)
def lower_dot(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.dot` of vectors and matrices, in the declared dtype."""
    b, dtype = ctx.builder, ctx.dtype
    return linalg.dot(b, ew.convert(b, x, dtype), ew.convert(b, y, dtype))


@lowers(MatMul)
def lower_matmul(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.matmul`, in the declared dtype."""
    b, dtype = ctx.builder, ctx.dtype
    return linalg.matmul(b, ew.convert(b, x, dtype), ew.convert(b, y, dtype))
