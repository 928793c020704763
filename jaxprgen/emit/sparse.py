"""Sparse matrices: the entries that are stored, their positions, and a static shape.

Computations gather and add up entries. A dense array is made only of a result that is one, or for
which no smaller bound of the number of entries is known. Several entries may have one position;
their sum counts. An entry whose position is the shape itself is not stored: it fills an array whose
size is an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jaxprgen._jax import Size
from jaxprgen.arguments.sparse import FORMATS
from jaxprgen.emit import elementwise as ew, primitives as lax, reduce
from jaxprgen.emit.shape import concatenate, expand_dims, reshape, slice_axis, transpose
from jaxprgen.emit.sizes import is_known, require_equal
from jaxprgen.emit.values import BOOL, INT32, Array, Dtype, Shape, Value, alike, full, truth, where
from jaxprgen.errors import ShapeMismatchError


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sparse matrix.

    Attributes
    ----------
    data
        The entries, one for each position.
    indices
        The rows and the columns of the entries, int32.
    shape
        The shape of the matrix.
    order
        The axis by whose indices the entries ascend; None if it is not known.
    pointers
        Where the entries of each row (each column) begin, and the last ones end, if ``order`` is
        0 (is 1) and this is known.
    is_exact
        Whether all entries are stored.
    parts
        An axis that is cut into equal parts, and their number. The entries are as many parts, each
        with the indices of one part of the axis, so that devices may hold the parts.
    """

    data: Value
    indices: tuple[Value, Value]
    shape: Shape
    order: int | None = None
    pointers: Value | None = None
    is_exact: bool = False
    parts: tuple[int, int] = (0, 1)

    @property
    def dtype(self) -> Dtype:
        """The dtype of the entries."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return 2

    @property
    def slots(self) -> Size:
        """The number of entries, with those that are not stored."""
        return self.data.shape[0]

    def mapped(self, function: Callable[[Value], Value]) -> Sparse:
        """Return the matrix with a function of each of its arrays."""
        rows, columns = map(function, self.indices)
        pointers = None if self.pointers is None else function(self.pointers)
        return replace(self, data=function(self.data), indices=(rows, columns), pointers=pointers)

    def with_data(self, data: Value) -> Sparse:
        """Return the matrix with other entries at the same positions."""
        return replace(self, data=data)


# --- Reading and adding up ----------------------------------------------------------------


def starts_of(indices: Sequence[Value]) -> Value:
    """Return vectors of indices as JAX's gather and scatter take them."""
    return concatenate([expand_dims(i, [i.ndim]) for i in indices], indices[0].ndim)


def read(x: Value, indices: Sequence[Value]) -> Value:
    """Return elements of the first axes of an array; zeros where an index is out of bounds."""
    axes = range(len(indices))
    if 0 in x.shape:  # XLA reads from no empty array.
        return full((*indices[0].shape, *x.shape[len(indices) :]), 0, x.dtype)
    return lax.gather(x, starts_of(indices), axes, [0], in_bounds=False, drop=True)


def total_at(updates: Value, indices: Sequence[Value], shape: Shape, *, ordered: bool) -> Value:
    """Return an array of sums at indices of its first axes; indices out of bounds are dropped."""
    if updates.dtype == BOOL:
        return truth(total_at(updates.astype(INT32), indices, shape, ordered=ordered))
    zeros, axes = full((*shape, *updates.shape[1:]), 0, updates.dtype), range(len(shape))
    if 0 in zeros.shape or 0 in updates.shape:
        return zeros
    starts = starts_of(indices)
    return lax.scatter_add(
        zeros, starts, updates, axes, [0], in_bounds=False, drop=True, ordered=ordered
    )


def at_entries(x: Value, matrix: Sparse, *axes: int) -> Value:
    """Return elements of an array, whose first axes are these of a matrix, at its entries."""
    sizes, indices, moved, paired = _in_parts(matrix, axes)
    rest = x.shape[len(axes) :]
    if not paired or 0 in x.shape:
        return read(x, indices)
    x = reshape(x, (*sizes, *rest))
    found = lax.gather(
        x, starts_of(indices), moved, [0, 1], in_bounds=False, drop=True, paired=paired
    )
    return reshape(found, (matrix.slots, *rest))


