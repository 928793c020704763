"""Division, remainder and powers with NumPy's rounding, signs and infinities."""

from __future__ import annotations

from typing import Any

from jaxprgen.emit import complex_numbers
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.values import Value, broadcast_to, common_shape, full


def divide(x: Value, y: Value) -> Value:
    """`numpy.true_divide` of floats or complex numbers."""
    return complex_numbers.divide(x, y) if x.dtype.kind == "c" else x / y


def reciprocal(x: Value) -> Value:
    """`numpy.reciprocal` of floats or complex numbers."""
    return complex_numbers.reciprocal(x) if x.dtype.kind == "c" else 1 / x


def remainder(x: Value, y: Value) -> Value:
    """`numpy.remainder`: what `floor_divide` leaves, with the divisor's sign."""
    truncated = lax.rem(x, y)
    kind = x.dtype.kind
    if kind == "u":
        return truncated
    zero = x.like(0)
    moved = ew.where(_signs_differ(truncated, y), truncated + y, truncated)
    if kind != "f":
        return moved
    # NumPy gives a remainder of zero the divisor's sign: y * 0 has it (y is finite or NaN
    # there, or the remainder is not zero), except that infinite divisors want a signed zero.
    signed_zero = ew.where(y < zero, -0.0, zero)
    return ew.where(ew.equal(moved, zero), signed_zero, moved)


def _signs_differ(remains: Value, y: Value) -> Value:
    zero = y.like(0)
    different = ew.not_equal(remains < zero, y < zero)
    return different & ew.not_equal(remains, zero)


def floor_divide(x: Value, y: Value) -> Value:
    """`numpy.floor_divide`: the largest integer not above the quotient."""
    kind = x.dtype.kind
    quotient = lax.div(x, y)
    if kind == "u":
        return quotient
    remains = lax.rem(x, y)
    if kind == "i":
        low = quotient - 1
        return ew.where(_signs_differ(remains, y), low, quotient)
    # As in CPython and NumPy: divide what is divisible, then round to the nearest integer,
    # because x / y itself may round up to the next one.
    whole = (x - remains) / y
    whole = ew.where(_signs_differ(remains, y), whole - 1, whole)
    down = ew.floor(whole)
    late = whole - down > 0.5
    nearest = ew.where(late, down + 1, down)
    zero = x.like(0)
    signed_zero = quotient * zero
    result = ew.where(ew.equal(whole, zero), signed_zero, nearest)
    return ew.where(ew.equal(y, zero), quotient, result)


def power(x: Value, y: Value) -> Value:
    """`numpy.power` of operands of one dtype; integer powers of integers wrap.

    A negative integer to an integer (an error in NumPy) is 1 here.
    """
    kind = x.dtype.kind
    if kind == "c":
        return complex_numbers.power(x, y)
    exponent = y.fill_value
    if exponent is not None and kind in "iuf" and _is_small_integer(exponent, signed=kind == "f"):
        raised = _integer_power(x, int(exponent))
        return broadcast_to(raised, common_shape(x, y))
    if kind == "f":
        return lax.pow(x, y)
    shape = common_shape(x, y)
    return _power_by_squaring(broadcast_to(x, shape), broadcast_to(y, shape))


def _is_small_integer(exponent: Any, signed: bool) -> bool:
    """Up to 32 repeated multiplication is as exact as ``pow`` to a few units in the last place."""
    return bool((-32 if signed else 0) <= exponent <= 32 and exponent == int(exponent))


def _integer_power(x: Value, exponent: int) -> Value:
    if exponent == 1:
        return x
    if exponent == 2:
        return ew.square(x)
    return lax.integer_pow(x, exponent)


def _power_by_squaring(x: Value, y: Value) -> Value:
    """One squaring per binary digit of the largest exponent, so that overflow wraps as in C."""

    def digits_left(_: Value, __: Value, exponent: Value) -> Value:
        return lax.reduce_or(exponent > 0, range(exponent.ndim))

    def step(result: Value, base: Value, exponent: Value) -> list[Value]:
        odd = ew.equal(exponent & 1, 1)
        following = lax.shift_right_logical(exponent, 1)
        return [ew.where(odd, result * base, result), base * base, following]

    return while_loop(digits_left, step, [full(x.shape, 1, x.dtype), x, y])[0]
