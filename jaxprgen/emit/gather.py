"""Advanced indexing: reading and writing by arrays of integers.

An index has one entry for each leading axis: a slice with known bounds, an integer, or an array
of integers of any rank; or a known boolean mask, which is an entry for as many axes as it has; or
None, which makes a new axis. Arrays and integers broadcast together. As in NumPy, the axes of
what they broadcast to stand where these entries stand if they stand together, else in front.

A known index outside of its axis is an error, a run-time index moved to the nearest element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit import primitives as lax
from jaxprgen.emit import selection as sel
from jaxprgen.emit.division import remainder
from jaxprgen.emit.reduce import bitwise_and
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.shape import concatenate, expand_dims, reshape
from jaxprgen.emit.values import (
    BOOL,
    INT32,
    INT64,
    Array,
    Dtype,
    Shape,
    Value,
    broadcast_to,
    common_shape,
    full,
    lift,
)
from jaxprgen.errors import IndexOutOfBoundsError, ShapeMismatchError, UnsupportedOpError
from jaxprgen.ir import Atom, current_builder


class Places(NamedTuple):
    """Where a mask of this shape is true: positions on each of its axes, in an index."""

    arrays: list[Value]
    shape: Shape


Entry: TypeAlias = int | slice | Value | Array | Places | None


class Points(NamedTuple):
    """Places in an array, or, of axes that are not among ``axes``, all of them.

    ``arrays`` hold integers, one array for each of ``axes``, and broadcast to ``shape``, whose
    axes are ``places`` among the axes of what is taken there.
    """

    arrays: list[Value]
    axes: list[int]
    shape: Shape
    places: list[int]


class _Layout(NamedTuple):
    """What an index says: slices of every axis, then points in what they leave, then new axes."""

    slices: list[slice]
    points: Points
    region: Shape
    new: list[int]


def entries_by_axis(shape: Shape, index: Sequence[Entry]) -> list[tuple[int, Entry]]:
    """The entries of an index with the axes that they are for; masks as integers, None left out."""
    return [(axis, e) for axis, e in _with_axes(shape, index) if axis is not None]


def _with_axes(shape: Shape, index: Sequence[Entry]) -> list[tuple[int | None, Entry]]:
    """A mask becomes integers, one array for each of its axes. New axes are no axes yet."""
    found: list[tuple[int | None, Entry]] = []
    axis = 0
    for entry in index:
        if entry is None:
            found.append((None, None))
            continue
        entries: list[Entry] = [entry]
        if type(entry) is Places:
            check_mask(shape, axis, entry.shape)
            entries = [*entry.arrays]
        elif not isinstance(entry, (int, slice)) and entry.dtype == BOOL:  # type: ignore[arg-type]
            (mask,) = lift(entry)  # type: ignore[arg-type]
            entries = _where_true(shape, axis, mask)
        if axis + len(entries) > len(shape):
            raise IndexOutOfBoundsError(f"Too many indices for an array of shape {shape}.")
        found += [(axis + i, e) for i, e in enumerate(entries)]
        axis += len(entries)
    return found


def _where_true(shape: Shape, axis: int, mask: Value) -> list[Entry]:
    check_mask(shape, axis, mask.shape)
    if not mask.shape:
        raise UnsupportedOpError(
            "A mask without axes makes an axis of its own in NumPy, which Aesara does not declare."
        )
    value = mask.static
    assert value is not None
    return [Value(positions) for positions in np.nonzero(value)]


def check_mask(shape: Shape, axis: int, own: Shape) -> None:
    """A mask has the sizes of the axes that it is for, from ``axis`` on.

    Raises
    ------
    IndexOutOfBoundsError
        It has others. (NumPy's is an IndexError, too.)
    """
    if own != shape[axis : axis + len(own)]:
        raise IndexOutOfBoundsError(
            f"A mask of shape {own} does not fit an array of shape {shape} from axis {axis} on."
        )


def _layout(shape: Shape, index: Sequence[Entry]) -> _Layout:
    entries = _with_axes(shape, index)
    used = sum(axis is not None for axis, _ in entries)
    entries += [(axis, slice(None)) for axis in range(used, len(shape))]
    slices = [slice(None)] * len(shape)
    arrays: list[Value] = []
    axes: list[int] = []
    at: list[int] = []
    for position, (axis, entry) in enumerate(entries):
        if isinstance(entry, slice):
            slices[axis] = entry  # type: ignore[index]
        elif axis is not None:
            arrays.append(_checked(entry, axis, shape[axis]))  # type: ignore[arg-type]
            axes.append(axis)
            at.append(position)
    common = common_shape(*arrays) if arrays else ()
    together = not at or at[-1] - at[0] == len(at) - 1
    first = at[0] if at and together else 0
    kept = [(axis, entry) for i, (axis, entry) in enumerate(entries) if i not in at]
    sizes = [
        -1 if axis is None else len(range(*slices[axis].indices(shape[axis]))) for axis, _ in kept
    ]
    sizes[first:first] = common
    news = [d for d, n in enumerate(sizes) if n == -1]
    start = first - sum(d < first for d in news)
    points = Points(arrays, axes, common, list(range(start, start + len(common))))
    return _Layout(slices, points, tuple(n for n in sizes if n != -1), news)


def _checked(entry: int | Value | Array, axis: int, size: int) -> Value:
    """The integers of an entry as an array, of which known ones count from the front."""
    index = entry if isinstance(entry, Value) else Value(np.asarray(entry))
    value = index.static
    if value is None:
        if size == 0 and 0 not in index.shape:
            raise IndexOutOfBoundsError(f"There is no element to take along axis {axis} of size 0.")
        return index
    if value.dtype == INT64 and value.size and value.min() >= 0 and value.max() < size:
        return index  # Nearly always: nothing counts from the back.
    wide = value.astype(object) if value.dtype == np.uint64 else value.astype(np.int64)
    wrong = wide[(wide < -size) | (wide >= size)]
    if wrong.size:
        raise IndexOutOfBoundsError(
            f"Index {wrong[0]} is out of bounds for axis {axis} of size {size}."
        )
    return Value(np.asarray(np.where(wide < 0, wide + size, wide), np.int64))


# --- Reading -----------------------------------------------------------------------------


def take(x: Value, index: Sequence[Entry]) -> Value:
    """``x[index]``."""
    layout = _layout(x.shape, index)
    return expand_dims(_take(x, layout), layout.new)


def _take(x: Value, layout: _Layout) -> Value:
    points = layout.points
    if 0 in layout.region:
        return full(layout.region, 0, x.dtype)
    if x.is_uniform:
        return Value(x.source, layout.region)
    if points.shape == ():
        return ix.take(x, _scalars(layout))
    return take_points(ix.take(x, layout.slices), points)


def _scalars(layout: _Layout) -> list[ix.Index]:
    """Points that are a single one, as integers among the slices."""
    index: list[ix.Index] = list(layout.slices)
    for axis, array in zip(layout.points.axes, layout.points.arrays, strict=True):
        index[axis] = array if array.static is None else int(array.static)
    return index


def take_points(x: Value, points: Points, *, unique: bool = False) -> Value:
    """What stands at the points; ``unique`` says that no two are the same."""
    indices, in_bounds = _indices(x.shape, points)
    return lax.gather(x, indices, points.axes, points.places, in_bounds=in_bounds, unique=unique)


def _indices(shape: Shape, points: Points) -> tuple[Atom, bool]:
    """The points as vectors along a last axis, and whether they are known to lie inside."""
    b = current_builder()
    runtime = [i for i in points.arrays if i.static is None]
    dtype = ix.index_dtype(shape, runtime)
    if not runtime:
        # What is read is often written as well: by the gradient.
        return b.constant(_table(points, dtype), equal=True), True
    target = (*points.shape, 1)
    columns: list[Value] = []
    for axis, array in zip(points.axes, points.arrays, strict=True):
        value = array.static
        inside = ix.wrap(array, shape[axis], dtype) if value is None else array.astype(dtype)
        column = expand_dims(inside, [inside.ndim])
        columns.append(broadcast_to(column, target))
    return concatenate(columns, len(points.shape)).atom(), False


def _table(points: Points, dtype: Dtype = INT64) -> Array:
    """Points that are known."""
    table = np.empty((*points.shape, len(points.arrays)), dtype)
    for i, array in enumerate(points.arrays):
        table[..., i] = array.static
    return table


# --- Writing -----------------------------------------------------------------------------


def put(x: Value, y: Value, index: Sequence[Entry], *, add: bool) -> Value:
    """``x`` with ``x[index]`` replaced by ``y``, or increased by it; ``y`` broadcasts.

    Of several values for one element the last one stays, as in NumPy. (Where the index is
    not known: on CPUs. Other devices do not say which one stays.) Increments add up.
    """
    layout = _layout(x.shape, index)
    new, points = layout.new, layout.points
    full = list(layout.region)
    for d in new:
        full.insert(d, 1)
    y = reshape(ix.fit(y, tuple(full)), layout.region)
    if 0 in layout.region:
        return x
    if points.shape == ():
        return ix.put(x, y, _scalars(layout), add=add)
    block = ix.take(x, layout.slices)
    written = _scatter(block, y, points, add)
    return written if block is x else ix.put(x, written, layout.slices, add=False)


def _scatter(x: Value, y: Value, points: Points, add: bool) -> Value:
    unique = False
    if not add and all(i.static is not None for i in points.arrays):
        y, points = _last_of_each(x.shape, y, points)
        unique = True
    return put_points(x, y, points, add=add, unique=unique)


def put_points(x: Value, y: Value, points: Points, *, add: bool, unique: bool = False) -> Value:
    """``x`` with other numbers at the points; ``y`` is shaped like what stands there."""
    if add and x.dtype == BOOL:  # Their sum is "or", of which there is no scatter.
        x, y = x.astype(INT32), y.astype(INT32)
        return ew.truth(put_points(x, y, points, add=add, unique=unique))
    indices, in_bounds = _indices(x.shape, points)
    construct = lax.scatter_add if add else lax.scatter
    return construct(x, indices, y, points.axes, points.places, in_bounds=in_bounds, unique=unique)


def _last_of_each(shape: Shape, y: Value, points: Points) -> tuple[Value, Points]:
    """Known points without those that are named again later, and what is written there."""
    table = _table(points).reshape(-1, len(points.axes))
    flat = np.ravel_multi_index(tuple(table.T), tuple(shape[d] for d in points.axes))
    kept = np.sort(flat.size - 1 - np.unique(flat[::-1], return_index=True)[1])
    if kept.size == flat.size:
        return y, points
    first, sizes = points.places[0], y.shape
    y = reshape(y, (*sizes[:first], flat.size, *sizes[first + len(points.shape) :]))
    y = take(y, [*[slice(None)] * first, Value(kept)])
    arrays = [Value(column) for column in table[kept].T]
    return y, Points(arrays, points.axes, kept.shape, [first])


def put_buffered(x: Value, y: Value, index: Sequence[Entry]) -> Value:
    """``x[index] += y`` as NumPy has it: an element that is named twice is increased once."""
    return put(x, take(x, index) + y, index, add=False)


def block_of(x: Value, index: Sequence[slice | Value]) -> tuple[Value, Value, int, list[ix.Index]]:
    """What slices and one mask among them leave if the mask selects all.

    Also the mask, the axis from which on it is, and the index without it.
    """
    axis = next(i for i, e in enumerate(index) if not isinstance(e, slice))
    mask: Value = index[axis]  # type: ignore[assignment]
    check_mask(x.shape, axis, mask.shape)
    every = [slice(None)] * mask.ndim
    slices: list[ix.Index] = [*index[:axis], *every, *index[axis + 1 :]]  # type: ignore[list-item]
    return ix.take(x, slices), mask, axis, slices


def select(x: Value, index: Sequence[slice | Value], refuse: Callable[[], Exception]) -> Selected:
    """``x[index]`` for slices and one mask that is not known."""
    block, mask, axis, _ = block_of(x, index)
    return sel.select(block, mask, axis, refuse)


def put_where(x: Value, y: Value | Selected, index: Sequence[slice | Value], *, add: bool) -> Value:
    """``x`` with ``x[index]`` replaced, or increased, for slices and one mask, known or not.

    ``y`` broadcasts to ``x[index]``. If it has more than one value for what the mask selects,
    these are taken in order, and the last one once there are no more.
    """
    block, mask, axis, slices = block_of(x, index)
    rank, wide = mask.ndim, x.ndim
    if isinstance(y, Selected):
        if not sel.is_same(y.mask, mask) or y.axis != axis - (wide - y.values.ndim):
            raise y.refuse()
        y = y.values
    else:
        own, at = y.shape, y.ndim - (wide - axis - rank) - 1  # type: ignore[arg-type]
        # Else `y` has fewer axes than there are behind the mask.
        if at >= 0 and own[at] == 1:
            y = reshape(y, (*own[:at], *[1] * rank, *own[at + 1 :]))  # type: ignore[arg-type]
        elif at >= 0 and own[at] == 0:
            return x
        elif at >= 0:
            y = take(y, [*[slice(None)] * at, sel.positions(mask)])  # type: ignore[arg-type]
    y = ix.fit(y, block.shape)
    where = expand_dims(mask, [d for d in range(wide) if not axis <= d < axis + rank])
    written = ew.where(where, block + y if add else y, block)
    return written if block is x else ix.put(x, written, slices, add=False)


# --- Choosing ----------------------------------------------------------------------------


def choose(which: Value, cases: Sequence[Value], mode: str) -> Value:
    """`numpy.choose`: ``cases[which]``, elementwise; all broadcast.

    Known numbers that are not among those of the cases are an error if the mode is "raise", all
    others the nearest, as if it was "clip"; with "wrap" they are counted on from the first.
    """
    if not cases:
        raise ShapeMismatchError("There is nothing to choose from.")
    value, count = which.static, len(cases)
    if mode == "raise" and value is not None:
        wrong = value[(value < 0) | (value >= count)]
        if wrong.size:
            raise IndexOutOfBoundsError(f"Choice {wrong[0]} is not among the {count} there are.")
    which = which.astype(ew.canonical(INT64))
    wraps = mode == "wrap"
    which = remainder(which, which.like(count)) if wraps else ew.clip(which, 0, count - 1)
    if count == 1:
        return broadcast_to(cases[0], common_shape(which, cases[0]))
    return lax.select_n(which.astype(INT32), *cases)


def all_choices_exist(which: Value, count: int) -> Value:
    """Whether all numbers are among those of so many cases."""
    which = which.astype(ew.canonical(INT64))
    clipped = ew.clip(which, 0, count - 1)
    same = ew.equal(which, clipped)
    return bitwise_and(same, range(same.ndim))
