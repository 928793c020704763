"""The gamma function, its logarithmic derivatives, and parts of them that stay exact.

Stirling's series and the series of ``lgamma(1 + x)`` are those of NIST's *Digital Library of
Mathematical Functions*, 5.11.1, 5.11.2 and 5.7.3.
"""

from __future__ import annotations

import math

import numpy as np

from jaxprgen.emit import expression as fx
from jaxprgen.emit.expression import Expression, Operand, formula, polynomial, where

_STIRLING = (
    *(1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156),
    -3617 / 122400,
)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
# From here on eight terms of the series are exact to 1e-17.
_LARGE = 10.0
# zeta(n) - 1 for n = 2, 3, …: the sum of k**-n, the terms from 40 on by Euler and Maclaurin.
_ZETA_LESS_1 = [
    math.fsum(k**-n for k in range(2, 40))
    + 40.0 ** (1 - n) / (n - 1)
    + 40.0**-n / 2
    + n * 40.0 ** (-n - 1) / 12
    - n * (n + 1) * (n + 2) * 40.0 ** (-n - 3) / 720
    for n in range(2, 30)
]
_LGAMMA1P = (1 - np.euler_gamma, *((-1) ** n * z / n for n, z in enumerate(_ZETA_LESS_1, 2)))


def log_less(ratio: Expression, excess: Expression) -> Expression:
    """``log(ratio) - excess`` where ``excess = ratio - 1``, exact where that is small."""
    near = where(abs(excess) < 0.4, excess, 0)
    r = near / (near + 2)
    odd = polynomial(r * r, [1 / (2 * n + 1) for n in range(1, 13)]) * (r * r)
    return where(abs(excess) < 0.4, 2 * r * odd - near * r, fx.log(ratio) - excess)


def stirling_error(x: Expression) -> Expression:
    """``lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2`` for positive ``x``."""
    large = fx.maximum(x, _LARGE)
    series = polynomial(1 / (large * large), _STIRLING) / large
    small = fx.minimum(x, _LARGE)
    direct = fx.lgamma(small) - (small - 0.5) * fx.log(small) + small - math.log(2 * math.pi) / 2
    return where(x < _LARGE, direct, series)


def log_less_digamma(x: Expression) -> Expression:
    """``log(x) - digamma(x)`` for positive ``x``."""
    large = fx.maximum(x, _LARGE)
    series = polynomial(1 / (large * large), _DIGAMMA) / (large * large) + 0.5 / large
    small = fx.minimum(x, _LARGE)
    return where(x < _LARGE, fx.log(small) - fx.digamma(small), series)


def lgamma1p(x: Expression) -> Expression:
    """``lgamma(1 + x)`` for ``x >= 0``, exact where ``x`` is tiny."""
    near = fx.minimum(x, 0.5)
    series = near * polynomial(near, _LGAMMA1P) - fx.log1p(near)
    return where(x < 0.5, series, fx.lgamma(fx.maximum(x, 0.5) + 1))


def _difference(u: Expression, v: Expression, coefficients: tuple[float, ...]) -> Expression:
    """``(p(u) - p(v)) / (u - v)`` for a polynomial, without cancellation."""
    quotient, value = u * 0, v * 0 + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        quotient = quotient * u + value
        value = value * v + coefficient
    return quotient


def lgamma_increase(x: Expression, step: Expression) -> tuple[Expression, Expression]:
    """``lgamma(x + step) - lgamma(x)``, and the same of digamma, however small the step is.

    Both are positive. Ten steps of the recurrence lead to where Stirling's series holds.
    """
    low = x.along_new_axis() + np.arange(_LARGE)
    h = step.along_new_axis()
    large = x + _LARGE
    above = large + step
    logarithm = fx.log1p(step / large)
    u, v = 1 / (above * above), 1 / (large * large)
    apart = -(step / (above * large))  # 1 / above - 1 / large
    squares = apart * (1 / above + 1 / large)
    correction = apart * polynomial(u, _STIRLING) + (squares * _difference(u, v, _STIRLING) / large)
    increase = (large - 0.5) * logarithm + step * (fx.log(above) - 1) + correction
    slope = logarithm - apart * 0.5 - squares * _difference(u, v, (0.0, *_DIGAMMA))
    return increase - fx.log1p(h / low).total(), slope + (h / (low * (low + h))).total()


def gamma_sign(x: Expression) -> Expression:
    """The sign of the gamma function: between -2k - 1 and -2k it is negative."""
    half = fx.floor(x) * 0.5
    odd = ~fx.floor(half).equals(half)
    return where((x < 0) & odd, x * 0 - 1, 1)


@formula
def gammaln(x: Expression) -> Expression:
    """``log(|gamma(x)|)``; -inf at -inf, where there is no limit, as in SciPy."""
    return where(x.equals(-math.inf), -math.inf, fx.lgamma(x))


@formula
def gamma(x: Expression) -> Expression:
    """The gamma function; NaN at negative integers, signed infinity at signed zeros."""
    value = gamma_sign(x) * fx.exp(fx.lgamma(x))
    return where((x < 0) & x.equals(fx.floor(x)), math.nan, where(x.equals(0), 1 / x, value))


@formula
def digamma(x: Expression) -> Expression:
    """The derivative of lgamma; infinite at zeros of either sign, where XLA's is NaN."""
    return where(x.equals(0), -1 / x, fx.digamma(x))


@formula
def trigamma(x: Expression) -> Expression:
    """The derivative of digamma; infinite at zero and the negative integers.

    XLA's ``polygamma`` is wrong by 1e-6 and more below -7, and 0 above 1e154. Here negative
    arguments are reflected (DLMF 5.15.6), and positive ones raised to where the asymptotic series
    holds (5.15.5 and 5.15.8).
    """
    positive = where(x > 0, x, 1 - x)
    low = positive.along_new_axis() + np.arange(_LARGE)
    large = 1 / (positive + _LARGE)
    square = large * large
    series = large + square * 0.5 + large * square * polynomial(square, _TRIGAMMA)
    inverse = 1 / low
    value = series + (inverse * inverse).total()
    # The sine of a number that differs from x by an integer: exact however large x is.
    sine = fx.sin((x - fx.rint(x)) * math.pi) * (1 / math.pi)
    reflected = where(x.equals(fx.floor(x)), math.inf, 1 / (sine * sine) - value)
    return where(x > 0, value, reflected)


def outside(*xs: tuple[Expression, Operand]) -> Expression:
    """Where one of the expressions is below its bound."""
    found = [x < bound for x, bound in xs]
    result = found[0]
    for other in found[1:]:
        result = result | other
    return result
