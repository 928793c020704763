"""Products of vectors and matrices."""

from __future__ import annotations

import math

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.shape import expand_dims, reshape, squeeze
from jaxprgen.emit.values import (
    BOOL,
    Value,
    atom,
    broadcast_shapes,
    broadcast_to,
    dtype_of,
    shape_of,
)
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax

_COUNT = np.dtype(np.int32)


def contract(b: Builder, x: Value, y: Value, axes: tuple[int, int], batch: int = 0) -> Value:
    """Sum of products over one axis of each, with ``batch`` leading axes in common.

    On booleans it is "or" of "and"s, as in NumPy.
    """
    sx, sy = shape_of(x), shape_of(y)
    if sx[axes[0]] != sy[axes[1]] or sx[:batch] != sy[:batch]:
        raise ShapeMismatchError(
            f"Cannot multiply shapes {sx} and {sy}: axis {axes[0]} of the first has size "
            f"{sx[axes[0]]}, axis {axes[1]} of the second {sy[axes[1]]}."
        )
    if dtype_of(x) == BOOL:
        count = contract(b, ew.convert(b, x, _COUNT), ew.convert(b, y, _COUNT), axes, batch)
        return ew.truth(b, count)
    common = tuple(range(batch))
    pairs = ((axes[0],), (axes[1],))
    return lax.dot_general(b, atom(b, x), atom(b, y), pairs, (common, common))


def dot(b: Builder, x: Value, y: Value) -> Value:
    """`numpy.dot` of vectors and matrices."""
    return contract(b, x, y, (len(shape_of(x)) - 1, 0))


def outer(b: Builder, x: Value, y: Value) -> Value:
    """The products of every element of one vector with every element of another."""
    return ew.multiply(b, expand_dims(b, x, [1]), expand_dims(b, y, [0]))


def batched_dot(b: Builder, x: Value, y: Value) -> Value:
    """`dot` for each index of a common leading axis."""
    return contract(b, x, y, (len(shape_of(x)) - 1, 1), batch=1)


def matmul(b: Builder, x: Value, y: Value) -> Value:
    """`numpy.matmul`: matrix products over broadcast leading axes."""
    rx, ry = len(shape_of(x)), len(shape_of(y))
    if rx <= 2 and ry <= 2:
        return dot(b, x, y)
    left = expand_dims(b, x, [0]) if rx == 1 else x
    right = expand_dims(b, y, [1]) if ry == 1 else y
    (*bx, m, k), (*by, k_, n) = shape_of(left), shape_of(right)
    batch = broadcast_shapes(tuple(bx), tuple(by))
    count = math.prod(batch)
    if not by:  # One matrix for the whole batch: no need to repeat it.
        product = contract(b, left, right, (len(bx) + 1, 0))
    else:
        left = reshape(b, broadcast_to(b, left, (*batch, m, k)), (count, m, k))
        right = reshape(b, broadcast_to(b, right, (*batch, k_, n)), (count, k_, n))
        product = reshape(b, batched_dot(b, left, right), (*batch, m, n))
    dropped = [len(batch)] * (rx == 1) + [len(batch) + 1] * (ry == 1)
    return squeeze(b, product, dropped)
