"""Rules for Ops of the arrays of sparse matrices, which rewrites and gradients make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprgen.arguments.sparse import FORMATS
from jaxprgen.emit import sparse as sp, sparse_math as sm
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
    ctx: RuleContext, data: Value, indices: Value, pointers: Value, shape: Value, *g: Value
) -> Value:
    """Return the elements of one matrix at the positions of another's entries."""
    rows, columns = map(as_size, ctx.static(3))
    other = columns if pointers.shape[0] - 1 == rows else rows
    x = _of_arrays(data, indices, pointers, 0, other)
    y = _of_arrays(g[0], g[1], g[2], 0, other)
    return sm.looked_up(y, *x.indices).astype(ctx.dtype)


@lowers("sparse.StructuredDotCSC", folds=False)
def lower_structured_dot_csc(
    ctx: RuleContext, data: Value, indices: Value, pointers: Value, rows: Value, y: Value
) -> Value:
    """Multiply a CSC matrix and a dense one."""
    x = _of_arrays(data, indices, pointers, 1, ctx.static_int(3))
    return sm.dot(x, y).astype(ctx.dtype)


def _register(
    name: str, order: int | None, axis: int | None, compute: Callable[[Sparse, Value], Value]
) -> None:
    """Make a function the rule of an Op of a matrix and an array.

    Without an ``order``, the Op has a format. The ``axis`` of the array is as long as the axis of
    the matrix that is not compressed; by default it is the same axis.
    """

    @lowers(name, folds=False)
    def lower(ctx: RuleContext, data: Value, indices: Value, pointers: Value, y: Value) -> Value:
        own = FORMATS.index(ctx.op.format) if order is None else order
        size = y.shape[1 - own if axis is None else axis]
        return compute(_of_arrays(data, indices, pointers, own, size), y).astype(ctx.dtype)


def _scaled(x: Sparse, y: Value) -> Value:
    return x.data * sm.elements(y, x)


_register("sparse.StructuredDotCSR", order=0, axis=0, compute=sm.dot)
_register("sparse.MulSDCSR", order=0, axis=None, compute=_scaled)
_register("sparse.MulSDCSC", order=1, axis=None, compute=_scaled)
_register("sparse.MulSVCSR", order=0, axis=0, compute=lambda x, y: x.data * y[x.indices[1]])
for _name in ("sparse.StructuredAddSVCSR", "sparse.StructuredAddSparseDenseVectorCSR"):
    _register(_name, order=0, axis=0, compute=lambda x, y: x.data + y[x.indices[1]])
for _name in ("sparse.AddSD_ccode", "sparse.AddSparseDenseC"):
    _register(_name, order=None, axis=None, compute=lambda x, y: sp.to_dense(x) + y)


@lowers("sparse.StructuredDotGradCSR", "sparse.StructuredDotGradCSC", folds=False)
def lower_structured_dot_grad(
    ctx: RuleContext, indices: Value, pointers: Value, y: Any, g: Any
) -> Value:
    """Return the derivative of a product by the entries of its sparse factor."""
    y, g = dense_of(y), dense_of(g)
    order = int(type(ctx.op).__name__.endswith("CSC"))
    data = full(indices.shape, 0, g.dtype)
    x = _of_arrays(data, indices, pointers, order, (y, g)[order].shape[0])
    return sm.sampled_dot(g, y, x).astype(ctx.dtype)


@lowers("sparse.UsmmCscDense", folds=False)
def lower_usmm_csc_dense(
    ctx: RuleContext, alpha: Value, data: Value, indices: Value, pointers: Value, *rest: Value
) -> Value:
    """Return ``alpha * x @ y + z`` for a CSC matrix ``x``; ``rest`` is its rows, y and z."""
    _, y, z = rest
    x = _of_arrays(data, indices, pointers, 1, ctx.static_int(4))
    alpha = reshape(alpha, ()) if alpha.size == 1 else alpha
    return (sm.dot(x, y) * alpha + z).astype(ctx.dtype)


@lowers("sparse.SamplingDotCSR", folds=False)
def lower_sampling_dot_csr(ctx: RuleContext, x: Value, y: Value, *matrix: Value) -> list[Value]:
    """Return the entries of ``p * (x @ y.T)`` for a CSR matrix ``p``, and their positions."""
    data, indices, pointers, _ = matrix
    p = _of_arrays(data, indices, pointers, 0, y.shape[0])
    return [(data * sm.sampled_dot(x, y, p)).astype(ctx.dtype), indices, pointers]
