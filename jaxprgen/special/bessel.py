"""Bessel functions of the first kind, J and I, of real order, with the parts of Y and K they need.

Orders and arguments are any real numbers. As in SciPy, a negative argument needs an integral order,
and the result is NaN otherwise, and at infinity. At zero it is the limit from above, also for I of
orders such as -3/2, where the limit is -inf and SciPy returns inf.

For ``|x| < 8`` the power series is summed. Beyond, Schläfli's integrals of ``exp(x sinh z - v z)``
and ``exp(x cosh z - v z)`` (DLMF 10.9.17, 10.9.18, 10.32.9, 10.32.12) are taken along contours
close enough to the steepest descent from a saddle point for the trapezoidal rule to converge
geometrically. With ``z`` counted from the saddle point, all have one integrand, ``exp(s (cosh z -
1) + v (sinh z - z))``, times its value there. Here ``s`` is

- ``sqrt(v² - x²)`` for J where ``x < v``, ``sqrt(v² + x²)`` for I,
- ``-sqrt(v² - x²)`` for Y where ``x < v``, ``-sqrt(v² + x²)`` for K,
- ``i sqrt(x² - v²)`` for the Hankel function J + iY where ``x > v``.

In double precision the error is 1e-12 for orders up to 1e3, and 1e-15 times the order beyond. It is
relative to the value, or to the amplitude where J oscillates.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from jaxprgen.emit import elementwise as ew, primitives as lax
from jaxprgen.emit.custom_derivatives import undefined
from jaxprgen.emit.formula import formula, polynomial, sum_terms, widest
from jaxprgen.emit.values import Value, where

_SERIES_BELOW = 8.0
_LARGEST = 1e30  # Larger orders and arguments give the same results.


class _Order(NamedTuple):
    """The magnitude of an order, and the values that its reflection needs.

    Attributes
    ----------
    size
        The magnitude.
    whole
        Whether it is an integer.
    odd
        Whether it is an odd integer.
    negative
        Whether the order is negative.
    sine, cosine
        The sine and cosine of pi times the magnitude; the sine is 0 for an integer.
    reflected
        Whether an order may be negative and not an integer.
    """

    size: Value
    whole: Value
    odd: Value
    negative: Value
    sine: Value
    cosine: Value
    reflected: bool


def _order(v: Value) -> _Order:
    size = ew.minimum(abs(v), _LARGEST)
    nearest = ew.round_half_to_even(size)
    rest = size - nearest
    odd = ew.equal(nearest - 2 * ew.floor(0.5 * nearest), 1)
    sine, cosine = ew.sin(math.pi * rest), ew.cos(math.pi * rest)
    value = v.static
    return _Order(
        size,
        ew.equal(rest, 0),
        odd,
        v < 0,
        where(odd, -sine, sine),
        where(odd, -cosine, cosine),
        value is None or bool(np.any((value < 0) & (value != np.floor(value)))),
    )


# --- The power series ---------------------------------------------------------------------


def _series(order: _Order, x: Value, sign: float) -> Value:
    """Return ``(x/2)^v / Γ(v+1) Σ (sign x²/4)^k / (k! (v+1)_k)`` for ``0 <= x <= 8``: DLMF 10.2.2.

    The omitted terms are below rounding; negative orders need more terms.
    """
    v = order.size
    if order.reflected:
        v = where(order.negative & ~order.whole, -v, v)

    q = (0.25 * sign) * x * x
    total = 1 + 0 * q
    for k in range(40 if order.reflected else 26, 0, -1):
        total = 1 + total * q / (k * (v + k))
    at_zero = where(v < 0, math.inf, where(v > 0, 0, v + 1))  # 1 for 0, NaN for NaN.
    half = 0.5 * x
    exponent = v * ew.log(where(ew.equal(x, 0), 1, half)) - lax.lgamma(v + 1)
    first = where(ew.equal(x, 0), at_zero, ew.exp(exponent))
    # Γ is negative between -2k - 1 and -2k.
    low = ew.floor(v + 1)
    below = (low < 0) & ~ew.equal(low, 2 * ew.floor(0.5 * low))
    return where(below, -first, first) * total


# --- Integrals through saddle points --------------------------------------------------------


def _exponent(
    p: Value, q: Value, v: Value, s: Value, rotated: Value | None = None
) -> tuple[Value, Value]:
    """Return the real and imaginary parts of ``s (cosh z - 1) + v (sinh z - z)`` at ``z = p + iq``.

    ``rotated`` is the imaginary part of ``s``.
    """
    sinh, cosh, sin, cos = ew.sinh(0.5 * p), ew.cosh(0.5 * p), ew.sin(0.5 * q), ew.cos(0.5 * q)
    a, b = sinh * cos, cosh * sin  # sinh(z/2)
    c, d = cosh * cos, sinh * sin  # cosh(z/2)
    real, imaginary = 2 * (a * a - b * b), 4 * a * b
    cubic = v * (2 * (a * c - b * d) - p), v * (2 * (a * d + b * c) - q)
    if rotated is None:
        return s * real + cubic[0], s * imaginary + cubic[1]
    return s * real - rotated * imaginary + cubic[0], s * imaginary + rotated * real + cubic[1]


def _upright(s: Value, v: Value) -> Value:
    """Return the integral over 2πi from ``∞ - iπ`` to ``∞ + iπ`` for ``s >= 0``.

    Its halves are conjugate, so the upper one suffices. The contour leans to the right.
    """
    count, end = 24, 8.0
    step = end / count

    def part(k: Value, s: Value, v: Value, scale: Value) -> list[Value]:
        q = scale * ((k + 0.5) * step)
        real, imaginary = _exponent(scale + 0.2 * q * q, q, v, s)
        return [ew.exp(real) * (ew.cos(imaginary) + 0.4 * q * ew.sin(imaginary))]

    scale = ew.minimum(1 / ew.sqrt(s), 1 / lax.cbrt(v))
    (total,) = sum_terms(1, count, part, s, v, scale)
    return total * scale * (step / math.pi)


def _slanted(s: Value, rotated: Value, v: Value, factor: Value) -> tuple[Value, Value]:
    """Return the integral from ``-∞`` to ``∞ + iπ`` for ``s < 0``, or for ``s = 0`` and ``rotated >
    0``.

    The contour passes the saddle point, or a point above it where ``v`` dominates, at an angle of
    30°, and levels off at imaginary parts of -π/4 and 3π/4.
    """
    count, end = 48, 6.0
    step = 2 * end / count

    def part(
        k: Value, s: Value, rotated: Value, v: Value, scale: Value, above: Value
    ) -> list[Value]:
        p = scale * ((k + 0.5) * step - end)
        e = ew.exp(-p)
        level = 1 / (1 + 3 * e)
        q = above - 0.75 * math.pi * ew.expm1(-p) * level
        slope = 3 * math.pi * e * level * level
        real, imaginary = _exponent(p, q, v, s, rotated)
        size, sin, cos = ew.exp(real), ew.sin(imaginary), ew.cos(imaginary)
        return [size * (cos - slope * sin), size * (sin + slope * cos)]

    scale = ew.minimum(factor / ew.sqrt(ew.maximum(-s, rotated)), 1 / lax.cbrt(v))
    above = 1.2 * v * scale * scale * scale * scale
    real, imaginary = sum_terms(2, count, part, s, rotated, v, scale, above)
    return real * scale * step, imaginary * scale * step


def _level(s: Value, v: Value) -> Value:
    """Return the integral from ``-∞`` to ``∞`` for ``-s``, with ``s > v``."""
    count, end = 36, 9.0
    step = 2 * end / count

    def part(k: Value, s: Value, v: Value, scale: Value) -> list[Value]:
        z = scale * ((k + 0.5) * step - end)
        half = ew.sinh(0.5 * z)
        return [ew.exp(v * (2 * half * ew.cosh(0.5 * z) - z) - 2 * s * half * half)]

    scale = ew.minimum(1 / ew.sqrt(s), 1 / lax.cbrt(v))
    (total,) = sum_terms(1, count, part, s, v, scale)
    return total * scale * step


def _hankel(order: _Order, x: Value) -> tuple[Value, Value]:
    """Return J and Y of the order's magnitude for ``x >= 8``; J is wrong where ``x < v``."""
    below = x < order.size
    v = order.size if order.reflected else ew.minimum(order.size, x)
    s = ew.sqrt(abs(x - v)) * ew.sqrt(x + v)
    real, imaginary = _slanted(
        where(below, -s, 0), where(below, 0, s), v, where(below, 1.7, 1.25 + 0 * s)
    )
    # The phase sqrt(x² - v²) - v arccos(v/x), without rounding in the multiples of pi.
    rest = v - 4 * ew.round_half_to_even(0.25 * v)
    ratio = ew.minimum(v / x, 1)
    angle = v * ew.arcsin(ratio) - v * (v / (x + s)) - 0.5 * math.pi * rest
    sin_x, cos_x, sin, cos = ew.sin(x), ew.cos(x), ew.sin(angle), ew.cos(angle)
    c, d = cos_x * cos - sin_x * sin, sin_x * cos + cos_x * sin
    j = (real * d + imaginary * c) / math.pi
    y = (imaginary * d - real * c) / math.pi
    if not order.reflected:
        return j, y
    growth = ew.exp(v * ew.arcsinh(s / x) - s)
    return j, where(below, -growth * real / math.pi, y)


