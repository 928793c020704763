"""Sums, products and parts of sparse matrices, and functions of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jaxprgen._jax import min_size
from jaxprgen.emit import elementwise as ew, primitives as lax, reduce
from jaxprgen.emit.shape import concatenate, expand_dims, reshape, slice_axis, transpose
from jaxprgen.emit.sizes import require_equal
from jaxprgen.emit.sparse import (
    Sparse,
    at_entries,
    counted,
    groups,
    joined,
    kept,
    pointers_of,
    read,
    require_same,
    sum_at_entries,
    summed,
    to_dense,
    total_at,
    transposed,
    without_zeros,
    written,
)
from jaxprgen.emit.values import BOOL, INT32, Shape, Value, alike, broadcast_to, full, where

# --- Functions of the elements ------------------------------------------------------------


def combined(op: Callable[[Value, Value], Value], x: Sparse, y: Sparse) -> Sparse:
    """Return an elementwise function of two matrices, for which f(0, 0) is zero."""
    require_same(x.shape, y.shape)
    a, b = alike(x.data, y.data)
    none = full((1,), 0, a.dtype)
    columns = [
        expand_dims(concatenate([broadcast_to(p, a.shape), broadcast_to(q, b.shape)], 0), [1])
        for p, q in ((a, none), (none, b))
    ]
    zero = (0, 0)
    both = joined([x, y], x.shape, [zero, zero])
    both = summed(both.with_data(concatenate(columns, 1)))
    left, right = (reshape(slice_axis(both.data, 1, i, i + 1), (both.slots,)) for i in (0, 1))
    return without_zeros(both.with_data(op(left, right)))


def looked_up(x: Sparse, rows: Value, columns: Value) -> Value:
    """Return the elements of the matrix at positions that need not be stored."""
    pairs = zip(x.indices, (rows, columns), strict=True)
    every = [concatenate([own, asked.astype(INT32)], 0) for own, asked in pairs]
    numbers, (found, _) = groups((every[0], every[1]), x.shape)
    own = slice_axis(numbers, 0, 0, x.slots)
    asked = slice_axis(numbers, 0, x.slots, numbers.shape[0])
    return read(total_at(x.data, [own], found.shape, ordered=False), [asked])


def elements(y: Value, x: Sparse) -> Value:
    """Return the elements of an array at a matrix's entries; a scalar is returned as it is."""
    return at_entries(broadcast_to(y, x.shape), x, 0, 1) if y.ndim == 2 else y


def along(x: Sparse, y: Value, axis: int) -> Value:
    """Return the element of a vector that belongs to the row or column of each entry."""
    require_same((x.shape[axis],), y.shape)
    return at_entries(y, x, axis)


# --- Sums and products --------------------------------------------------------------------


def total(x: Sparse, axis: int | None) -> Value:
    """Return the sum of a matrix, or of its rows (``axis`` 1) or columns (``axis`` 0)."""
    kept_axis = 0 if axis is None else 1 - axis
    data = x.data
    if x.order == 1 - kept_axis:  # Entries that are not stored may be anything.
        data = where(x.indices[1 - kept_axis] < x.shape[1 - kept_axis], data, data.like(0))
    sums = sum_at_entries(data, x, kept_axis)
    return reduce.sum(sums, [0]) if axis is None else sums


def diagonal(x: Sparse) -> Value:
    """Return the diagonal of a square matrix."""
    require_same(x.shape[:1], x.shape[1:])
    on_it = where(ew.equal(*x.indices), x.data, x.data.like(0))
    return sum_at_entries(on_it, x, 0)


def dot(x: Sparse, y: Value) -> Value:
    """Return the product of a sparse matrix and a dense matrix or vector."""
    require_inner(x.shape, y.shape)
    data, y = alike(x.data, y)
    products = expand_dims(data, range(1, y.ndim)) * at_entries(y, x, 1)
    return sum_at_entries(products, x, 0)


