"""Products of vectors and matrices."""

from __future__ import annotations

import math

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import gather as ga
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.shape import expand_dims, reshape, squeeze
from jaxprgen.emit.values import BOOL, Value, broadcast_shapes, broadcast_to
from jaxprgen.errors import ShapeMismatchError

_COUNT = np.dtype(np.int32)


def contract(x: Value, y: Value, axes: tuple[int, int], batch: int = 0) -> Value:
    """Sum of products over one axis of each, with ``batch`` leading axes in common.

    On booleans it is "or" of "and"s, as in NumPy.
    """
    sx, sy = x.shape, y.shape
    if sx[axes[0]] != sy[axes[1]] or sx[:batch] != sy[:batch]:
        raise ShapeMismatchError(
            f"Cannot multiply shapes {sx} and {sy}: axis {axes[0]} of the first has size "
            f"{sx[axes[0]]}, axis {axes[1]} of the second {sy[axes[1]]}."
        )
    if x.dtype == BOOL:
        count = contract(x.astype(_COUNT), y.astype(_COUNT), axes, batch)
        return ew.truth(count)
    common = tuple(range(batch))
    pairs = ((axes[0],), (axes[1],))
    return lax.dot_general(x, y, pairs, (common, common))


def dot(x: Value, y: Value) -> Value:
    """`numpy.dot` of vectors and matrices."""
    return contract(x, y, (x.ndim - 1, 0))


def outer(x: Value, y: Value) -> Value:
    """The products of every element of one vector with every element of another."""
    return expand_dims(x, [1]) * expand_dims(y, [0])


def batched_dot(x: Value, y: Value) -> Value:
    """`dot` for each index of a common leading axis."""
    return contract(x, y, (x.ndim - 1, 1), batch=1)


def matmul(x: Value, y: Value) -> Value:
    """`numpy.matmul`: matrix products over broadcast leading axes."""
    rx, ry = x.ndim, y.ndim
    if rx <= 2 and ry <= 2:
        return dot(x, y)
    left = expand_dims(x, [0]) if rx == 1 else x
    right = expand_dims(y, [1]) if ry == 1 else y
    (*bx, m, k), (*by, k_, n) = left.shape, right.shape
    batch = broadcast_shapes(tuple(bx), tuple(by))
    count = math.prod(batch)
    if not by:  # One matrix for the whole batch: no need to repeat it.
        product = contract(left, right, (len(bx) + 1, 0))
    else:
        left = reshape(broadcast_to(left, (*batch, m, k)), (count, m, k))
        right = reshape(broadcast_to(right, (*batch, k_, n)), (count, k_, n))
        product = reshape(batched_dot(left, right), (*batch, m, n))
    dropped = [len(batch)] * (rx == 1) + [len(batch) + 1] * (ry == 1)
    return squeeze(product, dropped)


# --- Sparse products of blocks ------------------------------------------------------------
#
# A block matrix has shape (block rows, block columns, rows, columns), where the last two axes are
# those of one block. Vectors have shape (batch, blocks, elements). Integer arrays of shape
# (batch, blocks) say to which block row or block column each of their blocks belongs.


def _require(left: Value, matrix: Value, right: Value, rows: Value, columns: Value) -> None:
    """That vectors on either side of a matrix fit its blocks and what they were chosen by."""
    (batch, _, height), (_, _, width) = left.shape, right.shape
    if (
        left.shape[:2] != rows.shape
        or right.shape[:2] != columns.shape
        or right.shape[0] != batch
        or matrix.shape[2:] != (height, width)
    ):
        raise ShapeMismatchError(
            f"Vectors of shapes {left.shape} and {right.shape}, at indices of shapes "
            f"{rows.shape} and {columns.shape}, do not fit blocks of {matrix.shape}."
        )


def multiply_blocks(y: Value, matrix: Value, x: Value, rows: Value, columns: Value) -> Value:
    """``y`` plus, for each of its blocks, the products of all blocks of ``x`` with the matrix's.

    Of a block of ``x`` at a row and one of ``y`` at a column, that is the block there.
    """
    _require(x, matrix, y, rows, columns)
    blocks = ga.take(matrix, [expand_dims(rows, [1]), expand_dims(columns, [2])])
    dtype = ew.canonical(np.result_type(blocks.dtype, x.dtype))
    blocks, x = blocks.astype(dtype), x.astype(dtype)
    contract, batch = ((2, 3), (1, 2)), ((0,), (0,))
    product = lax.dot_general(blocks, x, contract, batch)
    return y + product.astype(y.dtype)


def add_outer_blocks(
    matrix: Value, x: Value, y: Value, rows: Value, columns: Value, scale: Value
) -> Value:
    """The matrix plus, at each pair of a row and a column, the outer product of their blocks."""
    _require(x, matrix, y, rows, columns)
    left, right = expand_dims(x, [2, 4]), expand_dims(y, [1, 3])
    product = scale * (left * right)
    index = [expand_dims(rows, [2]), expand_dims(columns, [1])]
    return ga.put(matrix, product, index, add=True)
