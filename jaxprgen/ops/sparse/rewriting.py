"""Rules for Ops of the arrays of sparse matrices, which rewrites and gradients make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprgen.arguments.sparse import FORMATS
from jaxprgen.emit import sparse as sp
from jaxprgen.emit import sparse_math as sm
from jaxprgen.emit.shape import reshape
from jaxprgen.emit.sizes import as_size
from jaxprgen.emit.sparse import Sparse
from jaxprgen.emit.values import Value, full
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.sparse.operands import dense_of

# --- Ops of arrays, which Aesara's rewrites make ------------------------------------------


def _of_arrays(
    data: Value, indices: Value, pointers: Value, order: int, other: Any = None
) -> Sparse:
    """Return the matrix of arrays; ``other`` is its size along the axis that is not compressed."""
    size = pointers.shape[0] - 1
    shape = (size, other) if order == 0 else (other, size)
    return sp.compressed(data, indices, pointers, shape, order)


@lowers("sparse.CSMGrad", "sparse.CSMGradC", folds=False)
def lower_csm_grad(
    ctx: RuleContext,
    data: Value,
    indices: Value,
    pointers: Value,
    shape: Value,
    g_data: Value,
    g_indices: Value,
    g_pointers: Value,
    g_shape: Value,
) -> Value:
    """Return the elements of one matrix at the positions of another's entries."""
    rows, columns = map(as_size, ctx.static(3))
    other = columns if pointers.shape[0] - 1 == rows else rows
    x = _of_arrays(data, indices, pointers, 0, other)
    g = _of_arrays(g_data, g_indices, g_pointers, 0, other)
    return sm.looked_up(g, *x.indices).astype(ctx.dtype)


@lowers("sparse.StructuredDotCSC", folds=False)
def lower_structured_dot_csc(
    ctx: RuleContext, data: Value, indices: Value, pointers: Value, rows: Value, y: Value
) -> Value:
    """Multiply a CSC matrix and a dense one."""
    x = _of_arrays(data, indices, pointers, 1, ctx.static_int(3))
    return sm.dot(x, y).astype(ctx.dtype)


@lowers("sparse.StructuredDotCSR", folds=False)
def lower_structured_dot_csr(
    ctx: RuleContext, data: Value, indices: Value, pointers: Value, y: Value
) -> Value:
    """Multiply a CSR matrix and a dense one."""
    return sm.dot(_of_arrays(data, indices, pointers, 0, y.shape[0]), y).astype(ctx.dtype)


def _structured_dot_grad(order: int) -> Callable[..., Value]:
    def rule(ctx: RuleContext, indices: Value, pointers: Value, y: Any, g: Any) -> Value:
        y, g = dense_of(y), dense_of(g)
        data = full(indices.shape, 0, g.dtype)
        x = _of_arrays(data, indices, pointers, order, (y, g)[order].shape[0])
        return sm.sampled_dot(g, y, x).astype(ctx.dtype)

    rule.__doc__ = "Return the derivative of a product by the entries of its sparse factor."
    return rule


lower_structured_dot_grad_csr = lowers("sparse.StructuredDotGradCSR", folds=False)(
    _structured_dot_grad(0)
)
lower_structured_dot_grad_csc = lowers("sparse.StructuredDotGradCSC", folds=False)(
    _structured_dot_grad(1)
)


@lowers("sparse.UsmmCscDense", folds=False)
def lower_usmm_csc_dense(
    ctx: RuleContext,
    alpha: Value,
    data: Value,
    indices: Value,
    pointers: Value,
    rows: Value,
    y: Value,
    z: Value,
) -> Value:
    """Return ``alpha * x @ y + z`` for a CSC matrix ``x``."""
    x = _of_arrays(data, indices, pointers, 1, ctx.static_int(4))
    alpha = reshape(alpha, ()) if alpha.size == 1 else alpha
    return (sm.dot(x, y) * alpha + z).astype(ctx.dtype)


def _mul_sd(order: int) -> Callable[..., Value]:
    def rule(ctx: RuleContext, data: Value, indices: Value, pointers: Value, y: Value) -> Value:
        x = _of_arrays(data, indices, pointers, order, y.shape[1 - order])
        return (data * sm.elements(y, x)).astype(ctx.dtype)

    rule.__doc__ = "Multiply the entries by the elements of an array at their positions."
    return rule


lower_mul_sd_csr = lowers("sparse.MulSDCSR", folds=False)(_mul_sd(0))
lower_mul_sd_csc = lowers("sparse.MulSDCSC", folds=False)(_mul_sd(1))


@lowers("sparse.MulSVCSR", folds=False)
def lower_mul_sv_csr(
    ctx: RuleContext, data: Value, indices: Value, pointers: Value, y: Value
) -> Value:
    """Multiply the columns of a CSR matrix by the elements of a vector."""
    return (data * y[indices]).astype(ctx.dtype)


@lowers("sparse.StructuredAddSVCSR", "sparse.StructuredAddSparseDenseVectorCSR", folds=False)
def lower_structured_add_sv_csr(
    ctx: RuleContext, data: Value, indices: Value, pointers: Value, y: Value
) -> Value:
    """Add a row vector to the entries of a CSR matrix."""
    return (data + y[indices]).astype(ctx.dtype)


@lowers("sparse.AddSD_ccode", "sparse.AddSparseDenseC", folds=False)
def lower_add_sd_of_arrays(
    ctx: RuleContext, data: Value, indices: Value, pointers: Value, y: Value
) -> Value:
    """Add a sparse and a dense matrix."""
    order = FORMATS.index(ctx.op.format)
    x = _of_arrays(data, indices, pointers, order, y.shape[1 - order])
    return (sp.to_dense(x) + y).astype(ctx.dtype)


@lowers("sparse.SamplingDotCSR", folds=False)
def lower_sampling_dot_csr(
    ctx: RuleContext,
    x: Value,
    y: Value,
    data: Value,
    indices: Value,
    pointers: Value,
    columns: Value,
) -> list[Value]:
    """Return the entries of ``p * (x @ y.T)`` for a CSR matrix ``p``, and their positions."""
    p = _of_arrays(data, indices, pointers, 0, y.shape[0])
    return [(data * sm.sampled_dot(x, y, p)).astype(ctx.dtype), indices, pointers]
