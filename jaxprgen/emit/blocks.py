"""Products of a few blocks of vectors with a few blocks of a matrix, chosen by indices.

A matrix is an array of shape (rows of blocks, columns of blocks, block's rows, block's columns);
vectors have shape (batch, blocks, block), and what they were chosen by is (batch, blocks).
"""

from __future__ import annotations

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import gather as ga
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.shape import expand_dims
from jaxprgen.emit.values import Value
from jaxprgen.errors import ShapeMismatchError


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
