"""Diagonals and triangles."""

from __future__ import annotations

import functools

import numpy as np

from jaxprgen._jax import Size, max_size, min_size
from jaxprgen.emit import elementwise as ew, primitives as lax
from jaxprgen.emit.create import count_along, eye
from jaxprgen.emit.gather import IndexArrays, gather, scatter
from jaxprgen.emit.index import index_dtype
from jaxprgen.emit.shape import concatenate, expand_dims, transpose
from jaxprgen.emit.sizes import is_known, require_at_least, with_size
from jaxprgen.emit.values import BOOL, Dtype, Shape, Value, broadcast_to, full, lift
from jaxprgen.errors import ShapeMismatchError


def _line(length: Size, offset: int) -> list[Value]:
    """Return the rows and the columns of a diagonal."""
    line = count_along((length,), 0)
    known, firsts = line.static, (max(0, -offset), max(0, offset))
    if known is not None:
        return [Value(known + first) for first in firsts]
    return [line + first if first else line for first in firsts]


def diagonal(x: Value, offset: int, axis1: int, axis2: int) -> Value:
    """Return the elements ``[i, i + offset]`` of two axes, along a new last axis."""
    shape = x.shape
    axes = [axis1 % len(shape), axis2 % len(shape)]
    if axes[0] == axes[1]:
        raise ShapeMismatchError(
            f"The two axes of a diagonal must differ, got axis {axes[0]} twice."
        )
    rows, columns = (shape[d] for d in axes)
    length = max_size(0, min_size(rows - max(0, -offset), columns - max(0, offset)))
    kept = tuple(n for d, n in enumerate(shape) if d not in axes)
    if 0 in (*kept, length):
        return full((*kept, length), 0, x.dtype)
    indices = IndexArrays(_line(length, offset), axes, (length,), [len(kept)])
    return gather(x, indices, unique=True)


def diagonal_matrices(x: Value, offset: int, axis1: int, axis2: int) -> Value:
    """Return square matrices of zeros with the last axis of ``x`` on a diagonal.

    ``axis1`` and ``axis2`` are the axes of the matrices in the result, in either order.
    """
    matrices = _diagonal_matrices(x, offset)
    rank = matrices.ndim
    order = list(range(rank - 2))
    for i, axis in enumerate(sorted((axis1, axis2))):
        order.insert(axis, rank - 2 + i)
    return transpose(matrices, order)


def _diagonal_matrices(x: Value, offset: int) -> Value:
    *batch, length = x.shape
    dtype, size = x.dtype, length + abs(offset)
    if 0 in (*batch, length):
        return full((*batch, size, size), 0, dtype)
    if offset:
        x = concatenate([x, full((*batch, abs(offset)), 0, dtype)], len(batch))
    # A choice rather than a scatter, which XLA could not fuse.
    along_rows = expand_dims(x, [len(batch) + (offset >= 0)])
    is_there = eye(size, size, Value(np.asarray(offset)), BOOL)
    return ew.where(is_there, along_rows, 0)


def fill_diagonal(x: Value, value: Value) -> Value:
    """Write a scalar to the main diagonal; with more than two axes, all sizes are equal."""
    shape, rank = x.shape, x.ndim
    text = f"Cannot fill the main diagonal of shape {shape}: the sizes must be equal."
    for axis in range(1, rank if rank > 2 else 0):
        x = with_size(x, axis, shape[0], text)
    length = functools.reduce(min_size, x.shape)
    if not length:
        return x
    indices = IndexArrays([count_along((length,), 0)] * rank, list(range(rank)), (length,), [0])
    return scatter(x, broadcast_to(value, (length,)), indices, add=False, unique=True)


def fill_offset_diagonal(x: Value, value: Value, offset: Value) -> Value:
    """Write a scalar to a diagonal of a matrix; the offset may be a run-time value."""
    rows, columns = x.shape
    return ew.where(eye(rows, columns, offset, BOOL), value, x)


def tri(rows: Size, columns: Size, offset: Value, dtype: Dtype) -> Value:
    """Return `numpy.tri`: ones on and below a diagonal, whose offset may be a run-time value."""
    if 0 in (rows, columns):
        return full((rows, columns), 0, dtype)
    counting = index_dtype((rows, columns))
    row, column = (lax.iota(counting, (rows, columns), d) for d in (0, 1))
    return (row + offset.astype(counting) >= column).astype(dtype)


# --- Stripes -----------------------------------------------------------------------------


def _stripe(shape: Shape, axis1: int, axis2: int) -> IndexArrays:
    """Return the indices ``[last + i - j, j]`` of two axes; ``last`` is that of axis 2."""
    m, n = shape[axis1], shape[axis2]
    require_at_least(m, n, f"Axis {axis1} of shape {shape} is shorter than axis {axis2}.")
    if is_known((m, n)):
        i, j = np.ix_(range(len(range(m)[n - 1 :])), range(n))
        arrays = lift(n - 1 + i - j, np.broadcast_to(j, (i.size, n)))
    else:
        i, j = count_along((m - n + 1, n), 0), count_along((m - n + 1, n), 1)
        arrays = [i - j + (n - 1), broadcast_to(j, (m - n + 1, n))]
    if axis1 > axis2:
        arrays = [transpose(a, (1, 0)) for a in arrays]
    return IndexArrays([*arrays], [axis1, axis2], arrays[0].shape, sorted((axis1, axis2)))


def stripe(x: Value, axis1: int, axis2: int) -> Value:
    """Return the elements between the two long diagonals of two axes, each diagonal along axis 2.

    Axis 1 becomes shorter by the size of axis 2, minus one.
    """
    indices = _stripe(x.shape, axis1, axis2)
    shape = _result_shape(x.shape, indices)
    return full(shape, 0, x.dtype) if 0 in shape else gather(x, indices, unique=True)


def add_to_stripe(x: Value, y: Value, axis1: int, axis2: int) -> Value:
    """Return ``x`` with its `stripe` increased by ``y``, which broadcasts."""
    indices = _stripe(x.shape, axis1, axis2)
    shape = _result_shape(x.shape, indices)
    if 0 in shape:
        return x
    return scatter(x, broadcast_to(y, shape), indices, add=True, unique=True)


def _result_shape(shape: Shape, indices: IndexArrays) -> Shape:
    sizes = dict(zip(indices.result_axes, indices.shape, strict=True))
    return tuple(sizes.get(d, n) for d, n in enumerate(shape))
