"""The modified Bessel function of the second kind, K, of real order, times ``exp(x)``.

Basset's integral ``K = ½ ∫ exp(v t - x cosh t) dt`` (DLMF 10.32.9) is taken along the real line by
the trapezoidal rule, which converges geometrically. With ``t`` counted from its saddle point
``arcsinh(v/x)``, and ``s = sqrt(v² + x²)``, the integrand is ``exp(v arcsinh(v/x) - s)`` times
``exp(-(s - v)(cosh z - 1) - v (exp(-z) + z - 1))``, and both terms of that exponent are negative.

In double precision the error is 1e-13 for orders up to 1e3 and arguments from 1e-30. Smaller
arguments continue as a power, which is accurate for orders from 0.3.
"""

from __future__ import annotations

import math

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.formula import formula, sum_terms, widest
from jaxprgen.emit.values import Value, where
from jaxprgen.special.bessel import undefined_by_order

_COUNT = 480
_NEGLIGIBLE = 40.0  # The exponent at the ends of the interval.
_SMALLEST = 1e-30
_LARGEST = 1e30  # Larger orders and arguments give the same results.


def _kve(v: Value, x: Value) -> Value:
    """Return the modified Bessel function of the second kind of order ``v``, times ``exp(x)``."""
    v = ew.minimum(abs(v), _LARGEST)
    held = ew.minimum(ew.maximum(x, _SMALLEST), _LARGEST)
    s = ew.sqrt(v * v + held * held)
    rest = held * (held / (s + v))  # s - v
    left = _reach(s)
    slope = _NEGLIGIBLE / ew.maximum(v, 1e-3)
    right = ew.minimum(_reach(rest), 0.5 * (slope + ew.sqrt(slope * (slope + 8))))
    step = (left + right) / _COUNT

    def part(k: Value, v: Value, rest: Value, left: Value, step: Value) -> list[Value]:
        z = (k + 0.5) * step - left
        half = ew.sinh(0.5 * z)
        return [ew.exp(-2 * rest * half * half - v * _curve(z))]

    (total,) = sum_terms(1, _COUNT, part, v, rest, left, step)
    exponent = v * (ew.arcsinh(v / held) - v / (s + held))
    value = 0.5 * step * total * ew.exp(exponent)
    small = ew.minimum(x, _SMALLEST)
    value = where(x < _SMALLEST, value * ew.exp(-v * ew.log(small / _SMALLEST)), value)
    value = where(ew.equal(x, 0), math.inf, value)
    return where((x < 0) | ew.equal(x, math.inf), math.nan, value)


def _reach(factor: Value) -> Value:
    """Return where ``factor (cosh z - 1)`` makes the integrand negligible."""
    return 2 * ew.arcsinh(ew.sqrt(0.5 * _NEGLIGIBLE / factor))


def _curve(z: Value) -> Value:
    """Return ``exp(-z) + z - 1``, also where the terms cancel."""
    near = ew.minimum(ew.maximum(z, -0.25), 0.25)
    series = 1 + 0 * near
    for k in range(14, 2, -1):
        series = 1 - series * near / k
    return where(ew.equal(near, z), 0.5 * near * near * series, ew.expm1(-z) + z)


def _kve_slope(v: Value, x: Value) -> Value:
    below = v.fill_value
    lower = v - 1 if below is None else v.like(below - 1)
    return (1 - v / x) * kve(v, x) - kve(lower, x)


kve = formula(_kve, undefined_by_order("PyTensor"), _kve_slope, precision=widest)
