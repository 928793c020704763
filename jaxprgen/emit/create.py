"""Ranges, identity matrices and windows: arrays made of numbers alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxprgen._jax import Size, max_size
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.sizes import is_at_most, is_known
from jaxprgen.emit.values import INT8, INT32, INT64, Array, Dtype, Shape, Value, full


def arange_length(start: Any, stop: Any, step: Any) -> Size:
    """Return the length of ``numpy.arange(start, stop, step)``."""
    if not is_known((start, stop, step)):
        return max_size(0, -((start - stop) // step))
    return max(0, math.ceil((stop - start) / step))


def arange(start: Value, step: Value, length: Size, dtype: Dtype) -> Value:
    """Return ``start + step * i`` for ``i`` below a known length, for scalars start and step."""
    if dtype.kind == "b":
        return arange(start, step, length, INT8).astype(dtype)
    index = lax.iota(dtype, (length,), 0)
    scaled = index * step if not _is(step, 1) else index
    return scaled + start if not _is(start, 0) else scaled


def count_along(shape: Shape, axis: int) -> Value:
    """Return 0, 1, 2, … along one axis of a shape, with size one along the others."""
    own = tuple(n if d == axis else 1 for d, n in enumerate(shape))
    if is_known(own):
        return Value(np.arange(shape[axis]).reshape(own))
    return lax.iota(ew.canonical(INT64), own, axis)


def positions(shape: Shape, axis: int) -> Array | Value:
    """Return `count_along` as an array if it is known, for NumPy to compute with."""
    counted = count_along(shape, axis)
    return counted if counted.static is None else counted.static


def _is(x: Value, value: int) -> bool:
    return x.fill_value is not None and bool(x.fill_value == value)


def eye(rows: Size, columns: Size, diagonal: Value, dtype: Dtype) -> Value:
    """Return a matrix with ones on one diagonal and zeros elsewhere, as `numpy.eye`.

    Parameters
    ----------
    rows, columns
        The shape.
    diagonal
        The offset of the diagonal, an integer scalar; 0 is the main diagonal.
    dtype
        The dtype of the result.
    """
    if rows == 0 or columns == 0:
        return full((rows, columns), 0, dtype)
    is_small = all(is_at_most([n], np.iinfo(np.int32).max) for n in (rows, columns))
    index_dtype = INT32 if is_small else INT64
    row, column = (lax.iota(index_dtype, (rows, columns), d) for d in (0, 1))
    offset = diagonal.astype(index_dtype)
    shifted = row if _is(offset, 0) else row + offset
    return ew.equal(shifted, column).astype(dtype)


def bartlett(length: Size) -> Value:
    """Return `numpy.bartlett`, a triangle from zero to one and back, in float64."""
    dtype = ew.canonical(np.float64)
    length = max_size(length, 0)
    if is_at_most([length], 1):
        return full((length,), 1, dtype)
    distance = abs(arange(full((), 1 - length, dtype), full((), 2, dtype), length, dtype))
    return 1 - distance / max_size(length - 1, 1)
