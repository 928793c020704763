"""Advanced indexing: reading and writing by arrays of integers.

An index has one entry for each leading axis: a slice with known bounds, an integer, or an array of
integers of any rank. A known boolean mask is an entry for as many axes as it has. None makes a new
axis. Arrays and integers broadcast together. As in NumPy, the axes of their common shape replace
these entries if the entries are adjacent, and come first otherwise.

A known index that is out of bounds is an error. A run-time index is clamped to the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jaxprgen._jax import Size
from jaxprgen.emit import elementwise as ew, index as ix, primitives as lax, selection as sel
from jaxprgen.emit.create import counted_axis
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.shape import concatenate, expand_dims, reshape
from jaxprgen.emit.sizes import is_symbolic, require_equal
from jaxprgen.emit.values import (
    BOOL,
    INT32,
    INT64,
    Array,
    Dtype,
    Entry,
    Shape,
    Value,
    broadcast_to,
    common_shape,
    full,
    lift,
    operator,
)
from jaxprgen.errors import IndexOutOfBoundsError, UnsupportedOpError
from jaxprgen.ir import Atom, current_builder


class MaskIndices(NamedTuple):
    """The result of `numpy.nonzero` for a mask of this shape, as an entry of an index."""

    arrays: list[Value]
    shape: Shape


ArrayEntry: TypeAlias = int | slice | Value | Array | MaskIndices | None


class IndexArrays(NamedTuple):
    """Integer arrays that index some axes of an array; the other axes are taken whole.

    Attributes
    ----------
    arrays
        One array of integers for each of ``axes``; they broadcast to ``shape``.
    axes
        The indexed axes.
    shape
        The common shape of the arrays.
    result_axes
        The positions of the axes of ``shape`` among those of the result.
    """

    arrays: list[Value]
    axes: list[int]
    shape: Shape
    result_axes: list[int]


class _ParsedIndex(NamedTuple):
    """An index in three steps: slice every axis, index the block by arrays, insert new axes.

    ``shape`` is the shape of the result before new axes are inserted.
    """

    slices: list[slice]
    indices: IndexArrays
    shape: Shape
    new_axes: list[int]


def entries_by_axis(shape: Shape, index: Sequence[ArrayEntry]) -> list[tuple[int, ArrayEntry]]:
    """Return the entries with their axes: masks as integers, and without None."""
    return [(axis, e) for axis, e in _with_axes(shape, index) if axis is not None]


def _with_axes(shape: Shape, index: Sequence[ArrayEntry]) -> list[tuple[int | None, ArrayEntry]]:
    """Return the entries with their axes, masks as integers; a new axis has axis None."""
    found: list[tuple[int | None, ArrayEntry]] = []
    axis = 0
    for entry in index:
        if entry is None:
            found.append((None, None))
            continue
        entries: list[ArrayEntry] = [entry]
        if type(entry) is MaskIndices:
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


def _where_true(shape: Shape, axis: int, mask: Value) -> list[ArrayEntry]:
    check_mask(shape, axis, mask.shape)
    if not mask.shape:
        raise UnsupportedOpError(
            "A mask without axes makes a new axis in NumPy; the graph does not declare it."
        )
    value = mask.static
    assert value is not None
    return [Value(positions) for positions in np.nonzero(value)]


def check_mask(shape: Shape, axis: int, own: Shape) -> None:
    """Raise an IndexOutOfBoundsError unless a mask has the sizes of the axes from ``axis`` on."""
    text = f"A mask of shape {own} does not fit an array of shape {shape} from axis {axis} on."
    covered = shape[axis : axis + len(own)]
    if len(covered) != len(own):
        raise IndexOutOfBoundsError(text)
    for n, size in zip(own, covered, strict=True):
        require_equal(n, size, IndexOutOfBoundsError(text))


def _parse(shape: Shape, index: Sequence[ArrayEntry]) -> _ParsedIndex:
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
    sizes = [-1 if d is None else ix.bounds(slices[d], shape[d])[2] for d, _ in kept]
    sizes[first:first] = common
    news = [d for d, n in enumerate(sizes) if n == -1]
    start = first - sum(d < first for d in news)
    indices = IndexArrays(arrays, axes, common, list(range(start, start + len(common))))
    return _ParsedIndex(slices, indices, tuple(n for n in sizes if n != -1), news)


def _checked(entry: int | Value | Array, axis: int, size: Size) -> Value:
    """Return the integers of an entry as an array; known ones count from the front."""
    index = entry if isinstance(entry, Value) else Value(np.asarray(entry))
    value = index.static
    if value is None:
        if size == 0 and 0 not in index.shape:
            raise IndexOutOfBoundsError(f"Cannot take an element along axis {axis}: its size is 0.")
        return index
    if is_symbolic(size):
        return _checked_against_symbol(value, axis, size)
    if value.dtype == INT64 and value.size and value.min() >= 0 and value.max() < size:
        return index  # The usual case: no index is negative.
    wide = value.astype(object) if value.dtype == np.uint64 else value.astype(np.int64)
    wrong = wide[(wide < -size) | (wide >= size)]
    if wrong.size:
        raise IndexOutOfBoundsError(
            f"Index {wrong[0]} is out of bounds for axis {axis} of size {size}."
        )
    return Value(np.asarray(np.where(wide < 0, wide + size, wide), np.int64))


def _checked_against_symbol(index: Array, axis: int, size: Size) -> Value:
    """Return known integers that count from the front of an axis of symbolic size."""
    index = index.astype(np.int64)
    for i in (index.min(), index.max()) if index.size else ():
        ix.require_index(int(i), size, axis)
    return Value(index) if (index >= 0).all() else ix.wrap(Value(index), size, INT64)


# --- Reading -----------------------------------------------------------------------------


def take(x: Value, index: Sequence[ArrayEntry]) -> Value:
    """Return ``x[index]``."""
    parsed = _parse(x.shape, index)
    return expand_dims(_take(x, parsed), parsed.new_axes)


@operator
def getitem(x: Value, index: Entry | tuple[Entry, ...]) -> Value:
    """Return ``x[index]``, where ``...`` may stand for slices, and lists for arrays."""
    entries: list[Any] = list(index) if isinstance(index, tuple) else [index]
    entries = [np.asarray(e) if isinstance(e, (list, np.generic)) else e for e in entries]
    at = [i for i, e in enumerate(entries) if e is Ellipsis]
    for i in at[:1]:
        masks = (e.ndim for e in entries if isinstance(e, (Value, np.ndarray)) and e.dtype == bool)
        used = sum(e is not None and e is not Ellipsis for e in entries)
        used += sum(ndim - 1 for ndim in masks)
        entries[i : i + 1] = [slice(None)] * (x.ndim - used)
    return take(x, entries)


def _take(x: Value, parsed: _ParsedIndex) -> Value:
    indices = parsed.indices
    if 0 in parsed.shape:
        return full(parsed.shape, 0, x.dtype)
    if x.is_uniform:
        return Value(x.source, parsed.shape)
    if indices.shape == ():
        return ix.take(x, _scalars(parsed))
    return gather(ix.take(x, parsed.slices), indices)


def _scalars(parsed: _ParsedIndex) -> list[ix.BasicEntry]:
    """Return index arrays of a single element as integers among the slices."""
    index: list[ix.BasicEntry] = list(parsed.slices)
    for axis, array in zip(parsed.indices.axes, parsed.indices.arrays, strict=True):
        index[axis] = array if array.static is None else int(array.static)
    return index


def gather(x: Value, indices: IndexArrays, *, unique: bool = False) -> Value:
    """Return the elements at ``indices``; ``unique`` promises that no two coincide."""
    indices, paired = _paired(x.shape, indices)
    starts, in_bounds = _start_indices(x.shape, indices, paired)
    axes = indices.axes, indices.result_axes
    return lax.gather(x, starts, *axes, in_bounds=in_bounds, unique=unique, paired=paired)


def _paired(shape: Shape, indices: IndexArrays) -> tuple[IndexArrays, dict[int, int]]:
    """Set apart the arrays that count, such as the first of ``x[arange(n), y]``.

    The others index within rows. If the rows are split between devices, each device reads its own.
    Return the others, at least one; and the axes of the common shape along which the arrays count,
    by the axes that they index.
    """
    paired: dict[int, int] = {}
    if all(array.static is not None for array in indices.arrays):
        return indices, paired
    for axis, array in zip(indices.axes, indices.arrays, strict=True):
        counted = counted_axis(array)
        if counted is None or len(paired) == len(indices.arrays) - 1:
            continue
        along = counted + len(indices.shape) - array.ndim
        is_whole = array.shape[counted] == shape[axis] == indices.shape[along]
        if is_whole and along not in paired.values():
            paired[axis] = along
    rest = [(d, x) for d, x in zip(indices.axes, indices.arrays, strict=True) if d not in paired]
    return indices._replace(axes=[d for d, _ in rest], arrays=[x for _, x in rest]), paired


def _start_indices(
    shape: Shape, indices: IndexArrays, paired: Mapping[int, int]
) -> tuple[Atom, bool]:
    """Return the indices as vectors along a last axis, and whether they are known in bounds."""
    b = current_builder()
    runtime = [i for i in indices.arrays if i.static is None]
    dtype = ix.index_dtype(shape, runtime)
    if not runtime and not paired:
        # The gradient often writes at the indices that are read here.
        return b.constant(_table(indices, dtype), equal=True), True
    target = (*indices.shape, 1)
    columns: list[Value] = []
    for axis, array in zip(indices.axes, indices.arrays, strict=True):
        value = array.static
        inside = ix.wrap(array, shape[axis], dtype) if value is None else array.astype(dtype)
        column = expand_dims(inside, [inside.ndim])
        columns.append(broadcast_to(column, target))
    return concatenate(columns, len(indices.shape)).atom(), not runtime


def _table(indices: IndexArrays, dtype: Dtype = INT64) -> Array:
    """Return known index arrays as vectors along a last axis."""
    table = np.empty((*indices.shape, len(indices.arrays)), dtype)
    for i, array in enumerate(indices.arrays):
        table[..., i] = array.static
    return table


# --- Writing -----------------------------------------------------------------------------


def put(x: Value, y: Value, index: Sequence[ArrayEntry], *, add: bool) -> Value:
    """Return ``x`` with ``x[index]`` replaced by ``y``, or increased by ``y``, which broadcasts.

    If an index occurs several times, the last value is written, as in NumPy, and increments add up.
    For an index that is not known, only CPUs guarantee that the last value is written.
    """
    parsed = _parse(x.shape, index)
    new, indices = parsed.new_axes, parsed.indices
    full = list(parsed.shape)
    for d in new:
        full.insert(d, 1)
    y = reshape(ix.fit(y, tuple(full)), parsed.shape)
    if 0 in parsed.shape:
        return x
    if indices.shape == ():
        return ix.put(x, y, _scalars(parsed), add=add)
    block = ix.take(x, parsed.slices)
    updated = _scatter_into(block, y, indices, add)
    return updated if block is x else ix.put(x, updated, parsed.slices, add=False)


def _scatter_into(x: Value, y: Value, indices: IndexArrays, add: bool) -> Value:
    unique = False
    if not add and all(i.static is not None for i in indices.arrays):
        y, indices = _last_of_each(y, indices)
        unique = True
    return scatter(x, y, indices, add=add, unique=unique)


def scatter(x: Value, y: Value, indices: IndexArrays, *, add: bool, unique: bool = False) -> Value:
    """Return ``x`` with ``y``, shaped like `gather`'s result, written or added at ``indices``."""
    if add and x.dtype == BOOL:  # Booleans add by "or", which no scatter computes.
        x, y = x.astype(INT32), y.astype(INT32)
        return ew.truth(scatter(x, y, indices, add=add, unique=unique))
    indices, paired = _paired(x.shape, indices)
    starts, in_bounds = _start_indices(x.shape, indices, paired)
    axes = indices.axes, indices.result_axes
    emit = lax.scatter_add if add else lax.scatter
    return emit(x, starts, y, *axes, in_bounds=in_bounds, unique=unique, paired=paired)


