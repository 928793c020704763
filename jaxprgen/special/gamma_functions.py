"""The gamma function, its logarithmic derivatives, and differences that stay accurate.

Stirling's series and the series of ``lgamma(1 + x)`` are 5.11.1, 5.11.2 and 5.7.3 of the NIST
*Digital Library of Mathematical Functions* (DLMF).
"""

from __future__ import annotations

import functools
import math
import operator

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit import reduce
from jaxprgen.emit.formula import formula, polynomial
from jaxprgen.emit.shape import expand_dims
from jaxprgen.emit.values import Value, ValueLike, where

_STIRLING = (
    *(1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156),
    -3617 / 122400,
)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
# From here on, eight terms of the series are accurate to 1e-17.
_LARGE = 10.0
# zeta(n) - 1 for n = 2, 3, …: the sum of k**-n, from k = 40 on by the Euler-Maclaurin formula.
_ZETA_LESS_1 = [
    math.fsum(k**-n for k in range(2, 40))
    + 40.0 ** (1 - n) / (n - 1)
    + 40.0**-n / 2
    + n * 40.0 ** (-n - 1) / 12
    - n * (n + 1) * (n + 2) * 40.0 ** (-n - 3) / 720
    for n in range(2, 30)
]
_LGAMMA1P = (1 - np.euler_gamma, *((-1) ** n * z / n for n, z in enumerate(_ZETA_LESS_1, 2)))


def append_axis(x: Value) -> Value:
    """Append an axis of size one, for the terms of a sum."""
    return expand_dims(x, [x.ndim])


def sum_last(terms: Value) -> Value:
    """Return the sum over the last axis."""
    return reduce.sum(terms, [terms.ndim - 1])


def log_less(ratio: Value, excess: Value) -> Value:
    """Return ``log(ratio) - excess`` with ``excess = ratio - 1``, accurate where that is small."""
    near = where(abs(excess) < 0.4, excess, 0)
    r = near / (near + 2)
    odd = polynomial(r * r, [1 / (2 * n + 1) for n in range(1, 13)]) * (r * r)
    return where(abs(excess) < 0.4, 2 * r * odd - near * r, ew.log(ratio) - excess)


def stirling_error(x: Value) -> Value:
    """Return ``lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2`` for positive ``x``."""
    large = ew.maximum(x, _LARGE)
    series = polynomial(1 / (large * large), _STIRLING) / large
    small = ew.minimum(x, _LARGE)
    direct = lax.lgamma(small) - (small - 0.5) * ew.log(small) + small - math.log(2 * math.pi) / 2
    return where(x < _LARGE, direct, series)


def log_less_digamma(x: Value) -> Value:
    """Return ``log(x) - digamma(x)`` for positive ``x``."""
    large = ew.maximum(x, _LARGE)
    series = polynomial(1 / (large * large), _DIGAMMA) / (large * large) + 0.5 / large
    small = ew.minimum(x, _LARGE)
    return where(x < _LARGE, ew.log(small) - lax.digamma(small), series)


def lgamma1p(x: Value) -> Value:
    """Return ``lgamma(1 + x)`` for ``x >= 0``, accurate where ``x`` is tiny."""
    near = ew.minimum(x, 0.5)
    series = near * polynomial(near, _LGAMMA1P) - ew.log1p(near)
    return where(x < 0.5, series, lax.lgamma(ew.maximum(x, 0.5) + 1))


def _difference(u: Value, v: Value, coefficients: tuple[float, ...]) -> Value:
    """Return ``(p(u) - p(v)) / (u - v)`` for a polynomial, without cancellation."""
    quotient, value = u * 0, v * 0 + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        quotient = quotient * u + value
        value = value * v + coefficient
    return quotient


def lgamma_increase(x: Value, step: Value) -> tuple[Value, Value]:
    """Return the increases of lgamma and of digamma from ``x`` to ``x + step``, for any tiny step.

    Both operands are positive. Ten steps of the recurrence lead to where Stirling's series holds.
    """
    low, h = append_axis(x) + np.arange(_LARGE), append_axis(step)
    large = x + _LARGE
    above = large + step
    logarithm = ew.log1p(step / large)
    u, v = 1 / (above * above), 1 / (large * large)
    apart = -(step / (above * large))  # 1 / above - 1 / large
    squares = apart * (1 / above + 1 / large)
    correction = apart * polynomial(u, _STIRLING) + squares * _difference(u, v, _STIRLING) / large
    increase = (large - 0.5) * logarithm + step * (ew.log(above) - 1) + correction
    slope = logarithm - apart * 0.5 - squares * _difference(u, v, (0.0, *_DIGAMMA))
    return increase - sum_last(ew.log1p(h / low)), slope + sum_last(h / (low * (low + h)))


