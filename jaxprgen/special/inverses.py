"""Inverses of the incomplete gamma and beta functions with respect to their last operand.

The logarithm of the smaller tail is solved for the logarithm of the point, by Newton's method
inside of a bracket that every step narrows. Where Newton's step leaves the bracket, and in every
third step, the point is the geometric mean of the ends, so that any magnitude is found. Derivatives
are those of implicit functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.formula import formula, iterate
from jaxprgen.emit.values import Value, where
from jaxprgen.special.gamma_functions import any_below
from jaxprgen.special.incomplete_beta import betainc, betainc_der, betainc_slope, both_betas
from jaxprgen.special.incomplete_gamma import both_gammas, gammainc_der, gammainc_slope

_STEPS = 200

Tails = Callable[..., tuple[Value, Value]]
"""A function of parameters and a point that returns an increasing function and 1 minus it."""


def _solve(
    tails: Tails, slope: Callable[..., Value], p: Value, q: Value, end: float, *parameters: Value
) -> Value:
    """Return the point between 0 and ``end`` at which the tails are ``p`` and ``q = 1 - p``."""
    info = np.finfo(p.dtype)
    least = float(info.tiny) * 4

    def step(k: Value, *xs: Value) -> list[Value]:
        low, high, x, _, p, q, *own = xs
        lower, upper = tails(*own, x)
        by_lower = p <= q
        below = where(by_lower, lower < p, upper > q)
        low, high = where(below, x, low), where(below, high, x)
        found, wanted = where(by_lower, lower, upper), where(by_lower, p, q)
        change = ew.log(wanted / found) * found / (slope(*own, x) * x)
        newton = x * ew.exp(where(by_lower, change, -change))
        inside = (newton > low) & (newton < high) & ~ew.equal(k - 3 * ew.floor(k / 3), 2)
        after = where(inside, newton, ew.sqrt(low) * ew.sqrt(high))
        near = abs(after - x) <= x * (2 * float(info.eps))
        done = (inside & near) | (high - low <= low * (2 * float(info.eps)))
        return [low, high, after, done.astype(x.dtype)]

    zero = p.like(0)
    start = [p.like(least), p.like(end), p.like(math.sqrt(least) * math.sqrt(end)), zero]
    fixed = [p, q, *parameters]
    _, _, x, _ = iterate(_STEPS, step, start, fixed, lambda *xs: ew.equal(xs[3], 0))
    return where(x <= 2 * least, 0, x)


# --- Gamma --------------------------------------------------------------------------------


def _gamma_point(k: Value, p: Value, q: Value) -> Value:
    largest = float(np.finfo(p.dtype).max) ** 0.9
    inside = (k > 0) & (k < math.inf) & (p > 0) & (q > 0)
    x = _solve(both_gammas, gammainc_slope, where(inside, p, 0.5), where(inside, q, 0.5), largest,
               where(inside, k, 1))  # fmt: skip
    x = where(ew.equal(p, 0), 0, where(ew.equal(q, 0), math.inf, x))
    invalid = any_below((k, 0), (p, 0), (q, 0)) | ew.isnan(k + p)
    invalid = invalid | ((ew.equal(k, 0) | ew.equal(k, math.inf)) & (p > 0) & (q > 0))
    return where(invalid, math.nan, x)


def _gammaincinv(k: Value, p: Value) -> Value:
    """Return the point at which `gammainc` is ``p``."""
    return _gamma_point(k, p, 1 - p)


def _gammainccinv(k: Value, q: Value) -> Value:
    """Return the point at which `gammaincc` is ``q``."""
    return _gamma_point(k, 1 - q, q)


def _by_order(inverse: ew.Emit) -> ew.Emit:
    def derivative(k: Value, p: Value) -> Value:
        x = inverse(k, p)
        return -(gammainc_der(k, x) / gammainc_slope(k, x))

    return derivative


def _lower_slope(k: Value, p: Value) -> Value:
    return 1 / gammainc_slope(k, gammaincinv(k, p))


def _upper_slope(k: Value, q: Value) -> Value:
    return -1 / gammainc_slope(k, gammainccinv(k, q))


gammaincinv = formula(_gammaincinv, _by_order(lambda k, p: gammaincinv(k, p)), _lower_slope)
gammainccinv = formula(_gammainccinv, _by_order(lambda k, q: gammainccinv(k, q)), _upper_slope)


# --- Beta ---------------------------------------------------------------------------------


def _betaincinv(a: Value, b: Value, p: Value) -> Value:
    """Return the point at which `betainc` is ``p``."""
    inside = (a > 0) & (b > 0) & (a + b < math.inf) & (p > 0) & (p < 1)
    a_, b_, p_ = (where(inside, x, y) for x, y in ((a, 1), (b, 1), (p, 0.5)))
    q_ = 1 - p_
    # A point above 1/2 is 1 minus one below, of the exchanged parameters.
    above = betainc(a_, b_, a_.like(0.5)) < p_
    p_, q_ = where(above, q_, p_), where(above, p_, q_)
    own = where(above, b_, a_), where(above, a_, b_)
    x = _solve(both_betas, betainc_slope, p_, q_, 0.5, *own)
    x = where(above, 1 - x, x)
    x = where(ew.equal(p, 0), 0, where(ew.equal(p, 1), 1, x))
    undecided = ~inside & (p > 0) & (p < 1)
    invalid = (a <= 0) | (b <= 0) | any_below((p, 0), (-p, -1)) | ew.isnan(a + b + p)
    return where(invalid | undecided, math.nan, x)


def _by_parameter(along_a: float) -> ew.Emit:
    def derivative(a: Value, b: Value, p: Value) -> Value:
        x = betaincinv(a, b, p)
        return -(betainc_der(a, b, x, x.like(along_a)) / betainc_slope(a, b, x))

    return derivative


def _beta_slope(a: Value, b: Value, p: Value) -> Value:
    return 1 / betainc_slope(a, b, betaincinv(a, b, p))


betaincinv = formula(_betaincinv, _by_parameter(1), _by_parameter(0), _beta_slope)
