"""Reshaping, permuting, adding and dropping axes, joining and splitting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jaxprgen.emit.values import (
    Array,
    Broadcast,
    Shape,
    Value,
    atom,
    atoms,
    broadcast_to,
    shape_of,
)
from jaxprgen.errors import AxisOutOfBoundsError, ShapeMismatchError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the first one."""
    if not -rank <= axis < rank:
        raise AxisOutOfBoundsError(f"Axis {axis} is out of bounds for {rank} dimensions.")
    return axis % rank


def _is_splat(x: Value) -> bool:
    return type(x) is Broadcast and shape_of(x.operand) == ()


def reshape(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    """The same elements in row-major order; one size may be -1."""
    own = shape_of(x)
    target = _complete(own, tuple(int(n) for n in shape))
    if target == own:
        return x
    if _is_splat(x):
        return Broadcast(x.operand, target) if target else x.operand  # type: ignore[union-attr]
    if not own:
        return Broadcast(x, target)  # type: ignore[arg-type]
    if isinstance(x, np.ndarray):
        return x.reshape(target)
    return lax.reshape(b, atom(b, x), target)


def _complete(own: Shape, shape: Shape) -> Shape:
    size = math.prod(own)
    if shape.count(-1) == 1:
        rest = -math.prod(shape)
        if rest > 0 and size % rest == 0:
            shape = tuple(size // rest if n == -1 else n for n in shape)
    if any(n < 0 for n in shape) or math.prod(shape) != size:
        raise ShapeMismatchError(f"Cannot reshape {own} ({size} elements) to {shape}.")
    return shape


def transpose(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """``x`` with its axes permuted."""
    shape = shape_of(x)
    if list(axes) == list(range(len(shape))):
        return x
    permuted = tuple(shape[d] for d in axes)
    if _is_splat(x):
        return Broadcast(x.operand, permuted)  # type: ignore[union-attr]
    if isinstance(x, np.ndarray):
        return x.transpose(axes)
    return lax.transpose(b, atom(b, x), axes)


def squeeze(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """``x`` without axes of size one."""
    if not axes:
        return x
    shape = shape_of(x)
    if any(shape[d] != 1 for d in axes):
        raise ShapeMismatchError(f"Cannot drop axes {tuple(axes)} of shape {shape}: not all are 1.")
    kept = tuple(n for d, n in enumerate(shape) if d not in axes)
    if _is_splat(x) or isinstance(x, np.ndarray):
        return reshape(b, x, kept)
    return lax.squeeze(b, atom(b, x), axes)


def expand_dims(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """``x`` with axes of size one, at these positions of the result."""
    if not axes:
        return x
    shape = list(shape_of(x))
    for d in sorted(axes):
        shape.insert(d, 1)
    if _is_splat(x) or isinstance(x, np.ndarray) or not shape_of(x):
        return reshape(b, x, shape)
    dimensions = [d for d in range(len(shape)) if d not in axes]
    return lax.broadcast_in_dim(b, atom(b, x), tuple(shape), dimensions)


def concatenate(b: Builder, xs: Sequence[Value], axis: int) -> Value:
    """The arrays one behind the other along an axis."""
    shapes = [shape_of(x) for x in xs]
    others = {s[:axis] + s[axis + 1 :] for s in shapes}
    if len(others) != 1:
        raise ShapeMismatchError(f"Cannot join shapes {shapes} along axis {axis}.")
    xs = [x for x in xs if shape_of(x)[axis]] or xs[:1]
    if len(xs) == 1:
        return xs[0]
    if all(isinstance(x, np.ndarray) for x in xs):
        return np.concatenate(xs, axis)  # type: ignore[arg-type]
    return lax.concatenate(b, atoms(b, xs), axis)


def stack(b: Builder, xs: Sequence[Value]) -> Value:
    """Scalars as the elements of a vector."""
    if not xs:
        raise ShapeMismatchError("Cannot make a vector of no scalars without a dtype.")
    if all(isinstance(x, np.ndarray) for x in xs):
        return np.stack(xs)  # type: ignore[arg-type]
    return concatenate(b, [expand_dims(b, x, [0]) for x in xs], 0)


def split(b: Builder, x: Value, sizes: Sequence[int], axis: int) -> list[Value]:
    """``x`` cut along an axis into pieces of these sizes, which add up to its size."""
    shape = shape_of(x)
    if sum(sizes) != shape[axis] or any(n < 0 for n in sizes):
        raise ShapeMismatchError(
            f"Cannot split axis {axis} of shape {shape} into pieces of sizes {list(sizes)}."
        )
    pieces: list[Value] = []
    start = 0
    for n in sizes:
        pieces.append(slice_axis(b, x, axis, start, start + n))
        start += n
    return pieces


def slice_axis(b: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    """``x[start:stop]`` along one axis, with both bounds inside."""
    shape = shape_of(x)
    if (start, stop) == (0, shape[axis]):
        return x
    if isinstance(x, np.ndarray):
        return x[(slice(None),) * axis + (slice(start, stop),)]
    if _is_splat(x):
        piece = (*shape[:axis], stop - start, *shape[axis + 1 :])
        return Broadcast(x.operand, piece)  # type: ignore[union-attr]
    starts = [start if d == axis else 0 for d in range(len(shape))]
    stops = [stop if d == axis else n for d, n in enumerate(shape)]
    return lax.slice(b, atom(b, x), starts, stops, [1] * len(shape))


def repeat_counts(counts: Array, size: int) -> Array:
    """How often each of ``size`` slices is repeated, by one count for all or one for each."""
    if counts.size not in (1, size) or (counts < 0).any():
        raise ShapeMismatchError(
            f"Cannot repeat {size} slices {counts.tolist()} times: give one count, or one for "
            "each, and none below zero."
        )
    return np.broadcast_to(counts.reshape(-1), (size,))


def repeat(b: Builder, x: Value, counts: Array, axis: int) -> Value:
    """`numpy.repeat`: every slice along an axis as often as its count says, one each."""
    shape = shape_of(x)
    if len(set(counts.tolist())) > 1:
        positions = np.repeat(np.arange(shape[axis], dtype=np.int32), counts)[:, None]
        return lax.gather(b, atom(b, x), atom(b, positions), [axis], [axis], in_bounds=True)
    count = int(counts[0]) if counts.size else 1
    apart = expand_dims(b, x, [axis + 1])
    filled = broadcast_to(b, apart, (*shape[: axis + 1], count, *shape[axis + 1 :]))
    return reshape(b, filled, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))