def sum_at_entries(updates: Value, matrix: Sparse, *axes: int) -> Value:
    """Return an array of sums, whose axes are these of a matrix, of one value for each entry."""
    shape, rest = tuple(matrix.shape[d] for d in axes), updates.shape[1:]
    sizes, indices, moved, paired = _in_parts(matrix, axes)
    if not paired or 0 in (*shape, *updates.shape) or updates.dtype == BOOL:
        whole = [matrix.indices[d] for d in axes]
        return total_at(updates, whole, shape, ordered=axes == (matrix.order,))
    updates = reshape(updates, (*indices[0].shape, *rest))
    zeros, starts = full((*sizes, *rest), 0, updates.dtype), starts_of(indices)
    sums = lax.scatter_add(
        zeros, starts, updates, moved, [0, 1], in_bounds=False, drop=True, paired=paired
    )
    return reshape(sums, (*shape, *rest))


def _in_parts(
    x: Sparse, axes: Sequence[int]
) -> tuple[list[Size], list[Value], list[int], dict[int, int]]:
    """Return how entries index an array whose first axes are these of a matrix.

    It is the sizes of these axes, the indices, the axes that they index, and, if one of the axes is
    cut, the axis of its parts, which goes along with the first axis of the indices. Devices that
    hold parts of both then exchange nothing.
    """
    sizes, indices = [x.shape[d] for d in axes], [x.indices[d] for d in axes]
    cut, parts = x.parts
    if parts == 1 or cut not in axes:
        return sizes, indices, list(range(len(axes))), {}
    place, count = axes.index(cut), x.slots // parts
    size = sizes[place] // parts
    indices = [reshape(i, (parts, count)) for i in indices]
    indices[place] -= lax.iota(INT32, (parts, count), 0) * size
    sizes[place : place + 1] = [parts, size]
    return sizes, indices, [d + (d >= place) for d in range(len(axes))], {place: 0}


def written(x: Value, updates: Value, index: Value) -> Value:
    """Return a vector with other elements at an index, of which the last wins on CPUs."""
    if 0 in (*x.shape, *updates.shape):
        return x
    return lax.scatter(x, starts_of([index]), updates, [0], [0], in_bounds=True)


def counted(n: Size) -> Value:
    """Return the numbers below a size, int32."""
    return lax.iota(INT32, (n,), 0)


def _static(*xs: Value) -> list[Array] | None:
    found = [x.static for x in xs]
    return None if any(x is None for x in found) else found  # type: ignore[return-value]


# --- Formats ------------------------------------------------------------------------------


def compressed(data: Value, indices: Value, pointers: Value, shape: Shape, order: int) -> Sparse:
    """Return the matrix of the three arrays of SciPy's CSR (``order`` 0) or CSC format."""
    along = _expanded(pointers.astype(INT32), data.shape[0])
    across = indices.astype(INT32)
    pair = (along, across) if order == 0 else (across, along)
    return Sparse(data, pair, shape, order, pointers.astype(INT32), is_exact=True)


def in_parts(data: Value, indices: Value, pointers: Value, shape: Shape, parts: int) -> Sparse:
    """Return the matrix of equal parts of its rows, one after the other, each in CSR format.

    Entries of a part after its last pointer are not stored.
    """
    size, count = shape[0] // parts, data.shape[0] // parts
    pointers = reshape(pointers, (parts, size + 1)).astype(INT32)
    begins = expand_dims(slice_axis(pointers, 1, 1, size + 1), [2])
    ones, zeros = full((parts, size), 1, INT32), full((parts, count + 1), 0, INT32)
    steps = lax.scatter_add(
        zeros, begins, ones, [1], [0, 1], in_bounds=False, drop=True, ordered=True, paired={0: 0}
    )
    own = slice_axis(reduce.cumsum(steps, 1), 1, 0, count)
    rows = where(own < size, own + lax.iota(INT32, own.shape, 0) * size, own.like(shape[0]))
    pair = (reshape(rows, data.shape), indices.astype(INT32))
    return Sparse(data, pair, shape, parts=(0, parts))


