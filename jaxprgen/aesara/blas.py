"""BLAS Ops: products with a scale and an addend. In place or not is all one here."""

from __future__ import annotations

from aesara.tensor.blas import BatchedDot, Dot22, Dot22Scalar, Gemm, Gemv, Ger
from aesara.tensor.blas_c import CGemv, CGer
from aesara.tensor.blas_scipy import ScipyGer

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import linalg
from jaxprgen.emit.values import (
    Value,
    broadcast_shapes,
    broadcast_to,
    like,
    shape_of,
    splat_value,
)
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Builder
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


def _scale(b: Builder, factor: Value, x: Value) -> Value:
    """``factor * x``, without a product where the factor is known to be one."""
    return x if splat_value(factor) == 1 else ew.multiply(b, factor, x)


def _accumulate(b: Builder, beta: Value, y: Value, product: Value) -> Value:
    """``beta * y + product``; where ``beta`` is 0 BLAS ignores ``y``, NaN and all."""
    known = splat_value(beta)
    if known == 0:
        return broadcast_to(b, product, broadcast_shapes(shape_of(y), shape_of(product)))
    if known is None:
        y = ew.where(b, ew.equal(b, beta, like(beta, 0)), like(y, 0), y)
    return ew.add(b, _scale(b, beta, y), product)


def _require_equal_shapes(x: Value, product: Value) -> None:
    if shape_of(x) != shape_of(product):
        raise ShapeMismatchError(
            f"Cannot add a product of shape {shape_of(product)} to shape {shape_of(x)}."
        )


@lowers(Dot22)
def lower_dot22(ctx: RuleContext, x: Value, y: Value) -> Value:
    """A matrix product."""
    return linalg.dot(ctx.builder, x, y)


@lowers(Dot22Scalar)
def lower_dot22_scalar(ctx: RuleContext, x: Value, y: Value, alpha: Value) -> Value:
    """A scaled matrix product."""
    return _scale(ctx.builder, alpha, linalg.dot(ctx.builder, x, y))


@lowers(BatchedDot)
def lower_batched_dot(ctx: RuleContext, x: Value, y: Value) -> Value:
    """Products of the matrices or vectors along a common first axis."""
    return linalg.batched_dot(ctx.builder, x, y)


@lowers(Gemv, CGemv)
def lower_gemv(ctx: RuleContext, y: Value, alpha: Value, a: Value, x: Value, beta: Value) -> Value:
    """``beta * y + alpha * dot(a, x)``."""
    b = ctx.builder
    product = linalg.dot(b, a, x)
    _require_equal_shapes(y, product)
    return _accumulate(b, beta, y, _scale(b, alpha, product))


@lowers(Gemm)
def lower_gemm(ctx: RuleContext, z: Value, alpha: Value, x: Value, y: Value, beta: Value) -> Value:
    """``beta * z + alpha * dot(x, y)``."""
    b = ctx.builder
    return _accumulate(b, beta, z, _scale(b, alpha, linalg.dot(b, x, y)))


@lowers(Ger, CGer, ScipyGer)
def lower_ger(ctx: RuleContext, a: Value, alpha: Value, x: Value, y: Value) -> Value:
    """``a + alpha * outer(x, y)``."""
    b = ctx.builder
    product = linalg.outer(b, x, y)
    _require_equal_shapes(a, product)
    return ew.add(b, a, _scale(b, alpha, product))
