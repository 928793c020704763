"""Diagonals and triangles."""

from __future__ import annotations

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.create import eye
from jaxprgen.emit.gather import Points, put_points, take_points
from jaxprgen.emit.index import index_dtype
from jaxprgen.emit.shape import concatenate, expand_dims, transpose
from jaxprgen.emit.values import (
    BOOL,
    Dtype,
    Shape,
    Value,
    broadcast_to,
    dtype_of,
    shape_of,
    splat,
)
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def _line(length: int, offset: int) -> list[Value]:
    """Rows and columns of a diagonal."""
    return [np.arange(length) + max(0, -offset), np.arange(length) + max(0, offset)]


def diagonal(b: Builder, x: Value, offset: int, axis1: int, axis2: int) -> Value:
    """The elements ``[i, i + offset]`` of two axes, as a last axis instead of these."""
    shape = shape_of(x)
    axes = [axis1 % len(shape), axis2 % len(shape)]
    if axes[0] == axes[1]:
        raise ShapeMismatchError(f"Axis {axes[0]} has no diagonal with itself.")
    rows, columns = (shape[d] for d in axes)
    length = max(0, min(rows - max(0, -offset), columns - max(0, offset)))
    kept = tuple(n for d, n in enumerate(shape) if d not in axes)
    if 0 in (*kept, length):
        return splat(0, dtype_of(x), (*kept, length))
    points = Points(_line(length, offset), axes, (length,), [len(kept)])
    return take_points(b, x, points, unique=True)


def diagonal_matrices(b: Builder, x: Value, offset: int, axis1: int, axis2: int) -> Value:
    """Square matrices of zeros, with what is along the last axis of ``x`` on a diagonal.

    Their rows and columns go to the two axes of the result, in the order of these.
    """
    matrices = _diagonal_matrices(b, x, offset)
    rank = len(shape_of(matrices))
    order = list(range(rank - 2))
    for i, axis in enumerate(sorted((axis1, axis2))):
        order.insert(axis, rank - 2 + i)
    return transpose(b, matrices, order)


def _diagonal_matrices(b: Builder, x: Value, offset: int) -> Value:
    *batch, length = shape_of(x)
    dtype, size = dtype_of(x), length + abs(offset)
    if 0 in (*batch, length):
        return splat(0, dtype, (*batch, size, size))
    if offset:
        x = concatenate(b, [x, splat(0, dtype, (*batch, abs(offset)))], len(batch))
    # Chosen, not scattered, which XLA could not make one with what comes before and after.
    along_rows = expand_dims(b, x, [len(batch) + (offset >= 0)])
    is_there = eye(b, size, size, np.asarray(offset), BOOL)
    return ew.where(b, is_there, along_rows, np.zeros((), dtype))


def fill_diagonal(b: Builder, x: Value, value: Value) -> Value:
    """``x`` with a scalar on its main diagonal; of more than two axes, the sizes are equal."""
    shape = shape_of(x)
    if len(shape) > 2 and len(set(shape)) > 1:
        raise ShapeMismatchError(f"Shape {shape} has no main diagonal: its sizes differ.")
    length = min(shape)
    if not length:
        return x
    line = np.arange(length)
    points = Points([line] * len(shape), list(range(len(shape))), (length,), [0])
    return put_points(b, x, broadcast_to(b, value, (length,)), points, add=False, unique=True)


def fill_offset_diagonal(b: Builder, x: Value, value: Value, offset: Value) -> Value:
    """A matrix with a scalar on a diagonal, which need not be known."""
    rows, columns = shape_of(x)
    return ew.where(b, eye(b, rows, columns, offset, BOOL), value, x)


def triangle(b: Builder, rows: int, columns: int, offset: Value, dtype: Dtype) -> Value:
    """Ones on and below a diagonal, which need not be known, and zeros above."""
    if 0 in (rows, columns):
        return splat(0, dtype, (rows, columns))
    counting = index_dtype((rows, columns))
    row = lax.iota(b, counting, (rows, columns), 0)
    column = lax.iota(b, counting, (rows, columns), 1)
    last = ew.add(b, row, ew.convert(b, offset, counting))
    return ew.convert(b, ew.greater_equal(b, last, column), dtype)


# --- Stripes -----------------------------------------------------------------------------


def _stripe(shape: Shape, axis1: int, axis2: int) -> Points:
    """The points ``[last + i - j, j]`` of two axes, where ``last`` is the last of axis 2."""
    m, n = shape[axis1], shape[axis2]
    if m < n:
        raise ShapeMismatchError(f"Axis {axis1} of shape {shape} is shorter than axis {axis2}.")
    i, j = np.ix_(range(len(range(m)[n - 1 :])), range(n))
    arrays: list[Value] = [n - 1 + i - j, np.broadcast_to(j, (i.size, n))]
    if axis1 > axis2:
        arrays = [a.T for a in arrays]  # type: ignore[union-attr]
    return Points(arrays, [axis1, axis2], shape_of(arrays[0]), sorted((axis1, axis2)))


def stripe(b: Builder, x: Value, axis1: int, axis2: int) -> Value:
    """The elements between the two long diagonals of two axes; each diagonal is along axis 2.

    Axis 1 becomes shorter by the size of axis 2, less one.
    """
    points = _stripe(shape_of(x), axis1, axis2)
    region = _region(shape_of(x), points)
    return splat(0, dtype_of(x), region) if 0 in region else take_points(b, x, points, unique=True)


def add_to_stripe(b: Builder, x: Value, y: Value, axis1: int, axis2: int) -> Value:
    """``x`` with its `stripe` increased by ``y``, which broadcasts."""
    points = _stripe(shape_of(x), axis1, axis2)
    region = _region(shape_of(x), points)
    if 0 in region:
        return x
    return put_points(b, x, broadcast_to(b, y, region), points, add=True, unique=True)


def _region(shape: Shape, points: Points) -> Shape:
    sizes = dict(zip(points.places, points.shape, strict=True))
    return tuple(sizes.get(d, n) for d, n in enumerate(shape))