def gamma_sign(x: Value) -> Value:
    """Return the sign of the gamma function; it is negative between -2k - 1 and -2k."""
    half = ew.floor(x) * 0.5
    odd = ~ew.equal(ew.floor(half), half)
    return where((x < 0) & odd, x * 0 - 1, 1)


@formula
def gammaln(x: Value) -> Value:
    """Return ``log(|gamma(x)|)``; -inf at -inf, where there is no limit, as in SciPy."""
    return where(ew.equal(x, -math.inf), -math.inf, lax.lgamma(x))


@formula
def gamma(x: Value) -> Value:
    """Return the gamma function; NaN at negative integers, signed infinity at signed zeros."""
    value = gamma_sign(x) * ew.exp(lax.lgamma(x))
    return where((x < 0) & ew.equal(x, ew.floor(x)), math.nan, where(ew.equal(x, 0), 1 / x, value))


@formula
def digamma(x: Value) -> Value:
    """Return the derivative of lgamma; infinite at zeros of either sign, where XLA's is NaN."""
    return where(ew.equal(x, 0), -1 / x, lax.digamma(x))


@formula
def trigamma(x: Value) -> Value:
    """Return the derivative of digamma; infinite at zero and the negative integers.

    XLA's ``polygamma`` is wrong by 1e-6 and more below -7, and 0 above 1e154. Here negative
    arguments are reflected (DLMF 5.15.6), and positive ones are raised to where the asymptotic
    series holds (5.15.5 and 5.15.8).
    """
    positive = where(x > 0, x, 1 - x)
    low = append_axis(positive) + np.arange(_LARGE)
    large = 1 / (positive + _LARGE)
    square = large * large
    series = large + square * 0.5 + large * square * polynomial(square, _TRIGAMMA)
    inverse = 1 / low
    value = series + sum_last(inverse * inverse)
    # Subtracting the nearest integer keeps the sine accurate for large x.
    sine = ew.sin((x - ew.round_half_to_even(x)) * math.pi) * (1 / math.pi)
    reflected = where(ew.equal(x, ew.floor(x)), math.inf, 1 / (sine * sine) - value)
    return where(x > 0, value, reflected)


_ZETA = [b / math.factorial(2 * k) for k, b in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66,
    -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330), 1)]  # fmt: skip


def _zeta(s: Value, x: Value) -> Value:
    """Return the sum of ``(x + j)**-s`` for ``s >= 2`` and ``x > 0``, by DLMF 25.11.5."""
    x = ew.minimum(x, float(np.finfo(x.dtype).max) ** 0.9)  # The sum is 0 from there on.
    low, large = append_axis(x) + np.arange(_LARGE), x + _LARGE
    power = ew.exp(-s * ew.log(large))
    total = sum_last(ew.exp(-append_axis(s) * ew.log(low)))
    total = total + power * (large / (s - 1) + 0.5)
    factor = power * s / large
    for k, coefficient in enumerate(_ZETA, 1):
        total = total + coefficient * factor
        factor = factor * ((s + (2 * k - 1)) / large) * ((s + 2 * k) / large)
    return total


def _polygamma(n: Value, x: Value) -> Value:
    """Return the ``n``-th derivative of digamma: DLMF 5.15.2, with the sum for ``x < 0`` in parts.

    The terms below zero are those of ``1 - r`` without those of ``1 - x``, where ``r`` is the
    distance of ``x`` above the integer below it.
    """
    s, rest = ew.maximum(n, 1) + 1, x - ew.floor(x)
    odd = ~ew.equal(s - 2 * ew.floor(0.5 * s), 0)
    sign = where(odd, -1, s.like(1))
    both = _zeta(s, where(x > 0, x, rest)) + sign * _zeta(s, 1 - rest)  # They may cancel.
    mirrored = both - sign * _zeta(s, ew.maximum(1 - x, 1))
    series = where(x > 0, _zeta(s, where(x > 0, x, 1)), mirrored)
    series = where((x <= 0) & ew.equal(rest, 0), math.inf, series)
    value = where(odd, -series, series) * gamma(s)
    value = where(ew.equal(n, 0), digamma(x), value)
    return where((n < 0) | ew.isnan(x), math.nan, value)


def _polygamma_slope(n: Value, x: Value) -> Value:
    return polygamma(n + 1, x)


polygamma = formula(_polygamma, lambda n, x: x.like(0), _polygamma_slope)


def any_below(*xs: tuple[Value, ValueLike]) -> Value:
    """Return where one of the values is below its bound."""
    return functools.reduce(operator.or_, [x < bound for x, bound in xs])
