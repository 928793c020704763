"""Products of a few blocks of vectors with a few blocks of a matrix, chosen by indices.

A matrix is an array of shape (rows of blocks, columns of blocks, block's rows, block's columns);
vectors have shape (batch, blocks, block), and what they were chosen by is (batch, blocks).
"""

from __future__ import annotations

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import gather as ga
from jaxprgen.emit.shape import expand_dims
from jaxprgen.emit.values import Value, atom, dtype_of, shape_of
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def _require(left: Value, matrix: Value, right: Value, rows: Value, columns: Value) -> None:
    """That vectors on either side of a matrix fit its blocks and what they were chosen by."""
    (batch, _, height), (_, _, width) = shape_of(left), shape_of(right)
    if (
        shape_of(left)[:2] != shape_of(rows)
        or shape_of(right)[:2] != shape_of(columns)
        or shape_of(right)[0] != batch
        or shape_of(matrix)[2:] != (height, width)
    ):
        raise ShapeMismatchError(
            f"Vectors of shapes {shape_of(left)} and {shape_of(right)}, at indices of shapes "
            f"{shape_of(rows)} and {shape_of(columns)}, do not fit blocks of {shape_of(matrix)}."
        )


def multiply_blocks(
    b: Builder, y: Value, matrix: Value, x: Value, rows: Value, columns: Value
) -> Value:
    """``y`` plus, for each of its blocks, the products of all blocks of ``x`` with the matrix's.

    Of a block of ``x`` at a row and one of ``y`` at a column, that is the block there.
    """
    _require(x, matrix, y, rows, columns)
    blocks = ga.take(b, matrix, [expand_dims(b, rows, [1]), expand_dims(b, columns, [2])])
    dtype = ew.canonical(np.result_type(dtype_of(blocks), dtype_of(x)))
    blocks, x = ew.convert(b, blocks, dtype), ew.convert(b, x, dtype)
    contract, batch = ((2, 3), (1, 2)), ((0,), (0,))
    product = lax.dot_general(b, atom(b, blocks), atom(b, x), contract, batch)
    return ew.add(b, y, ew.convert(b, product, dtype_of(y)))


def add_outer_blocks(
    b: Builder, matrix: Value, x: Value, y: Value, rows: Value, columns: Value, scale: Value
) -> Value:
    """The matrix plus, at each pair of a row and a column, the outer product of their blocks."""
    _require(x, matrix, y, rows, columns)
    left, right = expand_dims(b, x, [2, 4]), expand_dims(b, y, [1, 3])
    product = ew.multiply(b, scale, ew.multiply(b, left, right))
    index = [expand_dims(b, rows, [2]), expand_dims(b, columns, [1])]
    return ga.put(b, matrix, product, index, add=True)
