"""Rules for sums, products and comparisons of sparse matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import sparse as sp
from jaxprgen.emit import sparse_math as sm
from jaxprgen.emit.shape import reshape, transpose
from jaxprgen.emit.sizes import is_known
from jaxprgen.emit.sparse import Sparse
from jaxprgen.emit.values import Value, alike, truth, where
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.sparse.operands import dtype_of, matrix_of, order_of, warn_of_dense

# --- Elementwise --------------------------------------------------------------------------


@lowers("sparse.AddSS", "sparse.AddSparseSparse")
def lower_add_ss(ctx: RuleContext, x: Any, y: Any) -> Sparse:
    """Add two matrices; sums that are zero are not stored."""
    return sm.combined(lambda a, b: a + b, matrix_of(x), matrix_of(y))


@lowers("sparse.AddSSData", "sparse.AddSparseSparseData")
def lower_add_ss_data(ctx: RuleContext, x: Any, y: Any) -> Sparse:
    """Add the entries of two matrices that store the same positions in the same order."""
    x, y = (sp.arranged(matrix_of(each), order_of(ctx.node.outputs[0])) for each in (x, y))
    sp.require_same(x.data.shape, y.data.shape)
    return x.with_data(x.data + y.data)


@lowers("sparse.AddSD", "sparse.AddSparseDense")
def lower_add_sd(ctx: RuleContext, x: Any, y: Value) -> Value:
    """Add a sparse and a dense matrix."""
    return (sp.to_dense(matrix_of(x)) + y).astype(ctx.dtype)


@lowers("sparse.StructuredAddSV", "sparse.StructuredAddSparseDenseVector")
def lower_structured_add_sv(ctx: RuleContext, x: Any, y: Value) -> Sparse:
    """Add a row vector to the elements that are not zero."""
    x = sp.summed(matrix_of(x))
    added = x.data + sm.along(x, y, 1)
    return sp.without_zeros(x.with_data(where(truth(x.data), added, x.data)))


@lowers("sparse.MulSS", "sparse.MultiplySparseSparse", "sparse.SparseSparseMultiply")
def lower_mul_ss(ctx: RuleContext, x: Any, y: Any) -> Sparse:
    """Multiply two matrices elementwise."""
    return sm.combined(lambda a, b: a * b, matrix_of(x), matrix_of(y))


@lowers("sparse.MulSD", "sparse.MultiplySparseDense", "sparse.SparseDenseMultiply")
def lower_mul_sd(ctx: RuleContext, x: Any, y: Value) -> Sparse:
    """Multiply the entries by a scalar, or by the elements of a dense matrix at their positions."""
    x = matrix_of(x)
    if y.ndim:
        sp.require_same(x.shape, y.shape)
    return x.with_data((x.data * sm.elements(y, x)).astype(dtype_of(ctx)))


@lowers("sparse.MulSV", "sparse.MultiplySparseDenseVector", "sparse.SparseDenseVectorMultiply")
@lowers("sparse.ColScaleCSC")
def lower_scaled_columns(ctx: RuleContext, x: Any, y: Value) -> Sparse:
    """Multiply the columns by the elements of a vector."""
    return _scaled(ctx, matrix_of(x), y, 1)


@lowers("sparse.RowScaleCSC")
def lower_scaled_rows(ctx: RuleContext, x: Any, y: Value) -> Sparse:
    """Multiply the rows by the elements of a vector."""
    return _scaled(ctx, matrix_of(x), y, 0)


def _scaled(ctx: RuleContext, x: Sparse, y: Value, axis: int) -> Sparse:
    return x.with_data((x.data * sm.along(x, y, axis)).astype(dtype_of(ctx)))


Relation = Callable[[Value, Value], Value]

_EITHER: dict[str, Relation] = {
    "NotEqual": lambda x, y: ~ew.equal(x, y),
    "LessThan": lambda x, y: x < y,
    "GreaterThan": lambda x, y: x > y,
}
"""Relations that do not hold between zeros."""

_BOTH: dict[str, Relation] = {
    "Equal": ew.equal,
    "LessEqual": lambda x, y: x <= y,
    "GreaterEqual": lambda x, y: x >= y,
}
"""Relations that hold between zeros."""

_DENIED = {"Equal": "NotEqual", "LessEqual": "GreaterThan", "GreaterEqual": "LessThan"}
"""What each of these denies."""


def _register(name: str) -> None:
    @lowers(f"sparse.{name}SS", f"sparse.{name}SparseSparse")
    def lower_sparse(ctx: RuleContext, x: Any, y: Any) -> Sparse:
        x, y = matrix_of(x), matrix_of(y)
        dtype = dtype_of(ctx)
        if name in _EITHER:
            return sm.combined(lambda a, b: _EITHER[name](a, b).astype(dtype), x, y)
        why = "two zeros are compared, too, so that the result stores nearly all elements"
        instead = "Compare by !=, < or >, which do not hold between zeros."
        warn_of_dense(ctx, x.shape, x.dtype, why, instead)
        # As in SciPy: where NaN is compared, what denies the relation does not hold.
        denied = _EITHER[_DENIED[name]](*alike(sp.to_dense(x), sp.to_dense(y)))
        return sp.from_dense((~denied).astype(dtype), order_of(ctx.node.outputs[0]))

    @lowers(f"sparse.{name}SD", f"sparse.{name}SparseDense")
    def lower_dense(ctx: RuleContext, x: Any, y: Value) -> Value:
        relation = {**_EITHER, **_BOTH}[name]
        return relation(*alike(sp.to_dense(matrix_of(x)), y)).astype(ctx.dtype)


for _name in (*_EITHER, *_BOTH):
    _register(_name)


# --- Sums and products --------------------------------------------------------------------


@lowers("sparse.SpSum")
def lower_sp_sum(ctx: RuleContext, x: Any) -> Value:
    """Sum a matrix, or its rows or columns."""
    return sm.total(matrix_of(x), ctx.op.axis).astype(ctx.dtype)


def _product(ctx: RuleContext, x: Any, y: Any) -> Value:
    """Return the product of two matrices, as an array; at least one of them is sparse."""
    if isinstance(x, Value):
        return sm.dot_left(x, matrix_of(y))
    x = matrix_of(x)
    if isinstance(y, Value):
        return sm.dot(x, y)
    y = matrix_of(y)
    sizes = [math.prod(each.shape) if is_known(each.shape) else 0 for each in (x, y)]
    smaller = x if sizes[0] < sizes[1] else y
    why = "one of two sparse factors is made dense"
    warn_of_dense(ctx, smaller.shape, smaller.dtype, why, _FROM_THE_RIGHT)
    if smaller is y:
        return sm.dot_sparse(x, y)
    return transpose(sm.dot_sparse(sp.transposed(y), sp.transposed(x)), (1, 0))


_FROM_THE_RIGHT = (
    "If a product with a vector or a dense matrix follows, begin with that one: dot(X, dot(Y, v))."
)


def _sparse_product(ctx: RuleContext, x: Any, y: Any) -> Sparse:
    product = _product(ctx, x, y).astype(dtype_of(ctx))
    why = "how many entries a product of sparse matrices stores depends on values"
    warn_of_dense(ctx, product.shape, product.dtype, why, _FROM_THE_RIGHT)
    return sp.from_dense(product, order_of(ctx.node.outputs[0]))


@lowers("sparse.Dot")
def lower_dot(ctx: RuleContext, x: Any, y: Any) -> Value:
    """Multiply; the result is dense."""
    return _product(ctx, x, y).astype(ctx.dtype)


@lowers("sparse.TrueDot")
def lower_true_dot(ctx: RuleContext, x: Any, y: Any) -> Sparse:
    """Multiply; the result is sparse."""
    return _sparse_product(ctx, x, y)


@lowers("sparse.StructuredDot")
def lower_structured_dot(ctx: RuleContext, x: Any, y: Any) -> Value | Sparse:
    """Multiply; the result is sparse if both operands are."""
    if isinstance(y, Value):
        return _product(ctx, x, y).astype(dtype_of(ctx))
    return _sparse_product(ctx, x, y)


@lowers("sparse.Usmm")
def lower_usmm(ctx: RuleContext, alpha: Value, x: Any, y: Any, z: Value) -> Value:
    """Return ``alpha * x @ y + z``."""
    alpha = reshape(alpha, ()) if alpha.size == 1 else alpha
    return (_product(ctx, x, y) * alpha + z).astype(ctx.dtype)


@lowers("sparse.SamplingDot")
def lower_sampling_dot(ctx: RuleContext, x: Value, y: Value, p: Any) -> Sparse:
    """Return ``p * (x @ y.T)``, computed where ``p`` has entries."""
    p = matrix_of(p)
    return p.with_data((p.data * sm.sampled_dot(x, y, p)).astype(dtype_of(ctx)))