def _expanded(pointers: Value, count: Size) -> Value:
    """Return the index of each of ``count`` entries along the compressed axis."""
    size = pointers.shape[0] - 1
    known = pointers.static
    if known is not None and is_known((count,)):
        rows = np.repeat(np.arange(size, dtype=np.int32), np.diff(known))[: int(count)]
        return Value(np.append(rows, np.full(int(count) - rows.size, size, np.int32)))
    begins = slice_axis(pointers, 0, 1, size + 1)
    steps = total_at(full((size,), 1, INT32), [begins], (count + 1,), ordered=True)
    return slice_axis(reduce.cumsum(steps, 0), 0, 0, count)


def of_scipy(matrix: Any) -> Sparse:
    """Return a known matrix of SciPy's."""
    if matrix.format not in FORMATS:
        matrix = matrix.tocsr()
    data, indices, pointers = (
        Value(np.asarray(x)) for x in (matrix.data, matrix.indices, matrix.indptr)
    )
    order = FORMATS.index(matrix.format)
    return compressed(data, indices, pointers, tuple(matrix.shape), order)


def pointers_of(x: Sparse, order: int) -> Value:
    """Return where the entries of each row or column of an arranged matrix begin."""
    if x.pointers is not None:
        return x.pointers
    ones = full((x.slots,), 1, INT32)
    counts = total_at(ones, [x.indices[order]], (x.shape[order],), ordered=True)
    return concatenate([full((1,), 0, INT32), reduce.cumsum(counts, 0)], 0)


def arranged(x: Sparse, order: int, *, wholly: bool = False) -> Sparse:
    """Return the matrix with ascending rows (``order`` 0) or columns; what is not stored is last.

    Entries of one row or column keep their order, or also ascend if they are to ``wholly``.
    """
    if x.order == order and not wholly:
        return x
    keys = [x.indices[order], x.indices[1 - order]]
    known = _static(*keys)
    if known is not None:
        permutation = Value(np.lexsort(known[::-1]).astype(np.int32))
        keys = [Value(each[permutation.static]) for each in known]
    else:
        *keys, permutation = lax.sort([*keys, counted(x.slots)], 0, 2)
    data = read(x.data, [permutation])
    pointers = x.pointers if x.order == order else None
    pair = (keys[order], keys[1 - order])
    return Sparse(data, pair, x.shape, order, pointers, x.is_exact)


def cut(x: Sparse, count: int) -> Sparse:
    """Return an arranged matrix with its first entries alone, all of which are stored."""
    data, rows, columns = (slice_axis(v, 0, 0, count) for v in (x.data, *x.indices))
    return replace(x, data=data, indices=(rows, columns), is_exact=True)


def transposed(x: Sparse) -> Sparse:
    """Return the transpose, with the same entries."""
    order = None if x.order is None else 1 - x.order
    rows, columns = x.indices
    parts = 1 - x.parts[0], x.parts[1]
    return replace(x, indices=(columns, rows), shape=x.shape[::-1], order=order, parts=parts)


def to_dense(x: Sparse) -> Value:
    """Return the matrix as an array."""
    return sum_at_entries(x.data, x, 0, 1)


def from_dense(x: Value, order: int) -> Sparse:
    """Return a matrix of the elements of an array that are not zero."""
    n, m = x.shape
    if order:
        return transposed(from_dense(transpose(x, (1, 0)), 0))
    rows, columns = (reshape(lax.iota(INT32, (n, m), d), (n * m,)) for d in (0, 1))
    return without_zeros(Sparse(reshape(x, (n * m,)), (rows, columns), (n, m), 0))


def kept(x: Sparse, condition: Value) -> Sparse:
    """Return the matrix of the entries for which a condition holds."""
    rows, columns = (
        where(condition, i, full((), n, INT32)) for i, n in zip(x.indices, x.shape, strict=True)
    )
    data = where(condition, x.data, x.data.like(0))
    return Sparse(data, (rows, columns), x.shape, parts=x.parts)


