"""Division, remainder and powers with NumPy's rounding, signs and infinities."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit import complex_numbers, elementwise as ew, primitives as lax
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.custom_derivatives import with_derivatives
from jaxprgen.emit.values import Value, broadcast_to, common_shape, full, operator


def divide(x: Value, y: Value) -> Value:
    """Return `numpy.true_divide` of floats or complex numbers."""
    return complex_numbers.divide(x, y) if x.dtype.kind == "c" else x / y


def reciprocal(x: Value) -> Value:
    """Return `numpy.reciprocal` of floats or complex numbers."""
    return complex_numbers.reciprocal(x) if x.dtype.kind == "c" else 1 / x


@operator
def remainder(x: Value, y: Value) -> Value:
    """Return `numpy.remainder`: the rest of `floor_divide`, with the divisor's sign."""
    truncated = lax.rem(x, y)
    kind = x.dtype.kind
    if kind == "u":
        return truncated
    rest = ew.where(_signs_differ(truncated, y), truncated + y, truncated)
    if kind != "f":
        return rest
    return _with_sign_of_zero(rest, y)


def _signed_as(rest: Value, y: Value) -> Value:
    """Return a remainder; if it is zero, with the divisor's sign."""
    signed_zero = ew.where(y < 0, y.like(-0.0), y.like(0))
    return ew.where(ew.equal(rest, 0), signed_zero, rest)


_with_sign_of_zero = with_derivatives(_signed_as, lambda x, y: x.like(1), lambda x, y: x.like(0))


def _signs_differ(rest: Value, y: Value) -> Value:
    """Return where a remainder is not zero and has not the divisor's sign."""
    return ew.not_equal(rest < 0, y < 0) & ew.not_equal(rest, 0)


@operator
def floor_divide(x: Value, y: Value) -> Value:
    """Return `numpy.floor_divide`: the quotient, rounded down."""
    kind = x.dtype.kind
    quotient = lax.div(x, y)
    if kind == "u":
        return quotient
    rest = lax.rem(x, y)
    if kind == "i":
        return ew.where(_signs_differ(rest, y), quotient - 1, quotient)
    # As in CPython and NumPy: subtract the remainder, divide, and round to the nearest integer,
    # because x / y may round up to the next integer.
    exact = (x - rest) / y
    exact = ew.where(_signs_differ(rest, y), exact - 1, exact)
    down = ew.floor(exact)
    nearest = ew.where(exact - down > 0.5, down + 1, down)
    result = ew.where(ew.equal(exact, 0), quotient * 0, nearest)
    return ew.where(ew.equal(y, 0), quotient, result)


@operator
def power(x: Value, y: Value) -> Value:
    """Return `numpy.power` of operands of one dtype; integer powers of integers wrap.

    A negative integer power of an integer, which is an error in NumPy, is 1.
    """
    kind = x.dtype.kind
    if kind == "c":
        return complex_numbers.power(x, y)
    exponent = y.fill_value
    if exponent is not None and kind in "iuf" and _is_small_integer(exponent, signed=kind == "f"):
        raised = _integer_power(x, int(exponent))
        return broadcast_to(raised, common_shape(x, y))
    if kind == "f":
        whole = _as_integers(y)
        return lax.pow(x, y) if whole is None else whole_power(x, whole)
    shape = common_shape(x, y)
    return _power_by_squaring(broadcast_to(x, shape), broadcast_to(y, shape))


def _is_small_integer(exponent: Any, signed: bool) -> bool:
    """Return whether repeated multiplication is as exact as ``pow``: up to 32, to a few ulp."""
    return bool((-32 if signed else 0) <= exponent <= 32 and exponent == int(exponent))


def _integer_power(x: Value, exponent: int) -> Value:
    if exponent == 1:
        return x
    if exponent == 2:
        return ew.square(x)
    return lax.integer_pow(x, y=exponent)


def _as_integers(exponent: Value) -> Value | None:
    """Return known exponents that are whole numbers as integers."""
    known = exponent.source
    if type(known) is Var or not (np.abs(known) < 2**24).all() or (known != np.round(known)).any():
        return None
    return Value(known.astype(np.int32), exponent.shape)


def _power(x: Value, y: Value) -> Value:
    """Return floats to the power of integers; derivatives of all orders are right at 0."""
    return lax.pow(x, y.astype(x.dtype))


def _slope_of_power(x: Value, y: Value) -> Value:
    is_zero = ew.equal(y, 0)
    return y.astype(x.dtype) * whole_power(x, ew.where(is_zero, 1, y - 1))


whole_power = with_derivatives(_power, _slope_of_power)


def _power_by_squaring(x: Value, y: Value) -> Value:
    """Raise integers by one squaring per binary digit of the largest exponent.

    Overflow wraps as in C.
    """

    def digits_left(_: Value, __: Value, exponent: Value) -> Value:
        return lax.reduce_or(exponent > 0, range(exponent.ndim))

    def step(result: Value, base: Value, exponent: Value) -> list[Value]:
        is_odd = ew.equal(exponent & 1, 1)
        half = lax.shift_right_logical(exponent, 1)
        return [ew.where(is_odd, result * base, result), base * base, half]

    return while_loop(digits_left, step, [full(x.shape, 1, x.dtype), x, y])[0]
