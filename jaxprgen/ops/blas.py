"""Rules for BLAS Ops, from `aesara.tensor.blas`: products with a scale and an addend.

Ops that work in place have the rules of those that do not, because programs have no memory.
"""

from __future__ import annotations

from jaxprgen.emit import elementwise as ew, linalg
from jaxprgen.emit.sizes import require_equal
from jaxprgen.emit.values import Value, broadcast_to, common_shape
from jaxprgen.errors import BatchMismatchError, ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


def _scale(factor: Value, x: Value) -> Value:
    return x if factor.fill_value == 1 else factor * x


def _accumulate(beta: Value, y: Value, product: Value) -> Value:
    """Return ``beta * y + product``; if ``beta`` is 0, BLAS ignores ``y``, even NaN."""
    known = beta.fill_value
    if known == 0:
        return broadcast_to(product, common_shape(y, product))
    if known is None:
        y = ew.where(ew.equal(beta, 0), 0, y)
    return _scale(beta, y) + product


def _require_equal_shapes(x: Value, product: Value) -> None:
    if x.shape != product.shape:
        raise ShapeMismatchError(
            f"Cannot add a product of shape {product.shape} to an array of shape {x.shape}."
        )


@lowers("tensor.Dot22")
def lower_dot22(ctx: RuleContext, x: Value, y: Value) -> Value:
    """Return the product of two matrices."""
    return linalg.dot(x, y)


@lowers("tensor.Dot22Scalar")
def lower_dot22_scalar(ctx: RuleContext, x: Value, y: Value, alpha: Value) -> Value:
    """Return the product of two matrices, scaled by ``alpha``."""
    return _scale(alpha, linalg.dot(x, y))


@lowers("tensor.BatchedDot")
def lower_batched_dot(ctx: RuleContext, x: Value, y: Value) -> Value:
    """Return the products of the matrices or vectors along the first axes."""
    n, m = x.shape[0], y.shape[0]
    error = BatchMismatchError(f"Cannot multiply batches of sizes {n} and {m}.")
    require_equal(n, m, error)
    return linalg.batched_dot(x, y)


@lowers("tensor.Gemv", "tensor.CGemv")
def lower_gemv(ctx: RuleContext, y: Value, alpha: Value, a: Value, x: Value, beta: Value) -> Value:
    """Return ``beta * y + alpha * dot(a, x)``."""
    product = linalg.dot(a, x)
    _require_equal_shapes(y, product)
    return _accumulate(beta, y, _scale(alpha, product))


@lowers("tensor.Gemm")
def lower_gemm(ctx: RuleContext, z: Value, alpha: Value, x: Value, y: Value, beta: Value) -> Value:
    """Return ``beta * z + alpha * dot(x, y)``."""
    return _accumulate(beta, z, _scale(alpha, linalg.dot(x, y)))


@lowers("tensor.Ger", "tensor.CGer", "tensor.ScipyGer")
def lower_ger(ctx: RuleContext, a: Value, alpha: Value, x: Value, y: Value) -> Value:
    """Return ``a + alpha * outer(x, y)``."""
    product = linalg.outer(x, y)
    _require_equal_shapes(a, product)
    return a + _scale(alpha, product)
