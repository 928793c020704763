"""Making arrays, and changing their shape; reading elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxprgen.emit import create, gather, shape
from jaxprgen.emit import diagonal as diagonals
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit import values as vals
from jaxprgen.emit.shape import axis_of
from jaxprgen.emit.values import INT64, Value, ValueLike
from jaxprgen.numpy.reductions import axes_of, sum
from jaxprgen.numpy.ufuncs import promoted, value_of

__all__ = [
    "arange",
    "asarray",
    "broadcast_to",
    "concatenate",
    "diag",
    "diagonal",
    "expand_dims",
    "eye",
    "flip",
    "full",
    "full_like",
    "identity",
    "linspace",
    "moveaxis",
    "ones",
    "ones_like",
    "pad",
    "ravel",
    "repeat",
    "reshape",
    "roll",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "take",
    "take_along_axis",
    "tile",
    "trace",
    "transpose",
    "tri",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

ShapeLike = int | Sequence[int]


def _shape_of(shape: ShapeLike) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(map(int, shape))


# --- Making arrays ------------------------------------------------------------------------


def asarray(x: ValueLike, dtype: Any = None) -> Value:
    """Return a value, an array or a number as a value, of a dtype if one is given."""
    x = value_of(x)
    return x if dtype is None else x.astype(ew.canonical(dtype))


def full(shape: ShapeLike, fill_value: ValueLike, dtype: Any = None) -> Value:
    """Return an array filled with a value, which may be known only at run time."""
    return broadcast_to(asarray(fill_value, dtype), shape)


def zeros(shape: ShapeLike, dtype: Any = float) -> Value:
    """Return an array of zeros."""
    return full(shape, 0, dtype)


def ones(shape: ShapeLike, dtype: Any = float) -> Value:
    """Return an array of ones."""
    return full(shape, 1, dtype)


def full_like(x: ValueLike, fill_value: ValueLike, dtype: Any = None) -> Value:
    """Return an array of the shape of ``x``, and by default of its dtype, filled with a value."""
    x = value_of(x)
    return full(x.shape, fill_value, x.dtype if dtype is None else dtype)


def zeros_like(x: ValueLike, dtype: Any = None) -> Value:
    """Return zeros in the shape of ``x``, and by default in its dtype."""
    return full_like(x, 0, dtype)


def ones_like(x: ValueLike, dtype: Any = None) -> Value:
    """Return ones in the shape of ``x``, and by default in its dtype."""
    return full_like(x, 1, dtype)


def arange(start: float, stop: float | None = None, step: float = 1, dtype: Any = None) -> Value:
    """Return numbers from ``start`` to before ``stop``, which are Python numbers."""
    start, stop = (0, start) if stop is None else (start, stop)
    dtype = ew.canonical(
        np.result_type(*map(np.asarray, (start, stop, step))) if dtype is None else dtype
    )
    length = create.arange_length(start, stop, step)
    first, by = (Value(np.asarray(x, dtype)) for x in (start, step))
    return create.arange(first, by, length, dtype)


def linspace(start: ValueLike, stop: ValueLike, num: int = 50) -> Value:
    """Return ``num`` evenly spaced numbers, both ends included, for scalars."""
    start, stop = promoted(start, stop)
    dtype = ew.canonical(np.result_type(start.dtype, float))
    start, stop = start.astype(dtype), stop.astype(dtype)
    index = create.arange(start.like(0), start.like(1), num, dtype)
    inner = index * ((stop - start) / max(num - 1, 1)) + start
    return inner if num < 2 else ew.where(ew.equal(index, num - 1), stop, inner)


def eye(n: int, m: int | None = None, k: int = 0, dtype: Any = float) -> Value:
    """Return a matrix with ones on a diagonal."""
    return create.eye(n, n if m is None else m, Value(np.asarray(k)), ew.canonical(dtype))


def identity(n: int, dtype: Any = float) -> Value:
    """Return the identity matrix."""
    return eye(n, dtype=dtype)


def tri(n: int, m: int | None = None, k: int = 0, dtype: Any = float) -> Value:
    """Return a matrix with ones on and below a diagonal."""
    columns = n if m is None else m
    return diagonals.tri(n, columns, Value(np.asarray(k)), ew.canonical(dtype))


# --- Shapes -------------------------------------------------------------------------------


def reshape(x: ValueLike, newshape: ShapeLike) -> Value:
    """Return the same elements, in row-major order, in another shape; one size may be -1."""
    return shape.reshape(value_of(x), _shape_of(newshape))


def ravel(x: ValueLike) -> Value:
    """Return the elements as a vector."""
    return reshape(x, -1)


def transpose(x: ValueLike, axes: Sequence[int] | None = None) -> Value:
    """Permute the axes; reverse them by default."""
    x = value_of(x)
    rank = x.ndim
    order = range(rank)[::-1] if axes is None else [axis_of(d, rank) for d in axes]
    return shape.transpose(x, list(order))


def moveaxis(x: ValueLike, source: ShapeLike, destination: ShapeLike) -> Value:
    """Move axes to other positions."""
    x = value_of(x)
    rank = x.ndim
    sources, targets = ([axis_of(d, rank) for d in _shape_of(y)] for y in (source, destination))
    order = [d for d in range(rank) if d not in sources]
    for target, d in sorted(zip(targets, sources, strict=True)):
        order.insert(target, d)
    return shape.transpose(x, order)


def swapaxes(x: ValueLike, axis1: int, axis2: int) -> Value:
    """Exchange two axes."""
    x = value_of(x)
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return shape.transpose(x, order)


def expand_dims(x: ValueLike, axis: ShapeLike) -> Value:
    """Insert axes of size one, at these positions of the result."""
    x, axes = value_of(x), _shape_of(axis)
    return shape.expand_dims(x, [axis_of(d, x.ndim + len(axes)) for d in axes])


def squeeze(x: ValueLike, axis: ShapeLike | None = None) -> Value:
    """Drop axes of size one: all of them by default."""
    x = value_of(x)
    if axis is None:
        return shape.squeeze(x, [d for d, n in enumerate(x.shape) if n == 1])
    return shape.squeeze(x, axes_of(axis, x.ndim))


def broadcast_to(x: ValueLike, shape: ShapeLike) -> Value:
    """Repeat a value to a shape."""
    return vals.broadcast_to(value_of(x), _shape_of(shape))


def concatenate(arrays: Sequence[ValueLike], axis: int = 0) -> Value:
    """Join arrays along an axis."""
    xs = promoted(*arrays)
    return shape.concatenate(xs, axis_of(axis, xs[0].ndim))


def stack(arrays: Sequence[ValueLike], axis: int = 0) -> Value:
    """Join arrays of one shape along a new axis."""
    return concatenate([expand_dims(x, axis) for x in arrays], axis)


def split(x: ValueLike, indices_or_sections: ShapeLike, axis: int = 0) -> list[Value]:
    """Split into equal parts, or before each of some positions."""
    x = value_of(x)
    axis = axis_of(axis, x.ndim)
    size = x.shape[axis]
    if isinstance(indices_or_sections, int):
        sizes = [size // indices_or_sections] * indices_or_sections
    else:
        ends = [*indices_or_sections, size]
        sizes = [n - m for m, n in zip([0, *ends], ends, strict=False)]
    return shape.split(x, sizes, axis)


def repeat(x: ValueLike, repeats: ShapeLike, axis: int | None = None) -> Value:
    """Repeat the elements along an axis, or of the flat array, by known counts."""
    x = ravel(x) if axis is None else value_of(x)
    axis = axis_of(axis or 0, x.ndim)
    return shape.repeat(x, shape.repeat_counts(np.asarray(repeats), x.shape[axis]), axis)


def tile(x: ValueLike, reps: ShapeLike) -> Value:
    """Repeat an array along each axis."""
    x, counts = value_of(x), _shape_of(reps)
    rank = max(x.ndim, len(counts))
    counts = (1,) * (rank - len(counts)) + counts
    x = vals.expand_rank(x, rank)
    apart = shape.expand_dims(x, [2 * d for d in range(rank)])
    pairs = [n for pair in zip(counts, x.shape, strict=True) for n in pair]
    sizes = [n * m for n, m in zip(counts, x.shape, strict=True)]
    return reshape(broadcast_to(apart, pairs), sizes)


def flip(x: ValueLike, axis: ShapeLike | None = None) -> Value:
    """Reverse the order along some axes, by default along all."""
    x = value_of(x)
    return lax.rev(x, axes_of(axis, x.ndim)) if x.ndim else x


def roll(x: ValueLike, shift: int, axis: int | None = None) -> Value:
    """Move elements along an axis, or those of the flat array, in a circle."""
    x = value_of(x)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    axis = axis_of(axis, x.ndim)
    size = x.shape[axis]
    start = -shift % size if size else 0
    parts = (shape.slice_axis(x, axis, *bounds) for bounds in ((start, size), (0, start)))
    return shape.concatenate(list(parts), axis)


def pad(x: ValueLike, pad_width: Any, constant_values: ValueLike = 0) -> Value:
    """Add constants before and after each axis."""
    x = value_of(x)
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    constant = constant_values if type(constant_values) is Value else x.like(constant_values)
    return lax.pad(x, constant.astype(x.dtype), [(low, high, 0) for low, high in widths])


# --- Diagonals and triangles ---------------------------------------------------------------


def diagonal(x: ValueLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """Return a diagonal of two axes, along a new last axis."""
    return diagonals.diagonal(value_of(x), offset, axis1, axis2)


def diag(x: ValueLike, k: int = 0) -> Value:
    """Return a diagonal of a matrix, or the matrix with a vector on a diagonal."""
    x = value_of(x)
    return diagonals.diagonal_matrices(x, k, 0, 1) if x.ndim == 1 else diagonal(x, k)


def trace(x: ValueLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """Return the sum along a diagonal."""
    return sum(diagonal(x, offset, axis1, axis2), -1)


def tril(x: ValueLike, k: int = 0) -> Value:
    """Return matrices with zeros above a diagonal."""
    x = value_of(x)
    return ew.where(tri(x.shape[-2], x.shape[-1], k, bool), x, 0)


def triu(x: ValueLike, k: int = 0) -> Value:
    """Return matrices with zeros below a diagonal."""
    x = value_of(x)
    return ew.where(tri(x.shape[-2], x.shape[-1], k - 1, bool), 0, x)


# --- Elements -----------------------------------------------------------------------------


def take(x: ValueLike, indices: ValueLike, axis: int | None = None) -> Value:
    """Return the elements at these positions of an axis, or of the flat array.

    An index that is known only at run time is moved into the axis if it is out of bounds.
    """
    x = ravel(x) if axis is None else value_of(x)
    axis = axis_of(axis or 0, x.ndim)
    return gather.take(x, [*[slice(None)] * axis, value_of(indices)])


def take_along_axis(x: ValueLike, indices: ValueLike, axis: int) -> Value:
    """Return the elements at positions along an axis, which differ from row to row."""
    x, positions = value_of(x), value_of(indices)
    axis = axis_of(axis, x.ndim)
    common = [
        n if d == axis else math.prod(vals.broadcast_shapes((m,), (n,)))
        for d, (m, n) in enumerate(zip(x.shape, positions.shape, strict=True))
    ]
    index: list[gather.ArrayEntry] = []
    for d in range(x.ndim):
        if d == axis:
            index.append(broadcast_to(positions, common))
        else:
            own = np.arange(x.shape[d], dtype=INT64).reshape(
                [-1 if e == d else 1 for e in range(x.ndim)]
            )
            index.append(Value(own))
    return gather.take(x, index)
