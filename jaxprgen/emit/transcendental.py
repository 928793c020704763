"""Special functions that take only a few primitives, named as in `scipy.special`."""

from __future__ import annotations

import math
from typing import Any

from jaxprgen.emit import elementwise as ew, primitives as lax
from jaxprgen.emit.custom_derivatives import with_derivatives
from jaxprgen.emit.values import Value
from jaxprgen.errors import UnsupportedOpError


def _unary(construct: Any) -> ew.Emit:
    def emit(x: Value) -> Value:
        if x.dtype.kind == "c":
            raise UnsupportedOpError(f"JAX has no {construct.__name__} of complex numbers.")
        return construct(x)

    return emit


erf = _unary(lax.erf)
erfc = _unary(lax.erfc)
gammaln = _unary(lax.lgamma)
expit = _unary(lax.logistic)


def _log_to_base(base: int) -> ew.Emit:
    scale = math.log(base)

    def emit(x: Value) -> Value:
        y = ew.log(x)
        if y.dtype.kind != "c":
            return y / scale
        # Divide part by part: a complex quotient turns infinities into NaN.
        return ew.complex_(ew.real(y) / scale, ew.imag(y) / scale)

    emit.__doc__ = f"Return the logarithm to base {base}."
    return emit


log2 = _log_to_base(2)
log10 = _log_to_base(10)


def _derivative_of_i1(x: Value) -> Value:
    is_zero = ew.equal(x, 0)
    return i0(x) - ew.where(is_zero, 0.5, i1(x) / ew.where(is_zero, 1, x))


def _unscaled(x: Value, construct: Any) -> Value:
    """Return ``exp(|x|)`` times the primitive, also where the exponential overflows."""
    root = ew.exp(lax.abs(x) * 0.5)
    return root * construct(x) * root


# Derivatives of the scaled primitives cancel near 0.
i0 = with_derivatives(lambda x: _unscaled(x, lax.bessel_i0e), lambda x: i1(x))
i1 = with_derivatives(lambda x: _unscaled(x, lax.bessel_i1e), _derivative_of_i1)


def tail(x: Value) -> Value:
    """Return ``exp(-|x|)``, by which logistic functions and softplus of either sign are written."""
    return ew.exp(-abs(x))


def _logistic(x: Value, sign: int) -> Value:
    """Return ``logistic(sign * x)``."""
    positive, power = x > 0, tail(x)
    ends = (1, power) if sign > 0 else (power, 1)
    return ew.where(positive, *ends) / (1 + power)


def _slope_of_logistic(x: Value) -> Value:
    """Return ``logistic(x) logistic(-x)``."""
    power = tail(x)
    return power / ((1 + power) * (1 + power))


slope_of_logistic = with_derivatives(
    _slope_of_logistic, lambda x: slope_of_logistic(x) * (_falling(x) - _rising(x))
)
_rising = with_derivatives(lambda x: _logistic(x, 1), slope_of_logistic)
_falling = with_derivatives(lambda x: _logistic(x, -1), lambda x: -slope_of_logistic(x))


# log(1 + exp(x)) without overflow, and log(1 / (1 + exp(-x))) without underflow.
softplus = with_derivatives(lambda x: ew.where(x > 0, x, 0) + ew.log1p(tail(x)), _rising)
log_logistic = with_derivatives(lambda x: ew.where(x > 0, 0, x) - ew.log1p(tail(x)), _falling)


def _below_one(x: Value) -> tuple[Value, Value, Value]:
    """Return where ``x`` is far below 0; ``exp(x)`` there, and ``expm1(x)`` elsewhere."""
    return x < -1.2, ew.exp(ew.minimum(x, -0.5)), ew.expm1(ew.maximum(x, -1.5))


def _log1mexp(x: Value) -> Value:
    far, power, less = _below_one(x)
    return ew.where(far, ew.log1p(-power), ew.log(0 - less))


def _slope_of_log1mexp(x: Value) -> Value:
    """Return ``exp(x) / (exp(x) - 1)``; at 0 it is that from the left, -inf."""
    far, power, less = _below_one(x)
    return ew.where(far, -power, -1 - less) / ew.where(far, 1 - power, 0 - less)


_slope = with_derivatives(_slope_of_log1mexp, lambda x: _slope(x) * (1 - _slope(x)))
_real_log1mexp = with_derivatives(_log1mexp, lambda x: _slope(x))


def log1mexp(x: Value) -> Value:
    """Return ``log(1 - exp(x))`` for negative ``x``, accurate at both ends.

    M. Mächler, *Accurately computing log(1 − exp(−|a|))*, 2012, switches at log(1/2). Down to -1.2
    both branches are accurate on paper, but before JAX 0.12 `log1p` has an error of 3e-14 on CPUs
    for numbers between -0.41 and -0.31.
    """
    if x.dtype.kind != "f":
        return ew.where(x < math.log(0.5), ew.log1p(-ew.exp(x)), ew.log(-ew.expm1(x)))
    # A power that is zero moves nothing, though the slope of its logarithm may be NaN.
    return ew.where(ew.equal(x, -math.inf), -0.0, _real_log1mexp(x))


def angle(x: Value) -> Value:
    """Return the argument of a complex number; for a real one, 0 or pi."""
    return ew.arctan2(ew.imag(x), ew.real(x))


def xlogy(x: Value, y: Value) -> Value:
    """Return ``x log y``; 0, with derivatives 0, where ``x`` is 0. ``x`` may be complex."""
    is_zero = ew.equal(x, 0)
    logarithm = ew.log(ew.where(is_zero, 1, y))
    return ew.where(is_zero, 0, x * logarithm.astype(x.dtype))


def softsign(x: Value) -> Value:
    """Return ``x / (1 + |x|)``."""
    return x / (1 + abs(x).astype(x.dtype))
