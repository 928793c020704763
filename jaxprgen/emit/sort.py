"""Sorting, largest elements, and searching in sorted vectors; NaN is last, as in NumPy."""

from __future__ import annotations

import numpy as np

from jaxprgen._jax import Size, is_symbolic
from jaxprgen.emit import elementwise as ew, primitives as lax, reduce
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.shape import concatenate, expand_dims, slice_axis, transpose
from jaxprgen.emit.sizes import is_at_most, is_known, require_at_least, with_size
from jaxprgen.emit.values import INT8, INT64, Dtype, Value, full


def _missing(x: Value) -> Value:
    """Return, for complex numbers, 1 where the imaginary part is NaN, plus 2 where the real is."""
    real, imag = (ew.isnan(part(x)).astype(INT8) for part in (ew.real, ew.imag))
    return real + real + imag


def keys_of(x: Value) -> list[Value]:
    """Return the keys to sort by, the most significant first.

    XLA orders as NumPy does, except for complex numbers with NaN, which NumPy sorts last.
    """
    return [_missing(x), x] if x.dtype.kind == "c" else [x]


def sort(x: Value, axis: int) -> Value:
    """Return `numpy.sort` along an axis."""
    keys = keys_of(x)
    return lax.sort(keys, axis, len(keys))[-1]


def _sort_with_positions(x: Value, axis: int) -> tuple[Value, Value]:
    keys = keys_of(x)
    position = lax.iota(ew.canonical(INT64), x.shape, axis)
    values, positions = lax.sort([*keys, position], axis, len(keys))[-2:]
    return values, positions


def argsort(x: Value, axis: int) -> Value:
    """Return a stable `numpy.argsort`; int64 (int32 where x64 is off)."""
    return _sort_with_positions(x, axis)[1]


# --- The largest elements ----------------------------------------------------------------


def top_k(x: Value, k: Size, axis: int) -> tuple[Value, Value]:
    """Return the ``k`` largest elements along an axis, in descending order, and their positions.

    A negative ``k`` gives the smallest elements, in ascending order. NaN counts as largest; but if
    only one element is asked for, NaN wins either way, as in `numpy.max` and `numpy.min`. If all
    elements are asked for, they keep their order.

    Returns
    -------
    values, positions
        Positions are integers.

    Raises
    ------
    ShapeMismatchError
        ``abs(k)`` is not between 1 and the size of the axis.
    """
    shape, count = x.shape, -k if k < 0 else k
    text = (
        f"Cannot take the {k} largest elements on axis {axis} of shape {shape}: k must be from 1 "
        f"to {shape[axis]}, or from -1 to -{shape[axis]} for the smallest."
    )
    require_at_least(count, 1, text)
    require_at_least(shape[axis], count, text)
    if count == shape[axis]:
        return x, lax.iota(ew.canonical(INT64), shape, axis)
    values, positions = _top_k(x, k, count, axis)
    if not is_known((k, shape[axis])):
        is_every = ew.equal(full((), shape[axis], ew.canonical(INT64)), count)
        values = ew.where(is_every, slice_axis(x, axis, 0, count), values)
        every = lax.iota(positions.dtype, positions.shape, axis)
        positions = ew.where(is_every, every, positions)
    return values, positions


def _top_k(x: Value, k: Size, count: Size, axis: int) -> tuple[Value, Value]:
    if x.dtype.kind == "c":
        return _top_k_complex(x, k, axis)
    rank = x.ndim
    order = [d for d in range(rank) if d != axis] + [axis]
    back = [order.index(d) for d in range(rank)]
    rows = transpose(x, order)
    if k < -1:  # Reversing makes NaN negative, the smallest.
        numbers = _reversed(_with_largest_nan(rows))
    else:
        numbers = _with_largest_nan(_reversed(rows) if k < 0 else rows)
    values, positions = first_largest(numbers, count)
    values = _reversed(values) if k < 0 else values
    return transpose(values, back), transpose(positions, back)