def _last_of_each(y: Value, indices: IndexArrays) -> tuple[Value, IndexArrays]:
    """Drop known indices that occur again later, and the values written there."""
    table = _table(indices).reshape(-1, len(indices.axes))
    flat = np.ravel_multi_index(tuple(table.T), tuple(table.max(0) + 1))
    kept = np.sort(flat.size - 1 - np.unique(flat[::-1], return_index=True)[1])
    if kept.size == flat.size:
        return y, indices
    first, sizes = indices.result_axes[0], y.shape
    y = reshape(y, (*sizes[:first], flat.size, *sizes[first + len(indices.shape) :]))
    y = take(y, [*[slice(None)] * first, Value(kept)])
    arrays = [Value(column) for column in table[kept].T]
    return y, IndexArrays(arrays, indices.axes, kept.shape, [first])


def block_of(
    x: Value, index: Sequence[slice | Value]
) -> tuple[Value, Value, int, list[ix.BasicEntry]]:
    """Return the block that slices and one mask among them select if the mask is true everywhere.

    Returns
    -------
    block : Value
        The block of ``x``.
    mask : Value
        The mask.
    axis : int
        The first axis that the mask covers.
    slices : list
        The index, with full slices in place of the mask.
    """
    axis = next(i for i, e in enumerate(index) if not isinstance(e, slice))
    mask: Value = index[axis]  # type: ignore[assignment]
    check_mask(x.shape, axis, mask.shape)
    every = [slice(None)] * mask.ndim
    slices: list[ix.BasicEntry] = [*index[:axis], *every, *index[axis + 1 :]]  # type: ignore[list-item]
    return ix.take(x, slices), mask, axis, slices


