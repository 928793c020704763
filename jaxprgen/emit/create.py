"""Arrays made of nothing but numbers: ranges and identity matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import Dtype, Value, splat
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def arange_length(start: Any, stop: Any, step: Any) -> int:
    """The length of ``numpy.arange(start, stop, step)``."""
    return max(0, math.ceil((stop - start) / step))


def arange(b: Builder, start: Value, step: Value, length: int, dtype: Dtype) -> Value:
    """``start + step * i`` for ``i`` below a known length; start and step are scalars."""
    if dtype.kind == "b":
        return ew.convert(b, arange(b, start, step, length, np.dtype(np.int8)), dtype)
    index = lax.iota(b, dtype, (length,), 0)
    scaled = ew.multiply(b, index, step) if not _is(step, 1) else index
    return ew.add(b, scaled, start) if not _is(start, 0) else scaled


def _is(x: Value, value: int) -> bool:
    return isinstance(x, np.ndarray) and bool(x == value)


def eye(b: Builder, rows: int, columns: int, diagonal: Value, dtype: Dtype) -> Value:
    """Ones on one diagonal of a matrix (an integer scalar; 0 the main one), zeros elsewhere."""
    if rows == 0 or columns == 0:
        return splat(0, dtype, (rows, columns))
    index = (
        np.dtype(np.int64) if max(rows, columns) > np.iinfo(np.int32).max else np.dtype(np.int32)
    )
    row = lax.iota(b, index, (rows, columns), 0)
    column = lax.iota(b, index, (rows, columns), 1)
    offset = ew.convert(b, diagonal, index)
    shifted = row if _is(offset, 0) else ew.add(b, row, offset)
    return ew.convert(b, ew.equal(b, shifted, column), dtype)


def bartlett(b: Builder, length: int) -> Value:
    """`numpy.bartlett`: a triangle from zero to one and back, in float64."""
    dtype = ew.canonical(np.float64)
    if length <= 1:
        return splat(1, dtype, (max(length, 0),))
    first, step, half = (np.asarray(n, dtype) for n in (1 - length, 2, length - 1))
    distance = ew.absolute(b, arange(b, first, step, length, dtype))
    return ew.subtract(b, np.asarray(1, dtype), ew.divide(b, distance, half))