# --- J and I ------------------------------------------------------------------------------


def _jv(v: Value, x: Value) -> Value:
    """Return the Bessel function of the first kind of order ``v``."""
    order, size = _order(v), abs(x)
    small = _series(order, ew.minimum(size, _SERIES_BELOW), -1)
    large = ew.maximum(size, _SERIES_BELOW)
    above = ew.maximum(order.size, large)
    s = ew.sqrt((above - large) * (above + large))
    j, y = _hankel(order, large)
    j = where(large < order.size, _upright(s, above) * ew.exp(s - above * ew.arcsinh(s / large)), j)
    if order.reflected:
        reflected = order.cosine * j - order.sine * where(order.whole, 0, y)
        j = where(order.negative & ~order.whole, reflected, j)
    value = where(size < _SERIES_BELOW, small, j)
    flipped = order.odd & order.whole & (order.negative ^ (x < 0))
    return _of_real_argument(order, x, where(flipped, -value, value))


def _modified(v: Value, x: Value, *, scaled: bool) -> Value:
    """Return I of order ``v``, ``scaled`` by ``exp(-|x|)`` or not."""
    order, size = _order(v), abs(x)
    below = ew.minimum(size, _SERIES_BELOW)
    small = _series(order, below, 1)
    large = ew.minimum(ew.maximum(size, _SERIES_BELOW), _LARGEST)
    s = ew.sqrt(order.size * order.size + large * large)
    # The exponent of the scaled function, in which nothing large cancels.
    exponent = order.size * (order.size / (s + large) - ew.arcsinh(order.size / large))
    rise = exponent if scaled else exponent + large
    root = ew.exp(0.5 * rise)  # Its square may overflow where the result does not.
    i = root * _upright(s, order.size) * root
    if order.reflected:
        k = ew.exp(rise - 2 * (exponent + large)) * _level(s, order.size)
        rest = order.sine * where(order.whole, 0, k) * (1 / math.pi)
        i = where(order.negative, i + rest, i)
    value = where(size < _SERIES_BELOW, small * ew.exp(-below) if scaled else small, i)
    flipped = order.odd & order.whole & (x < 0)
    return _of_real_argument(order, x, where(flipped, -value, value))


