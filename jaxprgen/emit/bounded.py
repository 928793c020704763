"""What has a size that values decide, in a size that is given: padded, or cut, as `jax.numpy` does.

That is `jax.numpy.nonzero`, ``extract``, ``unique`` and ``repeat`` with a size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import gather as ga
from jaxprgen.emit import reduce
from jaxprgen.emit.cumulative import cumsum
from jaxprgen.emit.ravel import unravel_index
from jaxprgen.emit.shape import axis_of, concatenate, expand_dims, reshape, slice_axis, transpose
from jaxprgen.emit.sort import keys_of
from jaxprgen.emit.values import (
    BOOL,
    INT32,
    INT64,
    Dtype,
    Value,
    atom,
    atoms,
    broadcast_to,
    dtype_of,
    like,
    shape_of,
    size_of,
    splat,
    splat_value,
)
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def _true(b: Builder, mask: Value, size: int) -> tuple[Value, Value]:
    """The first positions where a vector is true, 0 behind them; and which are no padding."""
    count = size_of(mask)
    dtype = _dtype_of_positions(max(count, size))
    if not count or not size:
        return splat(0, dtype, (size,)), splat(False, BOOL, (size,))
    ends = cumsum(b, ew.convert(b, mask, dtype), 0)
    # All that is not among the first ones is written to one place behind them.
    where = ew.minimum(b, ew.subtract(b, ends, like(ends, 1)), like(ends, size))
    where = ew.where(b, mask, where, like(ends, size))
    found = lax.scatter(
        b,
        atom(b, splat(0, dtype, (size + 1,))),
        atom(b, expand_dims(b, where, [1])),
        lax.iota(b, dtype, (count,), 0),
        [0],
        [0],
        in_bounds=True,
    )
    total = broadcast_to(b, slice_axis(b, ends, 0, count - 1, count), (size,))
    inside = ew.less(b, lax.iota(b, dtype, (size,), 0), total)
    return slice_axis(b, found, 0, 0, size), inside


def _dtype_of_positions(size: int) -> Dtype:
    """The integers that hold this number; smaller ones are faster."""
    return INT32 if size <= np.iinfo(INT32).max else ew.canonical(INT64)


def nonzero(b: Builder, x: Value, size: int) -> list[Value]:
    """`numpy.nonzero`, padded with 0: one vector of this size for each axis."""
    dtype = ew.canonical(INT64)
    found = ew.convert(b, _true(b, reshape(b, ew.truth(b, x), (-1,)), size)[0], dtype)
    sizes: list[Value] = [np.asarray(n, dtype) for n in shape_of(x)]
    return unravel_index(b, found, sizes, "C") if size_of(x) else [found for _ in sizes]


def select(
    b: Builder, x: Value, index: Sequence[slice | Value], size: int, *, exact: bool = False
) -> Value:
    """``x[index]`` for slices and one mask, padded with 0 unless the size is ``exact``."""
    block, mask, axis, _ = ga.block_of(b, x, index)
    shape, count = shape_of(block), len(shape_of(mask))
    rows = reshape(b, block, (*shape[:axis], size_of(mask), *shape[axis + count :]))
    result = (*shape[:axis], size, *shape[axis + count :])
    if not size_of(mask) or 0 in result:
        return splat(0, dtype_of(x), result)
    found, inside = _true(b, reshape(b, mask, (-1,)), size)
    taken = _slices(b, rows, axis, found)
    if exact:
        return taken
    others = [d for d in range(len(result)) if d != axis]
    return ew.where(b, expand_dims(b, inside, others), taken, like(taken, 0))


def repeat(b: Builder, x: Value, counts: Value, axis: int, size: int) -> Value:
    """`numpy.repeat` by one count for each slice along an axis, which add up to this size."""
    dtype = _dtype_of_positions(size)
    if not size:
        return _slices(b, x, axis, splat(0, dtype, (0,)))
    ends = cumsum(b, ew.convert(b, counts, dtype), 0)
    one = atom(b, splat(1, dtype, shape_of(ends)))
    none, where = atom(b, splat(0, dtype, (size + 1,))), atom(b, expand_dims(b, ends, [1]))
    starts = lax.scatter_add(b, none, where, one, [0], [0], in_bounds=True)
    return _slices(b, x, axis, slice_axis(b, cumsum(b, starts, 0), 0, 0, size))


def _slices(b: Builder, x: Value, axis: int, where: Value) -> Value:
    """The slices of an array at positions along an axis, of which none is outside."""
    shape = list(shape_of(x))
    shape[axis : axis + 1] = shape_of(where)
    value = 0 if 0 in shape else splat_value(x)
    if value is not None:
        return splat(value, dtype_of(x), tuple(shape))
    places = atom(b, expand_dims(b, where, [1]))
    return lax.gather(b, atom(b, x), places, [axis], [axis], in_bounds=True)


class Different(NamedTuple):
    """The different elements in ascending order, padded with the first; see `numpy.unique`.

    ``first`` is where each is first, ``inverse`` which one each element is, ``counts`` how often
    each is there: 0 times the padding.
    """

    values: Value
    first: Value
    inverse: Value
    counts: Value


_COLLAPSES = np.unique([np.nan, np.nan], axis=0).size == 1
"""Whether NaN equals NaN along the axis of a vector, too: not so in NumPy 1."""


def unique(b: Builder, x: Value, axis: int | None, size: int) -> Different:
    """`numpy.unique` of all elements, or of the slices along an axis.

    Raises
    ------
    ShapeMismatchError
        There are no elements, with which to pad.
    """
    collapse = axis is None or (len(shape_of(x)) == 1 and _COLLAPSES)
    if axis is None:
        x, axis = reshape(b, x, (-1,)), 0
    rank = len(shape_of(x))
    axis = axis_of(axis, rank)
    count = shape_of(x)[axis]
    if not count and size:
        raise ShapeMismatchError(f"There are no elements to be {size} different ones.")
    rows = transpose(b, x, [axis, *(d for d in range(rank) if d != axis)])
    flat = reshape(b, rows, (count, size_of(x) // max(count, 1)))
    order = _order(b, flat)
    ordered = ga.take(b, flat, [order])
    first = _first_of_equal(b, ordered, collapse=collapse)
    starts, inside = _true(b, first, size)
    values = ga.take(b, rows, [ga.take(b, order, [starts])])
    back = transpose(b, values, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    dtype = ew.canonical(INT64)
    which = cumsum(b, ew.convert(b, first, dtype), 0)
    which = ew.subtract(b, which, like(which, 1))
    inverse = ga.put(b, splat(0, dtype, (count,)), which, [order], add=False)
    ends, more = _true(b, first, size + 1)
    ends = ew.where(b, more, ends, like(ends, count))
    low, high = (slice_axis(b, ends, 0, i, i + size) for i in (0, 1))
    counts = ew.subtract(b, high, ew.where(b, inside, low, like(low, count)))
    counts = ew.convert(b, counts, dtype)
    return Different(back, ga.take(b, order, [starts]), inverse, counts)


def _order(b: Builder, rows: Value) -> Value:
    """The positions of rows in ascending order, equal ones in theirs."""
    count, width = shape_of(rows)
    columns = [reshape(b, slice_axis(b, rows, 1, i, i + 1), (count,)) for i in range(width)]
    keys = [key for column in columns for key in keys_of(b, column)]
    position = lax.iota(b, ew.canonical(INT64), (count,), 0)
    return lax.sort(b, [*atoms(b, keys), position], 0, len(keys))[-1] if keys else position


def _first_of_equal(b: Builder, rows: Value, *, collapse: bool) -> Value:
    """Whether each row is another than the one before it; NaN equals NaN if it is to collapse."""
    count = shape_of(rows)[0]
    if not count:
        return splat(False, BOOL, (0,))
    behind, before = slice_axis(b, rows, 0, 1, count), slice_axis(b, rows, 0, 0, count - 1)
    other = ew.not_equal(b, behind, before)
    if collapse:
        both = ew.bitwise_and(b, ew.isnan(b, behind), ew.isnan(b, before))
        other = ew.bitwise_and(b, other, ew.invert(b, both))
    start = broadcast_to(b, np.asarray(True), (1,))
    return concatenate(b, [start, reduce.bitwise_or(b, other, [1])], 0)
