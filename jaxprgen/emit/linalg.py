"""Products of vectors, matrices and blocks of matrices."""

from __future__ import annotations

import math

import numpy as np

from jaxprgen.emit import elementwise as ew, gather as ga, primitives as lax
from jaxprgen.emit.shape import expand_dims, reshape, squeeze
from jaxprgen.emit.sizes import with_shape, with_size
from jaxprgen.emit.values import BOOL, INT32, Value, broadcast_shapes, broadcast_to, operator


def contract(x: Value, y: Value, axes: tuple[int, int], batch: int = 0) -> Value:
    """Sum products over one axis of each operand; for booleans, "or" of "and", as in NumPy.

    Parameters
    ----------
    x, y
        The operands, of one dtype.
    axes
        The axis of each to sum over.
    batch
        The number of leading axes in common.

    Raises
    ------
    ShapeMismatchError
        The sizes of these axes differ.
    """
    sx, sy = x.shape, y.shape
    text = (
        f"Cannot multiply shapes {sx} and {sy}: axis {axes[0]} of the first has size "
        f"{sx[axes[0]]}, axis {axes[1]} of the second {sy[axes[1]]}."
    )
    y = with_size(y, axes[1], sx[axes[0]], text)
    for axis in range(batch):
        y = with_size(y, axis, sx[axis], text)
    if x.dtype == BOOL:
        count = contract(x.astype(INT32), y.astype(INT32), axes, batch)
        return ew.truth(count)
    common = tuple(range(batch))
    pairs = ((axes[0],), (axes[1],))
    return lax.dot_general(x, y, pairs, (common, common))


def dot(x: Value, y: Value) -> Value:
    """Return `numpy.dot` of vectors and matrices."""
    return contract(x, y, (x.ndim - 1, 0))


def outer(x: Value, y: Value) -> Value:
    """Return `numpy.outer` of vectors."""
    return expand_dims(x, [1]) * expand_dims(y, [0])


def batched_dot(x: Value, y: Value) -> Value:
    """Return `dot` for each index of a common leading axis."""
    return contract(x, y, (x.ndim - 1, 1), batch=1)


@operator
def matmul(x: Value, y: Value) -> Value:
    """Return `numpy.matmul`: matrix products over broadcast leading axes."""
    rx, ry = x.ndim, y.ndim
    if rx <= 2 and ry <= 2:
        return dot(x, y)
    x = expand_dims(x, [0]) if rx == 1 else x
    y = expand_dims(y, [1]) if ry == 1 else y
    (*bx, m, k), (*by, k_, n) = x.shape, y.shape
    batch = broadcast_shapes(tuple(bx), tuple(by))
    count = math.prod(batch)
    if not by:  # One matrix for the whole batch: no need to repeat it.
        product = contract(x, y, (len(bx) + 1, 0))
    else:
        x = reshape(broadcast_to(x, (*batch, m, k)), (count, m, k))
        y = reshape(broadcast_to(y, (*batch, k_, n)), (count, k_, n))
        product = reshape(batched_dot(x, y), (*batch, m, n))
    dropped = [len(batch)] * (rx == 1) + [len(batch) + 1] * (ry == 1)
    return squeeze(product, dropped)


# --- Sparse products of blocks ------------------------------------------------------------
#
# A block matrix has shape (block rows, block columns, rows, columns), where the last two axes are
# those of one block. Vectors have shape (batch, blocks, elements). Integer arrays of shape
# (batch, blocks) say to which block row or block column each of their blocks belongs.


def _fitted(
    left: Value, matrix: Value, right: Value, rows: Value, columns: Value
) -> tuple[Value, Value, Value, Value, Value]:
    """Return vectors and indices that have to fit the blocks of a matrix.

    Raises
    ------
    ShapeMismatchError
        They do not.
    """
    batch, _, height = left.shape
    _, count, width = right.shape
    text = (
        f"Vectors of shapes {left.shape} and {right.shape}, at indices of shapes {rows.shape} and "
        f"{columns.shape}, do not fit blocks of {matrix.shape}."
    )
    matrix = with_shape(matrix, (*matrix.shape[:2], height, width), text)
    right = with_shape(right, (batch, count, width), text)
    rows = with_shape(rows, left.shape[:2], text)
    return left, matrix, right, rows, with_shape(columns, (batch, count), text)


def multiply_blocks(y: Value, matrix: Value, x: Value, rows: Value, columns: Value) -> Value:
    """Add products of blocks of ``x`` and a block matrix to the blocks of ``y``.

    Parameters
    ----------
    y : (batch, m, height)
        The vectors to add to.
    matrix : (block rows, block columns, width, height)
        The block matrix.
    x : (batch, n, width)
        The vectors to multiply.
    rows : (batch, n) integers
        The block row of each block of ``x``.
    columns : (batch, m) integers
        The block column of each block of ``y``.
    """
    x, matrix, y, rows, columns = _fitted(x, matrix, y, rows, columns)
    blocks = ga.take(matrix, [expand_dims(rows, [1]), expand_dims(columns, [2])])
    dtype = ew.canonical(np.result_type(blocks.dtype, x.dtype))
    blocks, x = blocks.astype(dtype), x.astype(dtype)
    contract, batch = ((2, 3), (1, 2)), ((0,), (0,))
    return y + lax.dot_general(blocks, x, contract, batch).astype(y.dtype)


def add_outer_blocks(
    matrix: Value, x: Value, y: Value, rows: Value, columns: Value, scale: Value
) -> Value:
    """Add scaled outer products to blocks of a block matrix, for each pair of a row and a column.

    Parameters
    ----------
    matrix : (block rows, block columns, width, height)
        The block matrix.
    x : (batch, n, width)
        The left factors.
    y : (batch, m, height)
        The right factors.
    rows : (batch, n) integers
        The block row of each block of ``x``.
    columns : (batch, m) integers
        The block column of each block of ``y``.
    scale
        The factor of all products; it broadcasts.
    """
    x, matrix, y, rows, columns = _fitted(x, matrix, y, rows, columns)
    products = scale * (expand_dims(x, [2, 4]) * expand_dims(y, [1, 3]))
    index = [expand_dims(rows, [2]), expand_dims(columns, [1])]
    return ga.put(matrix, products, index, add=True)