def select(x: Value, index: Sequence[slice | Value], refuse: Callable[[], Exception]) -> Selected:
    """Return ``x[index]`` for slices and one mask that is not known."""
    block, mask, axis, _ = block_of(x, index)
    return sel.select(block, mask, axis, refuse)


def put_where(x: Value, y: Value | Selected, index: Sequence[slice | Value], *, add: bool) -> Value:
    """Return ``x`` with ``x[index]`` replaced or increased, for slices and one mask, known or not.

    ``y`` broadcasts to ``x[index]``. If it has several values along the selected axis, they are
    used in order, and the last one is repeated.
    """
    block, mask, axis, slices = block_of(x, index)
    rank, wide = mask.ndim, x.ndim
    if isinstance(y, Selected):
        if not sel.is_same(y.mask, mask) or y.axis != axis - (wide - y.values.ndim):
            raise y.refuse()
        y = y.values
    else:
        own, at = y.shape, y.ndim - (wide - axis - rank) - 1  # type: ignore[arg-type]
        # Otherwise `y` has fewer axes than follow the mask.
        if at >= 0 and own[at] == 1:
            y = reshape(y, (*own[:at], *[1] * rank, *own[at + 1 :]))  # type: ignore[arg-type]
        elif at >= 0 and own[at] == 0:
            return x
        elif at >= 0:
            y = take(y, [*[slice(None)] * at, sel.positions(mask)])  # type: ignore[arg-type]
    y = ix.fit(y, block.shape)
    where = expand_dims(mask, [d for d in range(wide) if not axis <= d < axis + rank])
    updated = ew.where(where, block + y if add else y, block)
    return updated if block is x else ix.put(x, updated, slices, add=False)