def without_zeros(x: Sparse) -> Sparse:
    """Return the matrix without stored zeros; NaN stays."""
    return kept(x, truth(x.data))


# --- Entries of one position --------------------------------------------------------------


def groups(indices: tuple[Value, Value], shape: Shape) -> tuple[Value, tuple[Value, Value]]:
    """Return a number for each entry, the same for one position; and the positions by number.

    They ascend by row and then by column. Numbers that no entry has are of no stored position.
    """
    known = _static(*indices)
    if known is not None:
        table, numbers = np.unique(np.stack(known), axis=1, return_inverse=True)
        rows, columns = (Value(np.ascontiguousarray(each)) for each in table)
        return Value(numbers.reshape(-1).astype(np.int32)), (rows, columns)
    count = indices[0].shape[0]
    *keys, places = lax.sort([*indices, counted(count)], 0, 2)
    differs = full((1,), 0, INT32)
    if not is_known((count,)) or count > 1:
        pairs = [(slice_axis(k, 0, 1, count), slice_axis(k, 0, 0, count - 1)) for k in keys]
        (a, b), (c, d) = pairs
        changes = ~(ew.equal(a, b) & ew.equal(c, d))
        differs = concatenate([differs, changes.astype(INT32)], 0)
    elif not count:
        differs = full((0,), 0, INT32)
    numbers = written(full((count,), 0, INT32), reduce.cumsum(differs, 0), places)
    rows, columns = (
        written(full((count,), n, INT32), i, numbers) for i, n in zip(indices, shape, strict=True)
    )
    return numbers, (rows, columns)


def summed(x: Sparse) -> Sparse:
    """Return the matrix with one entry for each position, by row and then by column."""
    numbers, indices = groups(x.indices, x.shape)
    data = total_at(x.data, [numbers], indices[0].shape, ordered=False)
    return Sparse(data, indices, x.shape, 0)


def last_of_each(x: Sparse) -> Sparse:
    """Return the matrix with the last entry of each position."""
    numbers, indices = groups(x.indices, x.shape)
    places = counted(x.slots)
    winners = written(full(indices[0].shape, 0, INT32), places, numbers)
    return kept(x, ew.equal(read(winners, [numbers]), places))


def joined(xs: Sequence[Sparse], shape: Shape, offsets: Sequence[tuple[Size, Size]]) -> Sparse:
    """Return the matrix of the entries of several, each moved by its offsets."""
    pairs = [_moved(x, offset, shape) for x, offset in zip(xs, offsets, strict=True)]
    rows, columns = (concatenate([pair[d] for pair in pairs], 0) for d in (0, 1))
    data = concatenate(alike(*(x.data for x in xs)), 0)
    return Sparse(data, (rows, columns), shape)


def _moved(x: Sparse, offset: tuple[Size, Size], shape: Shape) -> list[Value]:
    """Return the positions of entries, moved within a larger shape; known ones stay known."""
    known = _static(*x.indices)
    ends = zip(offset, shape, strict=True)
    if known is not None and is_known((*x.shape, *offset, *shape)):
        inside = (known[0] < x.shape[0]) & (known[1] < x.shape[1])
        pairs = zip(known, ends, strict=True)
        return [Value(np.where(inside, i + o, n).astype(np.int32)) for i, (o, n) in pairs]
    is_stored = (x.indices[0] < x.shape[0]) & (x.indices[1] < x.shape[1])
    pairs = zip(x.indices, ends, strict=True)
    return [where(is_stored, i + o, full((), n, INT32)) for i, (o, n) in pairs]


def require_same(shape: Shape, other: Shape) -> None:
    """Raise unless two shapes agree."""
    text = f"Shapes {tuple(shape)} and {tuple(other)} of sparse matrices do not agree."
    if len(shape) != len(other):
        raise ShapeMismatchError(text)
    for n, m in zip(shape, other, strict=True):
        require_equal(n, m, text)
