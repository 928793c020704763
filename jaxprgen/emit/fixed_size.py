"""Results whose size depends on values, padded or cut to a given size.

These are `jax.numpy.nonzero`, ``extract``, ``unique`` and ``repeat`` with their ``size`` argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxprgen._jax import Size, max_size
from jaxprgen.emit import elementwise as ew, gather as ga, primitives as lax, reduce
from jaxprgen.emit.ravel import unravel_index
from jaxprgen.emit.reduce import cumsum
from jaxprgen.emit.shape import axis_of, concatenate, expand_dims, reshape, slice_axis, transpose
from jaxprgen.emit.sizes import is_at_most
from jaxprgen.emit.sort import keys_of
from jaxprgen.emit.values import BOOL, INT32, INT64, Dtype, Value, broadcast_to, full
from jaxprgen.errors import ShapeMismatchError


def _true(mask: Value, size: int) -> tuple[Value, Value]:
    """Find the first ``size`` positions where a vector is true.

    Returns
    -------
    positions : (size,) integers
        The positions, padded with 0.
    inside : (size,) bool
        Where a position is not padding.
    """
    count = mask.size
    dtype = _dtype_of_positions(count, size)
    if not count or not size:
        return full((size,), 0, dtype), full((size,), False, BOOL)
    ends = cumsum(mask.astype(dtype), 0)
    # Elements that are false, or too many, are written to one extra place at the end.
    target = ew.where(mask, ew.minimum(ends - 1, size), size)
    places, numbers = expand_dims(target, [1]), lax.iota(dtype, (count,), 0)
    zeros = full((size + 1,), 0, dtype)
    found = lax.scatter(zeros, places, numbers, [0], [0], in_bounds=True)
    total = broadcast_to(slice_axis(ends, 0, count - 1, count), (size,))
    inside = lax.iota(dtype, (size,), 0) < total
    return slice_axis(found, 0, 0, size), inside


def _dtype_of_positions(*sizes: Size) -> Dtype:
    """Return int32 if it holds all sizes, because it is faster, else int64."""
    fits = all(is_at_most([n], np.iinfo(INT32).max) for n in sizes)
    return INT32 if fits else ew.canonical(INT64)


def nonzero(x: Value, size: int) -> list[Value]:
    """Return `numpy.nonzero`, padded with 0: one vector of ``size`` integers per axis."""
    dtype = ew.canonical(INT64)
    found = _true(reshape(ew.truth(x), (-1,)), size)[0].astype(dtype)
    sizes = [full((), n, dtype) for n in x.shape]
    return unravel_index(found, sizes, "C") if x.size else [found for _ in sizes]


def select(x: Value, index: Sequence[slice | Value], size: int, *, exact: bool = False) -> Value:
    """Return ``x[index]`` for slices and one mask, padded with 0 unless the size is ``exact``."""
    block, mask, axis, _ = ga.block_of(x, index)
    shape, count = block.shape, mask.ndim
    rows = reshape(block, (*shape[:axis], mask.size, *shape[axis + count :]))
    result = (*shape[:axis], size, *shape[axis + count :])
    if not mask.size or 0 in result:
        return full(result, 0, x.dtype)
    found, inside = _true(reshape(mask, (-1,)), size)
    taken = _slices(rows, axis, found)
    if exact:
        return taken
    others = [d for d in range(len(result)) if d != axis]
    return ew.where(expand_dims(inside, others), taken, 0)


def repeat(x: Value, counts: Value, axis: int, size: int) -> Value:
    """Return `numpy.repeat` along an axis, by one count per slice; the counts sum to ``size``."""
    dtype = _dtype_of_positions(size)
    if not size:
        return _slices(x, axis, full((0,), 0, dtype))
    ends = cumsum(counts.astype(dtype), 0)
    ones, zeros = full(ends.shape, 1, dtype), full((size + 1,), 0, dtype)
    starts = lax.scatter_add(zeros, expand_dims(ends, [1]), ones, [0], [0], in_bounds=True)
    return _slices(x, axis, slice_axis(cumsum(starts, 0), 0, 0, size))


def _slices(x: Value, axis: int, positions: Value) -> Value:
    """Return the slices of an array at positions along an axis, which are in bounds."""
    shape = list(x.shape)
    shape[axis : axis + 1] = positions.shape
    value = 0 if 0 in shape else x.fill_value
    if value is not None:
        return full(tuple(shape), value, x.dtype)
    return lax.gather(x, expand_dims(positions, [1]), [axis], [axis], in_bounds=True)


class UniqueResult(NamedTuple):
    """The result of `unique`, as `numpy.unique` with all of its options.

    Attributes
    ----------
    values
        The unique elements, or slices, in ascending order, padded with the first one.
    first
        The position of the first occurrence of each.
    inverse
        The position in ``values`` of each element.
    counts
        The number of occurrences of each; 0 for padding.
    """

    values: Value
    first: Value
    inverse: Value
    counts: Value


_COLLAPSES = np.unique([np.nan, np.nan], axis=0).size == 1
"""Whether NaN equals NaN also for an axis of a vector; in NumPy 1 it does not."""


def unique(x: Value, axis: int | None, size: int) -> UniqueResult:
    """Return `numpy.unique` of all elements, or of the slices along an axis.

    Raises
    ------
    ShapeMismatchError
        The array is empty, so there is nothing to pad with.
    """
    collapse = axis is None or (x.ndim == 1 and _COLLAPSES)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    rank = x.ndim
    axis = axis_of(axis, rank)
    count = x.shape[axis]
    if not count and size:
        raise ShapeMismatchError(f"unique: an empty array cannot be padded to size {size}.")
    rows = transpose(x, [axis, *(d for d in range(rank) if d != axis)])
    flat = reshape(rows, (count, x.size // max_size(count, 1)))
    order = _order(flat)
    ordered = ga.take(flat, [order])
    first = _first_of_equal(ordered, collapse=collapse)
    starts, inside = _true(first, size)
    values = ga.take(rows, [ga.take(order, [starts])])
    values = transpose(values, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    dtype = ew.canonical(INT64)
    groups = cumsum(first.astype(dtype), 0) - 1
    inverse = ga.put(full((count,), 0, dtype), groups, [order], add=False)
    ends, more = _true(first, size + 1)
    ends = ew.where(more, ends, count)
    low, high = (slice_axis(ends, 0, i, i + size) for i in (0, 1))
    counts = high - ew.where(inside, low, count)
    return UniqueResult(values, ga.take(order, [starts]), inverse, counts.astype(dtype))


def _order(rows: Value) -> Value:
    """Return the positions of rows in ascending order; equal rows stay in order."""
    count, width = rows.shape
    columns = [reshape(slice_axis(rows, 1, i, i + 1), (count,)) for i in range(width)]
    keys = [key for column in columns for key in keys_of(column)]
    position = lax.iota(ew.canonical(INT64), (count,), 0)
    return lax.sort([*keys, position], 0, len(keys))[-1] if keys else position


def _first_of_equal(rows: Value, *, collapse: bool) -> Value:
    """Return where a row differs from its predecessor; NaN equals NaN if ``collapse``."""
    count = rows.shape[0]
    if not count:
        return full((0,), False, BOOL)
    row, previous = slice_axis(rows, 0, 1, count), slice_axis(rows, 0, 0, count - 1)
    differs = ew.not_equal(row, previous)
    if collapse:
        differs = differs & ~(ew.isnan(row) & ew.isnan(previous))
    return concatenate([full((1,), True, BOOL), reduce.bitwise_or(differs, [1])], 0)