def _iv(v: Value, x: Value) -> Value:
    """Return the modified Bessel function of the first kind of order ``v``."""
    return _modified(v, x, scaled=False)


def _ive(v: Value, x: Value) -> Value:
    """Return the modified Bessel function of the first kind, times ``exp(-|x|)``."""
    return _modified(v, x, scaled=True)


def _of_real_argument(order: _Order, x: Value, value: Value) -> Value:
    undefined = ((x < 0) & ~order.whole) | ew.equal(abs(x), math.inf)
    return where(undefined, math.nan, value)


def undefined_by_order(library: str) -> ew.Emit:
    """Return the derivative with respect to the order, which a graph library lacks as well."""
    return undefined(
        f"Bessel functions have no derivative with respect to their order here, as in {library}. "
        "Differentiate with respect to the argument, or stop the gradient of the order with "
        "disconnected_grad."
    )


_NONE = undefined_by_order("Aesara")


def _neighbours(function: ew.Emit, v: Value, x: Value) -> tuple[Value, Value]:
    """Return the function of the orders below and above."""
    value = v.fill_value
    low, high = (v + n if value is None else v.like(value + n) for n in (-1, 1))
    return function(low, x), function(high, x)


def _jv_slope(v: Value, x: Value) -> Value:
    low, high = _neighbours(jv, v, x)
    return 0.5 * (low - high)


