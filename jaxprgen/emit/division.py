"""Division, remainder and powers with NumPy's rounding, signs and infinities."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit import complex_numbers
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.values import (
    Value,
    broadcast_shapes,
    broadcast_to,
    dtype_of,
    elementwise,
    full_rank,
    like,
    shape_of,
    splat,
    splat_value,
    value_of,
)
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax


def divide(b: Builder, x: Value, y: Value) -> Value:
    """`numpy.true_divide` of floats or complex numbers."""
    return (complex_numbers if dtype_of(x).kind == "c" else ew).divide(b, x, y)


def reciprocal(b: Builder, x: Value) -> Value:
    """`numpy.reciprocal` of floats or complex numbers."""
    return (complex_numbers if dtype_of(x).kind == "c" else ew).reciprocal(b, x)


def remainder(b: Builder, x: Value, y: Value) -> Value:
    """`numpy.remainder`: what `floor_divide` leaves, with the divisor's sign."""
    truncated = elementwise(b, lax.rem, x, y)
    kind = dtype_of(x).kind
    if kind == "u":
        return truncated
    zero = like(x, 0)
    moved = ew.where(b, _signs_differ(b, truncated, y), ew.add(b, truncated, y), truncated)
    if kind != "f":
        return moved
    # NumPy gives a remainder of zero the divisor's sign: y * 0 has it (y is finite or NaN
    # there, or the remainder is not zero), except that infinite divisors want a signed zero.
    signed_zero = ew.where(b, ew.less(b, y, zero), like(x, -0.0), zero)
    return ew.where(b, ew.equal(b, moved, zero), signed_zero, moved)


def _signs_differ(b: Builder, remains: Value, y: Value) -> Value:
    zero = like(y, 0)
    different = ew.not_equal(b, ew.less(b, remains, zero), ew.less(b, y, zero))
    return ew.bitwise_and(b, different, ew.not_equal(b, remains, zero))


def floor_divide(b: Builder, x: Value, y: Value) -> Value:
    """`numpy.floor_divide`: the largest integer not above the quotient."""
    kind = dtype_of(x).kind
    quotient = elementwise(b, lax.div, x, y)
    if kind == "u":
        return quotient
    remains = elementwise(b, lax.rem, x, y)
    if kind == "i":
        low = ew.subtract(b, quotient, like(x, 1))
        return ew.where(b, _signs_differ(b, remains, y), low, quotient)
    # As in CPython and NumPy: divide what is divisible, then round to the nearest integer,
    # because x / y itself may round up to the next one.
    whole = ew.divide(b, ew.subtract(b, x, remains), y)
    whole = ew.where(b, _signs_differ(b, remains, y), ew.subtract(b, whole, like(x, 1)), whole)
    down = ew.floor(b, whole)
    late = ew.greater(b, ew.subtract(b, whole, down), like(x, 0.5))
    nearest = ew.where(b, late, ew.add(b, down, like(x, 1)), down)
    zero = like(x, 0)
    signed_zero = ew.multiply(b, quotient, zero)
    result = ew.where(b, ew.equal(b, whole, zero), signed_zero, nearest)
    return ew.where(b, ew.equal(b, y, zero), quotient, result)


def power(b: Builder, x: Value, y: Value) -> Value:
    """`numpy.power` of operands of one dtype; integer powers of integers wrap.

    A negative integer to an integer (an error in NumPy) is 1 here.
    """
    kind = dtype_of(x).kind
    if kind == "c":
        return complex_numbers.power(b, x, y)
    exponent = splat_value(y)
    if exponent is not None and kind in "iuf" and _is_small_integer(exponent, signed=kind == "f"):
        raised = _integer_power(b, x, int(exponent))
        return broadcast_to(b, raised, broadcast_shapes(shape_of(x), shape_of(y)))
    if kind == "f":
        return elementwise(b, lax.pow, x, y)
    return full_rank(b, _power_by_squaring, x, y)


def _is_small_integer(exponent: Any, signed: bool) -> bool:
    """Up to 32 repeated multiplication is as exact as ``pow`` to a few units in the last place."""
    return bool((-32 if signed else 0) <= exponent <= 32 and exponent == int(exponent))


def _integer_power(b: Builder, x: Value, exponent: int) -> Value:
    if exponent == 1:
        return x
    if exponent == 2:
        return ew.square(b, x)
    return elementwise(b, lambda b, a: lax.integer_pow(b, a, exponent), x)


def _power_by_squaring(b: Builder, x: Atom, y: Atom) -> Var:
    """One squaring per binary digit of the largest exponent, so that overflow wraps as in C."""
    dtype = x.aval.dtype
    zero, one = (np.asarray(v, dtype) for v in (0, 1))

    def digits_left(c: Builder, _: Value, __: Value, exponent: Value) -> Value:
        positive = ew.greater(c, exponent, zero)
        return lax.reduce_or(c, positive, range(len(x.aval.shape)))  # type: ignore[arg-type]

    def step(c: Builder, result: Value, base: Value, exponent: Value) -> list[Value]:
        odd = ew.equal(c, ew.bitwise_and(c, exponent, one), one)
        return [
            ew.where(c, odd, ew.multiply(c, result, base), result),
            ew.multiply(c, base, base),
            elementwise(c, lax.shift_right_logical, exponent, one),
        ]

    carries = [splat(1, dtype, x.aval.shape), value_of(x), value_of(y)]
    return while_loop(b, digits_left, step, carries)[0]  # type: ignore[return-value]
