"""Arrays made of nothing but numbers: ranges and identity matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.values import Dtype, Value, full


def arange_length(start: Any, stop: Any, step: Any) -> int:
    """The length of ``numpy.arange(start, stop, step)``."""
    return max(0, math.ceil((stop - start) / step))


def arange(start: Value, step: Value, length: int, dtype: Dtype) -> Value:
    """``start + step * i`` for ``i`` below a known length; start and step are scalars."""
    if dtype.kind == "b":
        return arange(start, step, length, np.dtype(np.int8)).astype(dtype)
    index = lax.iota(dtype, (length,), 0)
    scaled = index * step if not _is(step, 1) else index
    return scaled + start if not _is(start, 0) else scaled


def _is(x: Value, value: int) -> bool:
    return x.fill_value is not None and bool(x.fill_value == value)


def eye(rows: int, columns: int, diagonal: Value, dtype: Dtype) -> Value:
    """Ones on one diagonal of a matrix (an integer scalar; 0 the main one), zeros elsewhere."""
    if rows == 0 or columns == 0:
        return full((rows, columns), 0, dtype)
    index = (
        np.dtype(np.int64) if max(rows, columns) > np.iinfo(np.int32).max else np.dtype(np.int32)
    )
    row = lax.iota(index, (rows, columns), 0)
    column = lax.iota(index, (rows, columns), 1)
    offset = diagonal.astype(index)
    shifted = row if _is(offset, 0) else row + offset
    return ew.equal(shifted, column).astype(dtype)


def bartlett(length: int) -> Value:
    """`numpy.bartlett`: a triangle from zero to one and back, in float64."""
    dtype = ew.canonical(np.float64)
    if length <= 1:
        return full((max(length, 0),), 1, dtype)
    distance = abs(arange(full((), 1 - length, dtype), full((), 2, dtype), length, dtype))
    return 1 - distance / (length - 1)
