"""The regularized incomplete beta function and its derivatives with respect to its parameters.

With ``t / (1 - t) = x / (1 - x) exp(-u)`` the integrand ``t**a (1 - t)**b / beta(a, b)`` is its
value at ``x`` times ``exp(-a u - (a + b) log1p(x expm1(-u)))``, which is log-concave. As for the
incomplete gamma functions (see `jaxprgen.special.incomplete_gamma`), the tail is an integral of a
positive function over ``u > 0``, and its derivatives weight the integrand by logarithms of one
sign. Where ``x`` is above the mean, the parameters are exchanged. For tiny parameters the integrand
has a second scale, so the rule is one that is dense at zero: that of M. Mori and H. Takahasi for
exponential decay, with 121 nodes at steps of 1/15. It is added up in two parts, of less than 512
bytes each, for the same reason as there.

That function has two scales only for a small mass close to 1. There the complement is a power
series in ``1 - x`` (DLMF 8.17.7), written so that nothing cancels for any small ``b``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from jaxprgen.emit import elementwise as ew, primitives as lax
from jaxprgen.emit.custom_derivatives import undefined
from jaxprgen.emit.formula import formula, iterate, with_selector, zero_derivative
from jaxprgen.emit.values import Value, where
from jaxprgen.special.gamma_functions import (
    any_below,
    append_axis,
    lgamma1p,
    lgamma_increase,
    log_less,
    log_less_digamma,
    stirling_error,
    sum_last,
)

_STEPS = np.linspace(-3.5, 4.5, 121)
_NODES = np.exp(_STEPS - np.exp(-_STEPS))
_WEIGHTS = _NODES * (1 + np.exp(-_STEPS)) / 15
_PARTS = [*zip(np.array_split(_NODES, 2), np.array_split(_WEIGHTS, 2), strict=True)]
_TERMS = 36
_FAR = 30.0


class _Case(NamedTuple):
    """An evaluation, with the parameters in the order in which ``x`` is below the mean.

    Attributes
    ----------
    a, b
        The parameters.
    x, y
        The point and ``1 - x``.
    along_a, along_b
        One and zero, for the parameter with respect to which to differentiate.
    """

    a: Value
    b: Value
    x: Value
    y: Value
    along_a: Value
    along_b: Value


def _mean(case: _Case) -> tuple[Value, Value, Value]:
    """Return the mean ``a / (a + b)``, its complement, and the distance of ``x`` above it."""
    mean, complement = case.a / (case.a + case.b), case.b / (case.a + case.b)
    return mean, complement, where(case.x < 0.5, case.x - mean, complement - case.y)


def _density(case: _Case) -> Value:
    """Return ``x**a (1 - x)**b / beta(a, b)``."""
    a, b, x, y, *_ = case
    mean, complement, above = _mean(case)
    bulk = a * log_less(x / mean, above / mean) + b * log_less(y / complement, -above / complement)
    errors = stirling_error(a + b) - stirling_error(a) - stirling_error(b)
    return ew.exp(bulk + errors) * ew.sqrt(a * complement * (0.5 / math.pi))


def _scale(case: _Case) -> Value:
    """Return about where the logarithm of the integrand has fallen by one.

    It has fallen by at least ``slope u + curvature u**2 / (2 + y u)``; the quadratic equation is
    solved without cancellation.
    """
    a, b, x, y, *_ = case
    slope = -(a + b) * _mean(case)[2]
    curvature = (a + b) * x * y
    leading, middle = slope * y + curvature, 2 * slope - y
    root = ew.sqrt(middle * middle + 8 * leading)
    return where(middle > 0, 4 / (middle + root), (root - middle) / (2 * leading))


def _tail(case: _Case) -> tuple[Value, Value, Value]:
    """Return the function below the mean, its complement, and its derivative."""
    a, b, x, y, along_a, along_b = case
    scale = _scale(case)
    total = moment = scale * 0
    for nodes, factors in _PARTS:
        u = append_axis(scale) * nodes
        log_y, log_weights = _exponents(case, u)
        weights = ew.exp(log_weights) * factors
        total = total + sum_last(weights)
        moment = moment + sum_last(weights * (log_y + append_axis(along_a) * u))
    mean, complement, above = _mean(case)
    both = log_less_digamma(a + b)
    slope = along_a * (_log(x / mean, above / mean) + log_less_digamma(a) - both)
    slope = slope + along_b * (
        _log(y / complement, -above / complement) + log_less_digamma(b) - both
    )
    factor = _density(case) * scale
    lower = factor * total
    return lower, 1 - lower, factor * (slope * total - moment)


def _exponents(case: _Case, u: Value) -> tuple[Value, Value]:
    """Return the logarithms of ``(1 - t) / (1 - x)`` and of the integrand, relative to ``u = 0``.

    Where ``x`` is close to 1, ``-a u - (a + b) log(y + x exp(-u))`` is evaluated as
    ``b u - (a + b) log1p(y expm1(u))``, in which nothing large cancels.
    """
    a, b, x, y = map(append_axis, case[:4])
    close = (x + u * 0 > 0.5) & (u < _FAR)
    changed = ew.log1p(where(close, y, x) * ew.expm1(where(close, u, -u)))
    log_weights = where(close, b, -a) * u - (a + b) * changed
    return where(close, changed - u, changed), log_weights


def _log(ratio: Value, excess: Value) -> Value:
    near = abs(excess) < 0.5
    return where(near, ew.log1p(where(near, excess, 0)), ew.log(ratio))


def _near_one(case: _Case) -> tuple[Value, Value, Value]:
    """Return the results of `_tail` where `_is_near_one` holds, by the series in ``y``."""
    a, b, _, y, along_a, along_b = case
    series, moment = _series(case)
    increase, slope_a = lgamma_increase(a, b)
    logarithm = b * ew.log(y) + increase - lgamma1p(b)
    factor = ew.exp(logarithm)
    slope_b = ew.log(y) + lax.digamma(a + b) - lax.digamma(b + 1)
    slope = along_a * slope_a + along_b * slope_b
    change = slope * (b * series + 1) + along_b * series + b * moment
    upper = factor * (b * series + 1)
    return -ew.expm1(logarithm) - factor * b * series, upper, -factor * change


def _series(case: _Case) -> list[Value]:
    """Return the sum of ``(1 - a)_n y**n / (n! (b + n))`` for n >= 1, and its derivative."""

    def step(n: Value, *rest: Value) -> list[Value]:
        term, change, total, moment, a, b, y, along_a, along_b = rest
        n = n + 1
        factor = (n - a) / n * y
        change = change * factor - term * along_a * y / n
        term = term * factor
        inverse = 1 / (b + n)
        moment = moment + (change - term * along_b * inverse) * inverse
        return [term, change, total + term * inverse, moment]

    zero, one = case.a.like(0), case.a.like(1)
    parameters = [case.a, case.b, case.y, case.along_a, case.along_b]
    return iterate(_TERMS, step, [one, zero, zero, zero], parameters)[2:]


def _evaluate(a: Value, b: Value, x: Value, along_a: Value) -> tuple[Value, Value, Value]:
    """Return the function, its complement and its derivative, for positive a, b and x in [0, 1]."""
    tiny = float(np.finfo(x.dtype).tiny)
    largest = float(np.finfo(x.dtype).max) ** 0.5
    a, b = (ew.minimum(ew.maximum(p, tiny), largest) for p in (a, b))
    x = ew.minimum(ew.maximum(x, 0), 1)
    y = 1 - x
    at_one, at_zero = _is_near_one(a, b, y), _is_near_one(b, a, x)
    swapped = at_zero | (~at_one & (x * b > y * a))

    def either(p: Value, q: Value) -> Value:
        return where(swapped, p, q)

    along_b = 1 - along_a
    case = _Case(
        *(either(b, a), either(a, b), either(y, x), either(x, y)),
        *(either(along_b, along_a), either(along_a, along_b)),
    )
    found = zip(_near_one(case), _tail(case), strict=True)
    lower, upper, slope = (where(at_one | at_zero, near, far) for near, far in found)
    return either(upper, lower), either(lower, upper), either(-slope, slope)


def _is_near_one(a: Value, b: Value, y: Value) -> Value:
    return (a * y <= 1) & (y <= 0.25) & (b <= 1.4)


def both_betas(a: Value, b: Value, x: Value) -> tuple[Value, Value]:
    """Return the function and its complement, for positive parameters and x in [0, 1]."""
    lower, upper, _ = _evaluate(a, b, x, a * 0)
    return lower, upper


def _invalid(a: Value, b: Value, x: Value) -> Value:
    undecided = (ew.equal(a, 0) & ew.equal(b, 0)) | ew.equal(a, math.inf) | ew.equal(b, math.inf)
    return any_below((a, 0), (b, 0), (x, 0), (-x, -1)) | undecided | ew.isnan(a + b + x)


def _betainc(a: Value, b: Value, x: Value) -> Value:
    """Return the regularized incomplete beta function, with its limits at parameters of 0."""
    value, _, _ = _evaluate(a, b, x, a * 0)
    value = where(ew.equal(a, 0), 1, where(ew.equal(b, 0), 0, value))
    value = where(ew.equal(x, 0), 0, where(ew.equal(x, 1), 1, value))
    return where(_invalid(a, b, x), math.nan, value)


def _betainc_der(a: Value, b: Value, x: Value, along_a: Value) -> Value:
    """Return the derivative of `betainc` with respect to ``a``, or ``b`` if ``along_a`` is 0."""
    *_, slope = _evaluate(a, b, x, where(ew.equal(along_a, 0), x * 0, 1))
    value = where(ew.equal(x, 0) | ew.equal(x, 1), 0, slope)
    return where(_invalid(a, b, x), math.nan, value)


def betainc_slope(a: Value, b: Value, x: Value) -> Value:
    """Return the derivative with respect to ``x``."""
    zero = x * 0
    inside = _density(_Case(a, b, x, 1 - x, zero, zero)) / (x * (1 - x))
    at_zero = where(a < 1, math.inf, where(ew.equal(a, 1), b, 0))
    at_one = where(b < 1, math.inf, where(ew.equal(b, 1), a, 0))
    return where(ew.equal(x, 0), at_zero, where(ew.equal(x, 1), at_one, inside))


def _mixed_derivative(a: Value, b: Value, x: Value, along_a: Value) -> Value:
    """Return the derivative with respect to ``x`` and a parameter."""
    which = ew.equal(along_a, 0)
    logarithm = where(which, ew.log1p(-x), ew.log(x))
    return betainc_slope(a, b, x) * (
        logarithm + lax.digamma(a + b) - lax.digamma(where(which, b, a))
    )


_NONE = undefined(
    "The incomplete beta function has no second derivative with respect to its parameters."
)


betainc_der = formula(_betainc_der, _NONE, _NONE, _mixed_derivative, zero_derivative)
betainc = formula(
    _betainc, with_selector(betainc_der, 1), with_selector(betainc_der, 0), betainc_slope
)
