"""Functions related to the error function that no primitive computes, or not accurately."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jaxprgen.emit import elementwise as ew, primitives as lax
from jaxprgen.emit.formula import formula, polynomial
from jaxprgen.emit.values import Value, where

# The interpolation polynomial of (1 + 2x) erfcx(x) for x >= 0 in t = (x - 3) / (x + 3) at 25
# Chebyshev nodes, computed with 50 digits and mpmath. The variables are those of M. M. Shepherd and
# J. G. Laframboise, *Chebyshev approximation of (1 + 2x) exp(x²) erfc x*, Math. Comp. 36 (1981).
# The relative error is 3e-16. The other polynomial is that of -(1 + 2x)² times the derivative of
# erfcx, at 27 nodes; its relative error is 9e-16.
# fmt: off
_ERFCX = (
    1.2530080582697296, -0.13562110612458117, -0.04756229435345087, 0.1296451587027606,
    -0.11927366341530699, 0.06830802734397848, -0.023770514918645888, 0.002529391816066239,
    0.0018886903591561553, -0.0007798322721083991, -0.00010515979981501177, 0.00012509935235563107,
    4.949484992570595e-06, -2.0100567931289227e-05, -7.315105164159062e-07, 3.472414602875686e-06,
    3.5683839153992204e-07, -6.166496077604353e-07, -1.4160064940265987e-07, 1.0187000600072885e-07,
    4.180784698845582e-08, -1.3326364813003834e-08, -8.500397929772615e-09, 9.885798831139365e-10,
    8.864219016427092e-10,
)
_ERFCX_SLOPE = (
    2.6642407403514707, -0.2054705607993055, -0.6936084288393571, 0.866275414790745,
    -0.471929474133499, 0.01927749330494179, 0.16887802108246944, -0.12551965338765966,
    0.031756912936083716, 0.009918971963676979, -0.00801503703546424, -0.00023672826480956912,
    0.0014813044697362585, -6.585884418218672e-05, -0.0002834155033873029, 9.10453575266919e-06,
    5.8285252105183966e-05, 3.0184093569460297e-06, -1.2175508736565201e-05,
    -2.26887036675273e-06, 2.350174372288424e-06, 8.088858311162348e-07, -3.700307694557119e-07,
    -1.7697279713052607e-07, 3.9314655121202974e-08, 1.879657271618924e-08,
    -1.8864100526330477e-09,
)
# fmt: on


def erfcx_terms(x: Value) -> tuple[Value, Value]:
    """Return a numerator and a denominator of ``exp(x²) erfc(x)`` for ``x >= 0``."""
    return polynomial(1 - 6 / (x + 3), _ERFCX), 1 + 2 * x


def _erfcx_from_zero(x: Value) -> Value:
    """Return ``exp(x²) erfc(x)`` for ``x >= 0``."""
    numerator, denominator = erfcx_terms(x)
    return numerator / denominator


def _erfcx_slope(x: Value) -> Value:
    """Return the derivative of ``exp(x²) erfc(x)`` for ``x >= 0``, without cancellation."""
    denominator = 1 + 2 * x
    return polynomial(1 - 6 / (x + 3), _ERFCX_SLOPE) / (-denominator * denominator)


erfcx_from_zero = formula(_erfcx_from_zero, _erfcx_slope)


@formula
def erfcx(x: Value) -> Value:
    """Return ``exp(x²) erfc(x)``."""
    scaled = erfcx_from_zero(where(x < 0, -x, x))
    left = ew.minimum(x, 0)  # Elsewhere the exponential and its derivative overflow.
    return where(x < 0, 2 * ew.exp(left * left) - scaled, scaled)


# Numerators and denominators of M. J. Wichura, *Algorithm AS 241: The percentage points of the
# normal distribution*, Applied Statistics 37 (1988), PPND16: around 1/2, in the tails, far out.
# fmt: off
_MIDDLE = (
    (
        3.3871328727963665, 133.14166789178438, 1971.5909503065513, 13731.69376550946,
        45921.95393154987, 67265.7709270087, 33430.57558358813, 2509.0809287301227,
    ),
    (
        1.0, 42.31333070160091, 687.1870074920579, 5394.196021424751,
        21213.794301586597, 39307.89580009271, 28729.085735721943, 5226.495278852854,
    ),
)
_TAIL = (
    (
        1.4234371107496835, 4.630337846156546, 5.769497221460691, 3.6478483247632045,
        1.2704582524523684, 0.2417807251774506, 0.022723844989269184, 0.0007745450142783414,
    ),
    (
        1.0, 2.053191626637759, 1.6763848301838038, 0.6897673349851,
        0.14810397642748008, 0.015198666563616457, 0.0005475938084995345, 1.0507500716444169e-09,
    ),
)
_FAR_TAIL = (
    (
        6.657904643501103, 5.463784911164114, 1.7848265399172913, 0.29656057182850487,
        0.026532189526576124, 0.0012426609473880784, 2.7115555687434876e-05, 2.0103343992922881e-07,
    ),
    (
        1.0, 0.599832206555888, 0.1369298809227358, 0.014875361290850615, 0.0007868691311456133,
        1.8463183175100548e-05, 1.421511758316446e-07, 2.0442631033899397e-15,
    ),
)
# fmt: on


def _ratio(numerator: Sequence[float], denominator: Sequence[float], x: Value) -> Value:
    return polynomial(x, numerator) / polynomial(x, denominator)


def _quantile(q: Value, tail: Value) -> Value:
    """Return the quantile of the normal distribution at ``1/2 + q``, over √2.

    ``tail`` is the probability beyond it. The relative error is 1e-15.
    """
    return _quantile_at(q, ew.sqrt(-ew.log(tail)))


def _quantile_at(q: Value, r: Value) -> Value:
    """Return `_quantile` where the probability beyond is ``exp(-r²)``, for ``r <= 50``."""
    middle = q * _ratio(*_MIDDLE, 0.180625 - q * q)
    # Arguments are clipped to the range in which each formula is used.
    near = _ratio(*_TAIL, ew.minimum(r, 5) - 1.6)
    far = _ratio(*_FAR_TAIL, ew.minimum(ew.maximum(r, 5), 50) - 5)
    beyond = where(ew.equal(r, math.inf), math.inf, where(r <= 5, near, far))
    outer = where(q < 0, -beyond, beyond)
    return where(abs(q) <= 0.425, middle, outer) * math.sqrt(0.5)


def _erfinv(x: Value) -> Value:
    """Return the inverse of `erf` on [-1, 1], and NaN outside.

    XLA's primitive loses 1e-10 near the ends. At zero of either sign it is 0, as in SciPy.
    """
    return where(ew.equal(x, 0), 0, _quantile(0.5 * x, 0.5 * (1 - abs(x))))


def _erfcinv(x: Value) -> Value:
    """Return the inverse of `erfc` on [0, 2], and NaN outside; at 1 it is -0, as in SciPy."""
    return where(ew.equal(x, 1), -0.0, _quantile(0.5 * (1 - x), 0.5 * ew.minimum(x, 2 - x)))


def _slope(y: Value) -> Value:
    """Return the derivative of `erfinv` where its value is ``y``."""
    return 0.5 * math.sqrt(math.pi) * ew.exp(y * y)


erfinv = formula(_erfinv, lambda x: _slope(erfinv(x)))
erfcinv = formula(_erfcinv, lambda x: -_slope(erfcinv(x)))


def _ndtri_exp(x: Value) -> Value:
    """Return the quantile of the standard normal distribution at ``exp(x)``, for any ``x <= 0``.

    Where ``exp(x)`` underflows, Newton's method solves for the logarithm of the distribution.
    """
    log_tail = where(x < -math.log(2), x, ew.log(-ew.expm1(x)))
    near = _quantile_at(ew.exp(x) - 0.5, ew.sqrt(-log_tail)) * math.sqrt(2)
    y = -math.sqrt(2) * ew.sqrt(-ew.minimum(x, -_ROOT_FROM))
    for _ in range(4):
        scaled = erfcx_from_zero(-y * math.sqrt(0.5))
        excess = -0.5 * y * y - ew.minimum(x, -_ROOT_FROM) + ew.log(0.5 * scaled)
        y = y - excess * scaled * math.sqrt(0.5 * math.pi)
    far = where(ew.equal(x, -math.inf), -math.inf, y)
    return where(x > 0, math.nan, where(x < -_ROOT_FROM, far, near))


def _ndtri_exp_slope(x: Value) -> Value:
    y = ndtri_exp(x)
    return math.sqrt(2 * math.pi) * ew.exp(x + 0.5 * y * y)


_ROOT_FROM = 100.0
ndtri_exp = formula(_ndtri_exp, _ndtri_exp_slope)


# --- Owen's T function --------------------------------------------------------------------

# Gauss-Legendre nodes and weights on [0, 1].
_NODES, _WEIGHTS = (0.5 * x for x in np.polynomial.legendre.leggauss(28))


def _integral(h: Value, a: Value) -> Value:
    """Return ``T(h, a)`` for ``h >= 0`` and ``0 <= a <= 1``, by the integral that defines it.

    The integrand is ``exp(-h²(1 + x²)/2) / (1 + x²)``, which is negligible beyond ``x = 9 / h``.
    """
    end = ew.minimum(a, 9 / ew.maximum(h, 1))
    scaled, square = h * end * math.sqrt(0.5), end * end
    total = 0 * scaled
    for node, weight in zip(_NODES + 0.5, _WEIGHTS, strict=True):
        y = scaled * node
        total = total + weight * ew.exp(-y * y) / (1 + square * node**2)
    return end * total * ew.exp(-0.5 * h * h) / (2 * math.pi)


def _upper(x: Value) -> Value:
    """Return the probability that a standard normal variable exceeds ``x``."""
    return 0.5 * lax.erfc(x * math.sqrt(0.5))


def _owens_t(h: Value, a: Value) -> Value:
    """Return Owen's T: the probability of ``X > h`` and ``0 < Y < a X`` for normal ``X`` and ``Y``.

    D. B. Owen, *Tables for computing bivariate normal probabilities*, Ann. Math. Stat. 27 (1956):
    equation 2.3 reduces ``a > 1`` to its reciprocal.
    """
    # The function is constant beyond these bounds, which keep infinities from meeting zeros.
    size, slope = ew.minimum(abs(h), 1e10), ew.minimum(abs(a), 1e30)
    steep = slope > 1
    far = ew.minimum(size * slope, 1e10)
    direct = _integral(where(steep, far, size), where(steep, 1 / slope, slope))
    p, q = _upper(size), _upper(far)
    value = where(steep, 0.5 * (p + q) - p * q - direct, direct)
    return where(a < 0, -value, value)


def _by_h(h: Value, a: Value) -> Value:
    factor = -0.5 / math.sqrt(2 * math.pi)
    return factor * ew.exp(-0.5 * h * h) * lax.erf(a * h * math.sqrt(0.5))


def _by_a(h: Value, a: Value) -> Value:
    square = 1 + a * a
    return ew.exp(-0.5 * square * h * h) / (2 * math.pi * square)


owens_t = formula(_owens_t, _by_h, _by_a)