def _iv_slope(v: Value, x: Value) -> Value:
    low, high = _neighbours(iv, v, x)
    return 0.5 * (low + high)


def _ive_slope(v: Value, x: Value) -> Value:
    low, high = _neighbours(ive, v, x)
    return 0.5 * (low + high) - ew.sign(x) * ive(v, x)


jv = formula(_jv, _NONE, _jv_slope, precision=widest)
iv = formula(_iv, _NONE, _iv_slope, precision=widest)
ive = formula(_ive, _NONE, _ive_slope, precision=widest)


# --- Orders 0 and 1 -----------------------------------------------------------------------
#
# The power series for |x| < 8, and sqrt(2 / (πx)) (P cos χ - Q sin χ) beyond, with
# χ = x - vπ/2 - π/4 (DLMF 10.17.3). The error relative to sqrt(2 / (πx)) is 1e-14.

# P and Q x/8 for the orders 0 and 1: interpolation polynomials in 64/x² at 13 Chebyshev nodes on
# [0, 1], of the Hankel functions computed by mpmath with 50 digits.
# fmt: off
_P_AND_Q = (
    (
        1.0, -0.0010986328124985556, 2.738088361130017e-05,
        -2.183917728558513e-06, 3.620184781129259e-07, -1.0229475399421496e-07,
        4.339314718568921e-08, -2.4185615179408813e-08, 1.4845549354895297e-08,
        -8.31251965044764e-09, 3.589369421372812e-09, -1.0029066979633945e-09,
        1.3219700423350835e-10,
    ),
    (
        -0.015624999999999995, 0.00014305114745934768, -6.9307860941428686e-06,
        8.238425985656106e-07, -1.8162398074592788e-07, 6.399781418673288e-08,
        -3.228985891642277e-08, 2.0428537127580895e-08, -1.3609419519258223e-08,
        8.000995612956512e-09, -3.555524278992273e-09, 1.011031238186147e-09,
        -1.3477937580357612e-10,
    ),
    (
        1.0, 0.001831054687498473, -3.520399323335166e-05,
        2.5809939131965017e-06, -4.102893385438351e-07, 1.1307073738668152e-07,
        -4.719167778074151e-08, 2.6030250382020736e-08, -1.5879522872690333e-08,
        8.860855361799285e-09, -3.818735305533677e-09, 1.0657770307911482e-09,
        -1.4038395089577798e-10,
    ),
    (
        0.04687499999999999, -0.00020027160644363478, 8.470960796899506e-06,
        -9.5058781859599e-07, 2.0299308556246271e-07, -7.010042468690825e-08,
        3.489697880824557e-08, -2.1888377038312212e-08, 1.4507979244604333e-08,
        -8.504914198988601e-09, 3.773309315230924e-09, -1.071914270433146e-09,
        1.4280722112309597e-10,
    ),
)
# fmt: on
_SERIES_01 = tuple(
    [(-1) ** k / (math.factorial(k) * math.factorial(k + order)) for k in range(26)]
    for order in (0, 1)
)


def _near_and_far(order: int, size: Value) -> tuple[Value, Value]:
    """Return the function over ``(size / 2)^order`` for ``size < 8``, and the function beyond."""
    half = 0.5 * ew.minimum(size, 8)
    large = ew.maximum(size, 8)
    inverse = 8 / large
    u = inverse * inverse
    p = polynomial(u, _P_AND_Q[2 * order])
    q = polynomial(u, _P_AND_Q[2 * order + 1]) * inverse
    sin, cos = ew.sin(large), ew.cos(large)
    # The cosine and the sine of the phase, times the square root of 2.
    c, s = (sin + cos, sin - cos) if order == 0 else (sin - cos, -sin - cos)
    beyond = (p * c - q * s) / ew.sqrt(math.pi * large)
    return polynomial(half * half, _SERIES_01[order]), beyond


def _j0(x: Value) -> Value:
    """Return the Bessel function of the first kind of order 0."""
    size = abs(x)
    near, far = _near_and_far(0, size)
    return where(size < 8, near, far)


def _j1(x: Value) -> Value:
    """Return the Bessel function of the first kind of order 1."""
    size = abs(x)
    near, far = _near_and_far(1, size)
    return where(size < 8, 0.5 * x * near, where(x < 0, -far, far))


j0 = formula(_j0, lambda x: -j1(x))
j1 = formula(_j1, lambda x: 0.5 * (j0(x) - jv(2, x)))
