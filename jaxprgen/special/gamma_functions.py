"""The gamma function, its logarithmic derivatives, and differences that stay accurate.

Stirling's series and the series of ``lgamma(1 + x)`` are 5.11.1, 5.11.2 and 5.7.3 of the NIST
*Digital Library of Mathematical Functions* (DLMF).

`written_lgamma` and `written_digamma` are these functions as few equations: products lead to
``1.5 <= x < 2.5``, where a polynomial holds, or to where Stirling's series does. XLA's own are
sums of eight quotients. The polynomials are minimax, by ``mpmath.chebyfit``.
"""

from __future__ import annotations

import functools
import math
import operator

import numpy as np

from jaxprgen.emit import elementwise as ew, primitives as lax, reduce
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
# zeta(n) - 1 for n = 2, 3, …: the sum of k**-n, from k = 200 on by the Euler-Maclaurin formula.
_ZETA_LESS_1 = [
    math.fsum(k**-n for k in range(2, 200))
    + 200.0 ** (1 - n) / (n - 1)
    + 200.0**-n / 2
    + n * 200.0 ** (-n - 1) / 12
    - n * (n + 1) * (n + 2) * 200.0 ** (-n - 3) / 720
    for n in range(2, 30)
]
_LGAMMA1P = (1 - np.euler_gamma, *((-1) ** n * z / n for n, z in enumerate(_ZETA_LESS_1, 2)))


_LARGE_LGAMMA, _LARGE_DIGAMMA = 4.5, 5.0
# x times the error of Stirling's formula, by 1/x**2 for x from 4.5 on: 6e-17.
_ERROR = (
    *(0.08333333333333327, -0.0027777777776236147, 0.0007936507273080746, -0.0005952270947968775),
    *(0.0008408404341251852, -0.0018754765683744374, 0.005274410556922076, -0.011344723716428109),
)
# (log(x) - 1 / 2x - digamma(x)) * x**2, by 1/x**2 for x from 5 on: 2e-16.
_ERROR_OF_SLOPE = (
    *(0.08333333333333313, -0.008333333332680548, 0.003968253621723726, -0.004166595844467438),
    *(0.0075685416415447624, -0.02068332553067316, 0.06980249380695813, -0.18062937163771134),
)
# lgamma(2 + x) / x for -0.5 <= x <= 0.5: 4e-17.
_LGAMMA2P = (
    *(0.42278433509846713, 0.32246703342411215, -0.06735230105319759, 0.02058080842799012),
    *(-0.0073855510287714685, 0.0028905103192621994, -0.0011927539062598581),
    *(0.0005096698119432116, -0.00022315489463809116, 9.945371368841632e-05),
    *(-4.492443535898787e-05, 2.0535581020500523e-05, -9.452938473714576e-06),
    *(4.2553702843110484e-06, -1.982565620739196e-06, 1.2159620602745015e-06),
    -5.72865310850801e-07,
)
# sin(pi x) / (pi x), by x**2 for -0.5 <= x <= 0.5: 2.0e-19.
_SINE = (
    *(1.0, -1.6449340668482264, 0.8117424252833393, -0.19075182412149616),
    *(0.02614784780555096, -0.0023460808954639607, 0.0001484278414189103),
    *(-6.972099660851199e-06, 2.4502943624559793e-07),
)
# pi x / tan(pi x), by x**2 for -0.5 <= x <= 0.5: 4.0e-17.
_COTANGENT = (
    *(1.0, -3.289868133696403, -2.1646464674371577, -2.034686122223896, -2.0081548192608167),
    *(-2.001985221658275, -2.0005860738980754, -1.9985909241396362, -2.01757120800584),
    *(-1.8569926328744886, -2.8304611339513164, 1.3837144431658985, -11.319882625220572),
    *(14.009136332706397, -16.010441564381928),
)


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


def _from_nearest_integer(x: Value) -> Value:
    return x - ew.round_half_to_even(x)


@formula
def written_lgamma(x: Value) -> Value:
    """Return ``log(|gamma(x)|)``, infinite at infinities and at integers that are not positive."""
    is_reflected = x <= 0
    z = where(is_reflected, 1 - x, x)
    is_large, is_small = z >= _LARGE_LGAMMA, z < 1.5
    # The recurrence leads to 1.5 <= z + steps < 2.5.
    product, steps = where(is_small, z, 1), where(is_small, 1, z.like(0))
    for bound, factor, step in ((0.5, z + 1, 2), (2.5, z - 1, -1), (3.5, z - 2, -2)):
        applies = z < bound if step > 0 else z >= bound
        product, steps = where(applies, product * factor, product), where(applies, step, steps)
    near, inverse = z + (steps - 2), 1 / z
    rest = where(
        is_large,
        inverse * polynomial(inverse * inverse, _ERROR) + (math.log(2 * math.pi) - 1) / 2,
        near * polynomial(near, _LGAMMA2P),
    )
    logarithm = ew.log(where(is_large, z, product)) - where(is_large, 1, z.like(0))
    value = where(is_large, z - 0.5, where(is_small, -1, z.like(1))) * logarithm + rest
    t = _from_nearest_integer(x)
    sine = abs(t * polynomial(t * t, _SINE))
    reflected = where(ew.equal(sine, 0), math.inf, -ew.log(sine) - value)
    return where(is_reflected, where(ew.equal(x, -math.inf), math.inf, reflected), value)


@formula
def written_digamma(x: Value) -> Value:
    """Return the derivative of lgamma; -inf at zeros, NaN at negative integers and at -inf."""
    is_reflected = x <= 0
    z = where(is_reflected, 1 - x, x)
    is_large = z >= _LARGE_DIGAMMA
    # The product of z, …, z + 4, and its derivative.
    middle, outer = z + 2, z * (z + 4)
    product = where(is_large, 1, middle * (outer * (outer + 3)))
    slope = where(is_large, 0, outer * (outer + 3) + 2 * (middle * middle) * (2 * outer + 3))
    large = where(is_large, z, z + _LARGE_DIGAMMA)
    inverse = 1 / large
    square = inverse * inverse
    series = ew.log(large) - 0.5 * inverse - square * polynomial(square, _ERROR_OF_SLOPE)
    t = _from_nearest_integer(x)
    divisor = where(is_reflected, t, 1)
    cotangent = where(is_reflected, polynomial(t * t, _COTANGENT), 0)
    value = series - (slope * divisor + cotangent * product) / (product * divisor)
    return where((x < 0) & ew.equal(t, 0), math.nan, value)


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
    above = -x - ew.floor(-x)  # 1 - rest would be 0 for tiny numbers below 0.
    above = where(ew.equal(rest, 0), 1, above)
    both = _zeta(s, where(x > 0, x, rest)) + sign * _zeta(s, above)  # They may cancel.
    mirrored = both - sign * _zeta(s, ew.maximum(1 - x, 1))
    series = where(x > 0, _zeta(s, where(x > 0, x, 1)), mirrored)
    series = where((x <= 0) & ew.equal(rest, 0), math.inf, series)
    value = where(odd, -series, series) * gamma(s)
    value = where(ew.equal(n, 0), digamma(x), value)
    return where((n < 0) | ew.isnan(x), math.nan, value)


polygamma = formula(_polygamma, lambda n, x: x.like(0), lambda n, x: polygamma(n + 1, x))


def any_below(*xs: tuple[Value, ValueLike]) -> Value:
    """Return where one of the values is below its bound."""
    return functools.reduce(operator.or_, [x < bound for x, bound in xs])