def first_largest(x: Value, k: Size) -> tuple[Value, Value]:
    """Return the ``k`` largest elements along the last axis, at most its size, and positions."""
    axis, size = x.ndim - 1, x.shape[-1]
    if not is_known((k, size)) and size != k:  # JAX asks whether there are as many.
        x = concatenate([x, full((*x.shape[:-1], k), reduce.lowest(x.dtype), x.dtype)], axis)
    values, positions = lax.top_k(x, k)
    return values, positions


def _with_largest_nan(x: Value) -> Value:
    """Make every NaN positive: ``top_k`` takes a negative one for the smallest."""
    return ew.where(ew.isnan(x), np.nan, x) if x.dtype.kind == "f" else x


def _reversed(x: Value) -> Value:
    """Return numbers in the opposite order; integers by complement, which cannot overflow."""
    return -x if x.dtype.kind in "fc" else ~x


def _top_k_complex(x: Value, k: int, axis: int) -> tuple[Value, Value]:
    if abs(k) == 1:
        value = reduce.max(x, [axis]) if k > 0 else reduce.min(x, [axis])
        position = reduce.argmax(x if k > 0 else _reversed(x), [axis])
        return expand_dims(value, [axis]), expand_dims(position, [axis])
    size = x.shape[axis]
    values, positions = (
        slice_axis(v, axis, *((size - k, size) if k > 0 else (0, -k)))
        for v in _sort_with_positions(x, axis)
    )
    if k < 0:
        return values, positions
    return lax.rev(values, [axis]), lax.rev(positions, [axis])


# --- Searching ---------------------------------------------------------------------------


def _before(x: Value, y: Value) -> Value:
    """Return where ``x`` sorts before ``y``."""
    kind = x.dtype.kind
    if kind == "c":
        # Among numbers with NaN in the same parts, the other parts decide.
        first, second = _missing(x), _missing(y)
        tie = _without_nan(x) < _without_nan(y)
        return ew.where(ew.equal(first, second), tie, first < second)
    if kind != "f":
        return x < y
    return (x < y) | (ew.isnan(y) > ew.isnan(x))


def _without_nan(x: Value) -> Value:
    real, imag = (part(x) for part in (ew.real, ew.imag))
    return ew.complex_(*(ew.where(ew.isnan(p), 0, p) for p in (real, imag)))


def _largest_power(n: Size, dtype: Dtype) -> Value:
    """Return the largest power of two that is not above ``n``, or 0 for 0."""
    if not is_symbolic(n):
        return full((), 1 << (n.bit_length() - 1), dtype)
    highest = full((), np.iinfo(dtype).min, dtype)
    return lax.shift_right_logical(highest, lax.clz(full((), n, dtype)))


def searchsorted(x: Value, v: Value, *, right: bool, sorter: Value | None = None) -> Value:
    """Return `numpy.searchsorted` of ``v`` in a vector ``x`` of the same dtype.

    Bisection in strides that are powers of two, from the largest not above the size of ``x``. Every
    stride takes one pass over ``v``. The result is int64 (int32 where x64 is off).
    """
    size, dtype = x.shape[0], ew.canonical(INT64)
    if sorter is not None:
        text = f"A sorter of {sorter.shape[0]} positions does not fit {size} elements."
        sorter = with_size(sorter, 0, size, text)
    if not size or 0 in v.shape:
        return full(v.shape, 0, dtype)
    if sorter is not None:
        x = lax.gather(x, expand_dims(sorter, [1]), [0], [0], in_bounds=True)
    if not is_at_most([1 - size], 0):  # No element may be left, and XLA reads from none.
        x = concatenate([x, full((1,), 0, x.dtype)], 0)

    def goes_on(_: Value, stride: Value, *__: Value) -> Value:
        return stride > 0

    def step(found: Value, stride: Value, x: Value, v: Value) -> list[Value]:
        further = found + stride
        last = ew.minimum(further, size) - 1
        position = expand_dims(last, [last.ndim])
        element = lax.gather(x, position, [0], range(last.ndim), in_bounds=True)
        precedes = ~_before(v, element) if right else _before(element, v)
        moves = (further <= size) & precedes
        half = lax.shift_right_logical(stride, 1)
        return [ew.where(moves, further, found), half]

    start = full(v.shape, 0, dtype)
    stride = _largest_power(size, dtype)
    return while_loop(goes_on, step, [start, stride], [x, v])[0]
