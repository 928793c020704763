"""What has a size that values decide, in a size that is given: padded, or cut, as `jax.numpy` does.

That is `jax.numpy.nonzero`, ``extract`` and ``unique`` with ``size=``.
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
from jaxprgen.emit.shape import concatenate, expand_dims, reshape, slice_axis, transpose
from jaxprgen.emit.sort import keys_of, searchsorted
from jaxprgen.emit.values import (
    BOOL,
    INT64,
    Value,
    atoms,
    broadcast_to,
    dtype_of,
    like,
    shape_of,
    size_of,
    splat,
)
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def _true(b: Builder, mask: Value, size: int) -> tuple[Value, Value]:
    """The first positions where a vector is true, 0 behind them; and which are no padding."""
    dtype = ew.canonical(INT64)
    if not size_of(mask) or not size:
        return splat(0, dtype, (size,)), splat(False, BOOL, (size,))
    ends = cumsum(b, ew.convert(b, mask, dtype), 0)
    nth = np.arange(1, size + 1, dtype=dtype)
    found = searchsorted(b, ends, nth, right=False)
    inside = ew.less(b, found, like(found, size_of(mask)))
    return ew.where(b, inside, found, like(found, 0)), inside


def nonzero(b: Builder, x: Value, size: int) -> list[Value]:
    """`numpy.nonzero`, padded with 0: one vector of this size for each axis."""
    found, _ = _true(b, reshape(b, ew.truth(b, x), (-1,)), size)
    sizes: list[Value] = [np.asarray(n, ew.canonical(INT64)) for n in shape_of(x)]
    return unravel_index(b, found, sizes, "C") if size_of(x) else [found for _ in sizes]


def select(b: Builder, x: Value, index: Sequence[slice | Value], size: int) -> Value:
    """``x[index]`` for slices and one mask, padded with 0."""
    block, mask, axis, _ = ga.block_of(b, x, index)
    shape, count = shape_of(block), len(shape_of(mask))
    rows = reshape(b, block, (*shape[:axis], size_of(mask), *shape[axis + count :]))
    result = (*shape[:axis], size, *shape[axis + count :])
    if not size_of(mask) or 0 in result:
        return splat(0, dtype_of(x), result)
    found, inside = _true(b, reshape(b, mask, (-1,)), size)
    taken = ga.take(b, rows, [*[slice(None)] * axis, found])
    others = [d for d in range(len(result)) if d != axis]
    return ew.where(b, expand_dims(b, inside, others), taken, like(taken, 0))


class Different(NamedTuple):
    """The different elements in ascending order, padded with the first; see `numpy.unique`.

    ``first`` is where each is first, ``inverse`` which one each element is, ``counts`` how often
    each is there: 0 times the padding.
    """

    values: Value
    first: Value
    inverse: Value
    counts: Value


def unique(b: Builder, x: Value, axis: int | None, size: int) -> Different:
    """`numpy.unique` of all elements, or of the slices along an axis.

    Raises
    ------
    ShapeMismatchError
        There are no elements, with which to pad.
    """
    if axis is None:
        x, axis = reshape(b, x, (-1,)), 0
    rank, count = len(shape_of(x)), shape_of(x)[axis]
    if not count and size:
        raise ShapeMismatchError(f"There are no elements to be {size} different ones.")
    rows = transpose(b, x, [axis, *(d for d in range(rank) if d != axis)])
    flat = reshape(b, rows, (count, size_of(x) // max(count, 1)))
    order = _order(b, flat)
    ordered = ga.take(b, flat, [order])
    first = _first_of_equal(b, ordered, collapse=rank == 1)
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
