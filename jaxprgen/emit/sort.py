"""Sorting, the largest elements, and searching in what is sorted; NaN is last, as in NumPy."""

from __future__ import annotations

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import reduce
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.shape import expand_dims, slice_axis, transpose
from jaxprgen.emit.values import (
    INT64,
    Value,
    atom,
    atoms,
    dtype_of,
    elementwise,
    like,
    shape_of,
    splat,
)
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax

INT8 = np.dtype(np.int8)


def _missing(b: Builder, x: Value) -> Value:
    """Of complex numbers: 0, or 1 where the imaginary part is NaN, 2 the real one, 3 both."""
    real, imag = (ew.convert(b, ew.isnan(b, part(b, x)), INT8) for part in (ew.real, ew.imag))
    return ew.add(b, ew.add(b, real, real), imag)


def keys_of(b: Builder, x: Value) -> list[Value]:
    """What to sort by, the most significant first.

    XLA orders as NumPy does, but for complex numbers with NaN, which NumPy puts behind others.
    """
    return [_missing(b, x), x] if dtype_of(x).kind == "c" else [x]


def sort(b: Builder, x: Value, axis: int) -> Value:
    """`numpy.sort`."""
    keys = keys_of(b, x)
    return lax.sort(b, atoms(b, keys), axis, len(keys))[-1]


def _sort_with_positions(b: Builder, x: Value, axis: int) -> tuple[Value, Value]:
    keys = keys_of(b, x)
    position = lax.iota(b, ew.canonical(INT64), shape_of(x), axis)
    values, positions = lax.sort(b, [*atoms(b, keys), position], axis, len(keys))[-2:]
    return values, positions


def argsort(b: Builder, x: Value, axis: int) -> Value:
    """`numpy.argsort` that keeps the order of equal elements; int64 (int32 where x64 is off)."""
    return _sort_with_positions(b, x, axis)[1]


# --- The largest elements ----------------------------------------------------------------


def top_k(b: Builder, x: Value, k: int, axis: int) -> tuple[Value, Value]:
    """The ``k`` largest elements on an axis in descending order, and their positions.

    With a negative ``k`` the smallest, in ascending order. NaN counts as largest, but if it is a
    single element that is asked for, NaN wins either way, as with `numpy.max` and `numpy.min`.
    All elements, if that many are asked for, stay where they are. Positions are integers.
    """
    shape = shape_of(x)
    if not 0 < abs(k) <= shape[axis]:
        raise ShapeMismatchError(
            f"Cannot take the {k} largest elements on axis {axis} of shape {shape}: from 1 to "
            f"{shape[axis]} can be taken, and of the smallest from -1 to -{shape[axis]}."
        )
    if abs(k) == shape[axis]:
        return x, lax.iota(b, ew.canonical(INT64), shape, axis)
    if dtype_of(x).kind == "c":
        return _top_k_complex(b, x, k, axis)
    order = [d for d in range(len(shape)) if d != axis] + [axis]
    back = [order.index(d) for d in range(len(shape))]
    rows = transpose(b, x, order)
    if k < -1:  # Then NaN becomes negative.
        numbers = _reversed(b, _with_largest_nan(b, rows))
    else:
        numbers = _with_largest_nan(b, _reversed(b, rows) if k < 0 else rows)
    values, positions = lax.top_k(b, atom(b, numbers), abs(k))
    values = _reversed(b, values) if k < 0 else values
    return transpose(b, values, back), transpose(b, positions, back)


def _with_largest_nan(b: Builder, x: Value) -> Value:
    """The same numbers, and every NaN positive: ``top_k`` takes a negative one for smallest."""
    return ew.where(b, ew.isnan(b, x), like(x, np.nan), x) if dtype_of(x).kind == "f" else x


def _reversed(b: Builder, x: Value) -> Value:
    """The numbers in the opposite order; of integers the complement, which does not overflow."""
    return ew.negative(b, x) if dtype_of(x).kind in "fc" else ew.invert(b, x)


def _top_k_complex(b: Builder, x: Value, k: int, axis: int) -> tuple[Value, Value]:
    if abs(k) == 1:
        value = reduce.max(b, x, [axis]) if k > 0 else reduce.min(b, x, [axis])
        position = reduce.argmax(b, x if k > 0 else _reversed(b, x), [axis])
        return expand_dims(b, value, [axis]), expand_dims(b, position, [axis])
    size = shape_of(x)[axis]
    values, positions = (
        slice_axis(b, v, axis, *((size - k, size) if k > 0 else (0, -k)))
        for v in _sort_with_positions(b, x, axis)
    )
    if k < 0:
        return values, positions
    return lax.rev(b, atom(b, values), [axis]), lax.rev(b, atom(b, positions), [axis])


# --- Searching ---------------------------------------------------------------------------


def _before(b: Builder, x: Value, y: Value) -> Value:
    """Whether ``x`` sorts before ``y``."""
    kind = dtype_of(x).kind
    if kind == "c":
        # Among numbers that miss the same parts, the others decide.
        first, second = _missing(b, x), _missing(b, y)
        tie = ew.less(b, _without_nan(b, x), _without_nan(b, y))
        return ew.where(b, ew.equal(b, first, second), tie, ew.less(b, first, second))
    if kind != "f":
        return ew.less(b, x, y)
    return ew.bitwise_or(b, ew.less(b, x, y), ew.greater(b, ew.isnan(b, y), ew.isnan(b, x)))


def _without_nan(b: Builder, x: Value) -> Value:
    real, imag = (part(b, x) for part in (ew.real, ew.imag))
    return ew.complex_(b, *(ew.where(b, ew.isnan(b, p), like(p, 0), p) for p in (real, imag)))


def searchsorted(
    b: Builder, x: Value, v: Value, *, right: bool, sorter: Value | None = None
) -> Value:
    """`numpy.searchsorted` in a vector ``x`` of the same dtype; int64 (int32 where x64 is off).

    Bisection in strides that are powers of two, the first one the largest not above ``x``'s
    size. Every stride is one pass over ``v``.
    """
    size, dtype = shape_of(x)[0], ew.canonical(INT64)
    if sorter is not None and shape_of(sorter) != (size,):
        raise ShapeMismatchError(f"{shape_of(sorter)[0]} positions do not sort {size} elements.")
    if not size or 0 in shape_of(v):
        return splat(0, dtype, shape_of(v))
    if sorter is not None:
        order = atom(b, expand_dims(b, sorter, [1]))
        x = lax.gather(b, atom(b, x), order, [0], [0], in_bounds=True)
    zero, one, count = (np.asarray(n, dtype) for n in (0, 1, size))

    def go_on(c: Builder, _: Value, stride: Value, *__: Value) -> Value:
        return ew.greater(c, stride, zero)

    def step(c: Builder, found: Value, stride: Value, x: Value, v: Value) -> list[Value]:
        further = ew.add(c, found, stride)
        last = ew.subtract(c, ew.minimum(c, further, count), one)
        rank = len(shape_of(last))
        where = atom(c, expand_dims(c, last, [rank]))
        element = lax.gather(c, atom(c, x), where, [0], range(rank), in_bounds=True)
        behind = ew.invert(c, _before(c, v, element)) if right else _before(c, element, v)
        go = ew.bitwise_and(c, ew.less_equal(c, further, count), behind)
        half = elementwise(c, lax.shift_right_logical, stride, one)
        return [ew.where(c, go, further, found), half, x, v]

    start = splat(0, dtype, shape_of(v))
    stride = np.asarray(1 << (size.bit_length() - 1), dtype)
    return while_loop(b, go_on, step, [start, stride, x, v])[0]
