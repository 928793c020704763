"""Rules that make, convert and take apart sparse matrices."""

from __future__ import annotations

from typing import Any

from jaxprgen.arguments.sparse import FORMATS
from jaxprgen.emit import index as ix, primitives as lax, sparse as sp, sparse_math as sm
from jaxprgen.emit.shape import repeat_evenly, reshape, transpose
from jaxprgen.emit.sizes import as_size, is_known
from jaxprgen.emit.sparse import Sparse
from jaxprgen.emit.values import INT32, Value
from jaxprgen.errors import IndexOutOfBoundsError, StaticShapeError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import is_a, library_of
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.shape import lower_shape
from jaxprgen.ops.sparse.operands import (
    dense_of,
    lower_all,
    lowers_matrices,
    matrix_of,
    order_of,
    warn_of_dense,
)
from jaxprgen.ops.subtensor import require_in_bounds

# --- Construction and properties ----------------------------------------------------------


@lowers("sparse.CSM", folds=False)
def lower_csm(
    ctx: RuleContext, data: Value, indices: Value, pointers: Value, shape: Value
) -> Sparse:
    """Return the matrix of these arrays, of a static shape."""
    rows, columns = map(as_size, ctx.static(3))
    order = FORMATS.index(ctx.op.format)
    sp.require_same(data.shape, indices.shape)
    parts = pointers.shape[0] - rows
    if getattr(ctx.node.tag, "may_have_parts", False) and is_known([parts]) and parts > 1:
        return sp.in_parts(data, indices, pointers, (rows, columns), parts)
    sp.require_same(pointers.shape, ((rows, columns)[order] + 1,))
    return sp.compressed(data, indices, pointers, (rows, columns), order)


@lowers("sparse.CSMProperties", folds=False)
def lower_csm_properties(ctx: RuleContext, x: Any) -> list[Any]:
    """Return the entries, their indices, the pointers and the shape."""
    order = order_of(ctx.node.inputs[0])
    x = matrix_of(x)
    count = None if x.is_exact or not _shows_size(ctx) else _stored(ctx, x)
    x = sp.arranged(x, order)
    x = x if count is None else sp.cut(x, count)
    shape = lower_shape(ctx, x)
    shape = shape if isinstance(shape, Value) else Value(shape)
    return [x.data, x.indices[1 - order], sp.pointers_of(x, order), shape.astype(INT32)]


def _shows_size(ctx: RuleContext) -> bool:
    """Return whether it matters how many entries there are, besides those that are stored.

    It does not where functions of the entries become a matrix again; see also
    `jaxprgen.graphs.sparse.all_entries`.
    """
    if getattr(ctx.node.tag, "has_all_entries", False):
        return False
    plan, entries = ctx.lowering.plan, set[int]()
    for step in plan.steps:
        if is_a(step.node.op, "sparse.CSMProperties") and step.inputs == ctx.step.inputs:
            entries.update(step.outputs[:2])  # Those of one matrix are as long as each other.
        if is_a(step.node.op, "sparse.CSM") or entries.isdisjoint(step.inputs):
            continue
        others = (plan.variables[p].type.ndim for p in step.inputs if p not in entries)
        if not is_a(step.node.op, "tensor.Elemwise") or any(others):
            return True
        entries.update(step.outputs)
    return not entries.isdisjoint(plan.output_places)


def _stored(ctx: RuleContext, x: Sparse) -> int:
    """Return how many entries are stored, which values of arguments decide."""
    instead = "Compute with the matrix itself, or make it dense."
    if x.parts[1] > 1:
        raise StaticShapeError(
            "The rows of the matrix are split over devices, and how many entries it stores is not "
            f"known. {instead}"
        )
    count = ctx.decided([0], lambda values: int(values[0].nnz))
    if count is None:
        raise ctx.undecided(
            [0], f"The values of a matrix decide how many entries it stores. {instead}"
        )
    return count


@lowers("sparse.DenseFromSparse", folds=False)
def lower_dense_from_sparse(ctx: RuleContext, x: Any) -> Value:
    """Return the matrix as an array."""
    why = "the graph makes a matrix dense"
    instead = (
        f"If this is part of a gradient by {library_of(ctx.op)}.grad, as of sp_sum without "
        "sparse_grad=True, let JAX differentiate by the entries."
    )
    x = dense_of(x)
    warn_of_dense(ctx, x.shape, x.dtype, why, instead)
    return x


@lowers("sparse.SparseFromDense", folds=False)
def lower_sparse_from_dense(ctx: RuleContext, x: Value) -> Sparse:
    """Return the matrix of the elements that are not zero."""
    return sp.from_dense(x, order_of(ctx.node.outputs[0]))


@lowers("sparse.ConstructSparseFromList", folds=False)
def lower_construct_sparse_from_list(
    ctx: RuleContext, shape: Value, values: Value, rows: Value
) -> Sparse:
    """Return the matrix whose given rows are those of an array, and which is empty elsewhere."""
    n, m = map(as_size, ctx.static(0))
    count, width = values.shape
    data = reshape(transpose(values, (1, 0)), (count * width,))
    index = reshape(repeat_evenly(reshape(rows, (1, count)), width, 0), (count * width,))
    columns = reshape(lax.iota(INT32, (width, count), 0), (count * width,))
    return Sparse(data, (index.astype(INT32), columns), (n, m), 1, is_exact=True)