def dot_sparse(x: Sparse, y: Sparse) -> Value:
    """Return the product of two sparse matrices, of which the second one is made dense.

    As in SciPy, zeros that are not stored are no factors: infinity times such a zero is not NaN.
    """
    require_inner(x.shape, y.shape)
    a, b = alike(x.data, y.data)
    dense, stored = (to_dense(y.with_data(d)) for d in (b, full(b.shape, True, BOOL)))
    factors, is_factor = (at_entries(array, x, 1) for array in (dense, stored))
    products = expand_dims(a, [1]) * factors
    return sum_at_entries(where(is_factor, products, products.like(0)), x, 0)


def dot_left(x: Value, y: Sparse) -> Value:
    """Return the product of a dense matrix or vector and a sparse matrix."""
    require_inner(x.shape, y.shape)
    if x.ndim == 1:
        return dot(transposed(y), x)
    return transpose(dot(transposed(y), transpose(x, (1, 0))), (1, 0))


def sampled_dot(x: Value, y: Value, pattern: Sparse) -> Value:
    """Return the elements of ``x @ y.T`` at the entries of a matrix."""
    x, y = alike(x, y)
    return reduce.sum(at_entries(x, pattern, 0) * at_entries(y, pattern, 1), [1])


# --- Parts --------------------------------------------------------------------------------


def part(x: Sparse, slices: Sequence[tuple[int, int, int]]) -> Sparse:
    """Return ``x[a:b:c, d:e:f]``: for each axis, the first index, the step and the new size."""
    inside: Value | None = None
    moved: list[Value] = []
    for i, (first, step, size) in zip(x.indices, slices, strict=True):
        offset = i - first
        place = offset if step == 1 else lax.div(offset, i.like(step))
        fits = (place >= 0) & (place < size) & (i < x.shape[len(moved)])
        if step != 1:
            fits &= ew.equal(place * step, offset)
        inside = fits if inside is None else inside & fits
        moved.append(place)
    assert inside is not None
    shape = tuple(size for _, _, size in slices)
    return kept(Sparse(x.data, (moved[0], moved[1]), shape), inside)


def rows_at(x: Sparse, index: Value) -> Sparse:
    """Return ``x[index]`` for a vector of rows, each of which may occur several times.

    The result has room for as many entries in each row as the longest row of ``x`` has, if the
    positions are known, or else for a whole row.
    """
    x = summed(x)
    pointers, (count,), columns = pointers_of(x, 0), index.shape, x.shape[1]
    ends = pointers.static
    longest = min_size(x.slots, columns) if ends is None else int(np.diff(ends).max(initial=0))
    begins, after = (expand_dims(read(pointers, [i]), [1]) for i in (index, index + 1))
    rows, steps = (lax.iota(INT32, (count, longest), d) for d in (0, 1))
    places, is_stored = begins + steps, begins + steps < after
    flat = (count * longest,)
    places, rows, is_stored = (reshape(each, flat) for each in (places, rows, is_stored))
    taken = Sparse(read(x.data, [places]), (rows, read(x.indices[1], [places])), (count, columns))
    return kept(taken, is_stored)


def rows_written(index: Value, x: Sparse, shape: Shape) -> Sparse:
    """Return the matrix whose rows at ``index`` are those of ``x``; of equal ones, the last."""
    (count,) = index.shape
    winners = written(full(shape[:1], 0, INT32), counted(count), index)
    rows, columns = x.indices
    target = read(index, [rows])
    is_last = ew.equal(read(winners, [target]), rows) & (rows < count)
    return kept(Sparse(x.data, (target.astype(INT32), columns), shape), is_last)


def require_inner(shape: Shape, other: Shape) -> None:
    """Raise unless arrays of two shapes can be multiplied."""
    require_equal(shape[-1], other[0], f"Cannot multiply shapes {tuple(shape)} and {tuple(other)}.")
