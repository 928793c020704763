"""Sorting, the largest elements, and searching in what is sorted; NaN is last, as in NumPy."""

from __future__ import annotations

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit import reduce
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.shape import expand_dims, slice_axis, transpose
from jaxprgen.emit.values import INT64, Value, full
from jaxprgen.errors import ShapeMismatchError

INT8 = np.dtype(np.int8)


def _missing(x: Value) -> Value:
    """Of complex numbers: 0, or 1 where the imaginary part is NaN, 2 the real one, 3 both."""
    real, imag = (ew.isnan(part(x)).astype(INT8) for part in (ew.real, ew.imag))
    return real + real + imag


def keys_of(x: Value) -> list[Value]:
    """What to sort by, the most significant first.

    XLA orders as NumPy does, but for complex numbers with NaN, which NumPy puts behind others.
    """
    return [_missing(x), x] if x.dtype.kind == "c" else [x]


def sort(x: Value, axis: int) -> Value:
    """`numpy.sort`."""
    keys = keys_of(x)
    return lax.sort(keys, axis, len(keys))[-1]


def _sort_with_positions(x: Value, axis: int) -> tuple[Value, Value]:
    keys = keys_of(x)
    position = lax.iota(ew.canonical(INT64), x.shape, axis)
    values, positions = lax.sort([*keys, position], axis, len(keys))[-2:]
    return values, positions


def argsort(x: Value, axis: int) -> Value:
    """`numpy.argsort` that keeps the order of equal elements; int64 (int32 where x64 is off)."""
    return _sort_with_positions(x, axis)[1]


# --- The largest elements ----------------------------------------------------------------


def top_k(x: Value, k: int, axis: int) -> tuple[Value, Value]:
    """The ``k`` largest elements on an axis in descending order, and their positions.

    With a negative ``k`` the smallest, in ascending order. NaN counts as largest, but if it is a
    single element that is asked for, NaN wins either way, as with `numpy.max` and `numpy.min`.
    All elements, if that many are asked for, stay where they are. Positions are integers.
    """
    shape = x.shape
    if not 0 < abs(k) <= shape[axis]:
        raise ShapeMismatchError(
            f"Cannot take the {k} largest elements on axis {axis} of shape {shape}: from 1 to "
            f"{shape[axis]} can be taken, and of the smallest from -1 to -{shape[axis]}."
        )
    if abs(k) == shape[axis]:
        return x, lax.iota(ew.canonical(INT64), shape, axis)
    if x.dtype.kind == "c":
        return _top_k_complex(x, k, axis)
    order = [d for d in range(len(shape)) if d != axis] + [axis]
    back = [order.index(d) for d in range(len(shape))]
    rows = transpose(x, order)
    if k < -1:  # Then NaN becomes negative.
        numbers = _reversed(_with_largest_nan(rows))
    else:
        numbers = _with_largest_nan(_reversed(rows) if k < 0 else rows)
    values, positions = lax.top_k(numbers, abs(k))
    values = _reversed(values) if k < 0 else values
    return transpose(values, back), transpose(positions, back)


def _with_largest_nan(x: Value) -> Value:
    """The same numbers, and every NaN positive: ``top_k`` takes a negative one for smallest."""
    return ew.where(ew.isnan(x), np.nan, x) if x.dtype.kind == "f" else x


def _reversed(x: Value) -> Value:
    """The numbers in the opposite order; of integers the complement, which does not overflow."""
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
    """Whether ``x`` sorts before ``y``."""
    kind = x.dtype.kind
    if kind == "c":
        # Among numbers that miss the same parts, the others decide.
        first, second = _missing(x), _missing(y)
        tie = _without_nan(x) < _without_nan(y)
        return ew.where(ew.equal(first, second), tie, first < second)
    if kind != "f":
        return x < y
    return (x < y) | (ew.isnan(y) > ew.isnan(x))


def _without_nan(x: Value) -> Value:
    real, imag = (part(x) for part in (ew.real, ew.imag))
    return ew.complex_(*(ew.where(ew.isnan(p), 0, p) for p in (real, imag)))


def searchsorted(x: Value, v: Value, *, right: bool, sorter: Value | None = None) -> Value:
    """`numpy.searchsorted` in a vector ``x`` of the same dtype; int64 (int32 where x64 is off).

    Bisection in strides that are powers of two, the first one the largest not above ``x``'s
    size. Every stride is one pass over ``v``.
    """
    size, dtype = x.shape[0], ew.canonical(INT64)
    if sorter is not None and sorter.shape != (size,):
        raise ShapeMismatchError(f"{sorter.shape[0]} positions do not sort {size} elements.")
    if not size or 0 in v.shape:
        return full(v.shape, 0, dtype)
    if sorter is not None:
        x = lax.gather(x, expand_dims(sorter, [1]), [0], [0], in_bounds=True)

    def go_on(_: Value, stride: Value, *__: Value) -> Value:
        return stride > 0

    def step(found: Value, stride: Value, x: Value, v: Value) -> list[Value]:
        further = found + stride
        last = ew.minimum(further, size) - 1
        where = expand_dims(last, [last.ndim])
        element = lax.gather(x, where, [0], range(last.ndim), in_bounds=True)
        behind = ~_before(v, element) if right else _before(element, v)
        go = (further <= size) & behind
        half = lax.shift_right_logical(stride, 1)
        return [ew.where(go, further, found), half, x, v]

    start = full(v.shape, 0, dtype)
    stride = full((), 1 << (size.bit_length() - 1), dtype)
    return while_loop(go_on, step, [start, stride, x, v])[0]