@lowers("sparse.SquareDiagonal", folds=False)
def lower_square_diagonal(ctx: RuleContext, diagonal: Value) -> Sparse:
    """Return a diagonal matrix."""
    (n,) = diagonal.shape
    places = sp.counted(n)
    return Sparse(diagonal, (places, places), (n, n), 1, sp.counted(n + 1), is_exact=True)


lower_all(
    __name__,
    {
        "sparse.Cast": lambda x: x,
        "sparse.Neg": lambda x: x.with_data(-x.data),
        "sparse.Transpose": sp.transposed,
        "sparse.Remove0": sp.without_zeros,
        "sparse.Diag": sm.diagonal,
    },
)


@lowers_matrices("sparse.EnsureSortedIndices")
def lower_ensure_sorted_indices(ctx: RuleContext, x: Sparse) -> Sparse:
    """Sort the entries within each row or column."""
    return sp.arranged(x, order_of(ctx.node.outputs[0]), wholly=True)


@lowers_matrices("sparse.HStack", "sparse.VStack")
def lower_stack(ctx: RuleContext, *matrices: Sparse) -> Sparse:
    """Join matrices side by side, or below each other."""
    axis = 0 if type(ctx.op).__name__ == "VStack" else 1
    offsets: list[tuple[Any, Any]] = []
    size: Any = 0
    for x in matrices:
        sp.require_same(x.shape[1 - axis : 2 - axis], matrices[0].shape[1 - axis : 2 - axis])
        offsets.append((size, 0) if axis == 0 else (0, size))
        size = size + x.shape[axis]
    other = matrices[0].shape[1 - axis]
    joined = sp.joined(matrices, (size, other) if axis == 0 else (other, size), offsets)
    # As in SciPy: entries of one position are added up where formats differ.
    formats = {order_of(v) for v in (*ctx.node.inputs, *ctx.node.outputs)}
    return joined if len(formats) == 1 else sp.summed(joined)


@lowers_matrices("sparse.SparseBlockDiagonal")
def lower_sparse_block_diagonal(ctx: RuleContext, *xs: Value | Sparse) -> Sparse:
    """Return a matrix with blocks along its diagonal, each of them sparse or dense."""
    order = order_of(ctx.node.outputs[0])
    blocks = [sp.from_dense(x, order) if isinstance(x, Value) else x for x in xs]
    ends = [(0, 0)]
    for x in blocks:
        ends.append((ends[-1][0] + x.shape[0], ends[-1][1] + x.shape[1]))
    return sp.summed(sp.joined(blocks, ends[-1], ends[:-1]))


# --- Parts --------------------------------------------------------------------------------


@lowers_matrices("sparse.GetItem2d")
def lower_get_item_2d(ctx: RuleContext, x: Sparse, *bounds: Value | None) -> Sparse:
    """Return a part of a matrix, by a slice with known bounds for each axis."""
    given = [None if b is None else ctx.static_int(i) for i, b in enumerate(bounds, 1)]
    slices = (slice(*given[:3]), slice(*given[3:]))
    return sm.part(x, [ix.bounds(s, n) for s, n in zip(slices, x.shape, strict=True)])


@lowers_matrices("sparse.GetItemScalar")
def lower_get_item_scalar(ctx: RuleContext, x: Sparse, row: Value, column: Value) -> Value:
    """Return one element."""
    return reshape(sm.looked_up(x, _index(ctx, x, row, 0), _index(ctx, x, column, 1)), ())


def _index(ctx: RuleContext, x: Sparse, index: Value, axis: int) -> Value:
    """Return a vector of indices of an axis, counted from the front."""
    size, known = x.shape[axis], index.static
    if known is not None and isinstance(size, int):
        outside = known[(known < -size) | (known >= size)]
        if outside.size:
            text = f"Index {outside.flat[0]} is out of bounds for axis {axis} with size {size}."
            raise IndexOutOfBoundsError(text)
    else:
        require_in_bounds(ctx, index, axis, size, "finds zeros there")
    return ix.wrap(reshape(index, (index.size,)), size, INT32)


@lowers_matrices("sparse.GetItemList")
def lower_get_item_list(ctx: RuleContext, x: Sparse, index: Value) -> Sparse:
    """Return the rows at a vector of indices."""
    return sm.rows_at(x, _index(ctx, x, index, 0))


@lowers_matrices("sparse.GetItem2Lists")
def lower_get_item_2_lists(ctx: RuleContext, x: Sparse, rows: Value, columns: Value) -> Value:
    """Return the elements at pairs of indices."""
    sp.require_same(rows.shape, columns.shape)
    return sm.looked_up(x, _index(ctx, x, rows, 0), _index(ctx, x, columns, 1))


@lowers_matrices("sparse.GetItemListGrad")
def lower_get_item_list_grad(ctx: RuleContext, x: Sparse, index: Value, g: Sparse) -> Sparse:
    """Return the matrix whose rows at a vector of indices are those of another, the last ones."""
    return sm.rows_written(_index(ctx, x, index, 0), g, x.shape)


@lowers_matrices("sparse.GetItem2ListsGrad")
def lower_get_item_2_lists_grad(
    ctx: RuleContext, x: Sparse, rows: Value, columns: Value, g: Value
) -> Sparse:
    """Return the matrix with these elements at pairs of indices, the last ones."""
    for size in (columns.shape, g.shape):
        sp.require_same(rows.shape, size)
    pair = (_index(ctx, x, rows, 0), _index(ctx, x, columns, 1))
    return sp.last_of_each(Sparse(g, pair, x.shape))
