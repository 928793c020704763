"""Reshaping, permuting, adding and dropping axes, joining and splitting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from jaxprgen._jax import Size
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.sizes import Fails, as_size, is_known, require_at_least, require_equal, with_size
from jaxprgen.emit.values import Array, Shape, Value, broadcast_to
from jaxprgen.errors import AxisOutOfBoundsError, ShapeMismatchError


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the first one.

    Raises
    ------
    AxisOutOfBoundsError
        There is no such axis.
    """
    if not -rank <= axis < rank:
        raise AxisOutOfBoundsError(f"Axis {axis} is out of bounds for {rank} dimensions.")
    return axis % rank


def _array(x: Value) -> Array | None:
    """Return the known array, or None if it is not known or is repeated."""
    return None if x.is_repeated else x.static


def reshape(x: Value, shape: Sequence[int]) -> Value:
    """Return the same elements, in row-major order, in another shape; one size may be -1."""
    own = x.shape
    target = _complete(own, tuple(map(as_size, shape)))
    if target == own:
        return x
    if x.is_uniform:
        return Value(x.source, target)
    array = _array(x)
    if array is not None and is_known(target):
        return Value(array.reshape(target))
    size = math.prod(target)
    if size != math.prod(own):  # It is, in all calls for which the sizes make sense.
        x = with_size(reshape(x, (math.prod(own),)), 0, size)
    return lax.reshape(x, target)


def _complete(own: Shape, shape: Shape) -> Shape:
    """Return the target of a reshape, where -1 is replaced by the size that is left."""
    size, target = math.prod(own), shape
    text = f"Cannot reshape {own} ({size} elements) to {shape}."
    if shape.count(-1) == 1:
        rest = -math.prod(shape)
        if not rest:
            raise ShapeMismatchError(text)
        target = tuple(size // rest if n == -1 else n for n in shape)
    for n in target:
        require_at_least(n, 0, text)
    require_equal(math.prod(target), size, text)
    return target


def transpose(x: Value, axes: Sequence[int]) -> Value:
    """Permute the axes, as `numpy.transpose`."""
    shape = x.shape
    if list(axes) == list(range(len(shape))):
        return x
    if x.is_uniform:
        return Value(x.source, tuple(shape[d] for d in axes))
    array = _array(x)
    return lax.transpose(x, axes) if array is None else Value(array.transpose(axes))


def squeeze(x: Value, axes: Sequence[int]) -> Value:
    """Drop axes of size one, as `numpy.squeeze`."""
    if not axes:
        return x
    shape = x.shape
    text = f"Cannot drop axes {tuple(axes)} of shape {shape}: not all are 1."
    for d in axes:
        x = with_size(x, d, 1, text)
    kept = tuple(n for d, n in enumerate(shape) if d not in axes)
    if x.is_uniform or _array(x) is not None:
        return reshape(x, kept)
    return lax.squeeze(x, axes)


def expand_dims(x: Value, axes: Sequence[int]) -> Value:
    """Insert axes of size one at positions of the result, as `numpy.expand_dims`."""
    if not axes:
        return x
    shape = list(x.shape)
    for d in sorted(axes):
        shape.insert(d, 1)
    if x.is_uniform or _array(x) is not None:
        return reshape(x, shape)
    dimensions = [d for d in range(len(shape)) if d not in axes]
    return lax.broadcast_in_dim(x, tuple(shape), dimensions)


def concatenate(xs: Sequence[Value], axis: int) -> Value:
    """Join arrays along an axis, as `numpy.concatenate`."""
    text = f"Cannot join shapes {[x.shape for x in xs]} along axis {axis}."
    if len({x.ndim for x in xs}) != 1:
        raise ShapeMismatchError(text)
    xs = alike_but(xs, axis, text)
    xs = [x for x in xs if x.shape[axis]] or xs[:1]
    if len(xs) == 1:
        return xs[0]
    arrays = [a for a in map(_array, xs) if a is not None]
    if len(arrays) == len(xs):
        return Value(np.concatenate(arrays, axis))
    return lax.concatenate(xs, axis)


def alike_but(xs: Sequence[Value], axis: int, fails: Fails) -> list[Value]:
    """Return arrays of one rank, of the first one's sizes along all axes but one."""
    first = xs[0].shape
    found: list[Value] = []
    for x in xs:
        for d, n in enumerate(first):
            x = x if d == axis else with_size(x, d, n, fails)
        found.append(x)
    return found


def stack(xs: Sequence[Value]) -> Value:
    """Return a vector of scalars, or join arrays of one shape along a new first axis."""
    if not xs:
        raise ShapeMismatchError("stack: needs at least one array.")
    return concatenate([expand_dims(x, [0]) for x in xs], 0)


def split(x: Value, sizes: Sequence[int], axis: int) -> list[Value]:
    """Split along an axis into pieces of these sizes, which add up to the size of the axis."""
    text = f"Cannot split axis {axis} of shape {x.shape} into pieces of sizes {list(sizes)}."
    for n in sizes:
        require_at_least(n, 0, text)
    ends = [*itertools.accumulate(sizes, initial=0)]
    x = with_size(x, axis, ends[-1], text)
    return [slice_axis(x, axis, start, end) for start, end in itertools.pairwise(ends)]


def slice_axis(x: Value, axis: int, start: Size, stop: Size) -> Value:
    """Return ``x[start:stop]`` along one axis, with both bounds inside the axis."""
    shape = x.shape
    if (start, stop) == (0, shape[axis]):
        return x
    if x.is_uniform:
        return Value(x.source, (*shape[:axis], stop - start, *shape[axis + 1 :]))
    array = _array(x)
    if array is not None:
        return Value(array[(slice(None),) * axis + (slice(start, stop),)])
    if not is_known((start, stop, shape[axis])):
        edges = [(-start, stop - n, 0) if d == axis else (0, 0, 0) for d, n in enumerate(shape)]
        return lax.pad(x, x.like(0), edges)
    starts = [start if d == axis else 0 for d in range(len(shape))]
    stops = [stop if d == axis else n for d, n in enumerate(shape)]
    return lax.slice(x, starts, stops, [1] * len(shape))


def repeat_counts(counts: Array, size: int) -> Array:
    """Return one count per slice, given one count for all slices or one for each."""
    if counts.size not in (1, size) or (counts < 0).any():
        raise ShapeMismatchError(
            f"Cannot repeat {size} slices {counts.tolist()} times: give one count >= 0, or one "
            "for each slice."
        )
    return np.broadcast_to(counts.reshape(-1), (size,))


def repeat(x: Value, counts: Array, axis: int) -> Value:
    """Return `numpy.repeat` along an axis, by one known count per slice."""
    shape = x.shape
    if len(set(counts.tolist())) > 1:
        positions = np.repeat(np.arange(shape[axis], dtype=np.int32), counts)[:, None]
        return lax.gather(x, positions, [axis], [axis], in_bounds=True)
    return repeat_evenly(x, int(counts[0]) if counts.size else 1, axis)


def repeat_evenly(x: Value, count: Size, axis: int) -> Value:
    """Return `numpy.repeat` along an axis, by one count for all slices."""
    shape = x.shape
    apart = expand_dims(x, [axis + 1])
    filled = broadcast_to(apart, (*shape[: axis + 1], count, *shape[axis + 1 :]))
    return reshape(filled, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))
