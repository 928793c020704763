"""Ranges, identity matrices and windows: arrays made of numbers alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxprgen._jax import JaxprEqn, Size, Var, max_size
from jaxprgen.emit import elementwise as ew, primitives as lax
from jaxprgen.emit.sizes import is_at_most, is_known
from jaxprgen.emit.values import INT8, INT32, INT64, Array, Dtype, Shape, Value, full
from jaxprgen.ir import current_builder


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


def counted_axis(x: Value) -> int | None:
    """Return the axis along which integers are known to count 0, 1, 2, …, and else are constant.

    Return None if there is no such axis, or the integers are not known to.
    """
    if x.is_uniform or x.dtype.kind not in "iu":
        return None
    source = x.source
    if type(source) is Var:
        return _counted_axis(source)
    long = [d for d, n in enumerate(source.shape) if n != 1]
    if len(long) != 1:
        return None
    numbers, last = source.ravel(), source.size - 1
    counts = last > 0 and numbers[last] == last and np.array_equal(numbers, np.arange(source.size))
    return long[0] if counts else None


def _counted_axis(x: Var) -> int | None:
    """Return the axis along which a variable counts: an iota, perhaps with axes of size one."""
    eqn = _maker(x)
    name = eqn.primitive.name if eqn else ""
    if eqn is None or name == "iota":
        return eqn and eqn.params["dimension"]
    before: Any = eqn.invars[0] if name in ("broadcast_in_dim", "reshape") else None
    axis = _counted_axis(before) if type(before) is Var else None
    if axis is None:
        return None
    if name == "broadcast_in_dim":
        return eqn.params["broadcast_dimensions"][axis]
    long, own = ([n for n in v.aval.shape if n != 1] for v in (before, x))
    return x.aval.shape.index(*own) if len(own) == 1 and own == long else None


def _maker(x: Var) -> JaxprEqn | None:
    """Return the equation of the current program that computes a variable, if one does."""
    b = current_builder()
    makers: list[Any] = b.memoized("makers", lambda: [0, {}])  # How many are noted, and they.
    if makers[0] < len(b):
        makers[1].update((v, eqn) for eqn in b.equations_from(makers[0]) for v in eqn.outvars)
        makers[0] = len(b)
    return makers[1].get(x)


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
