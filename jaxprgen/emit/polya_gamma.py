"""Draws from Pólya-Gamma distributions PG(h, z), for all real ``h`` of at least 1, exactly.

After Polson, Scott and Windle (Bayesian inference for logistic models using Pólya-Gamma latent
variables, JASA 108, 2013; for ``h = 1``, from Devroye's On exact simulation algorithms for some
distributions related to Jacobi theta functions, 2009) and Windle, Polson and Scott (Sampling
Pólya-Gamma random variates: alternate and approximate techniques, 2014; for other ``h``).

A draw is a quarter of one from J(h, z/2), and J(h, z) a sum of independent draws from J(1, z) and
one from J(b, z) with ``1 <= b < 2``. Its density is proportional to ``exp(-z² x / 2) f(x)`` with
``f(x)``, which is ``a(x)`` times an alternating series (see `_series`), where
``a(x) = 2**b b / sqrt(2 pi x³) exp(-b² / (2 x))``. Two bounds of ``f`` make proposals:

- ``f <= a`` where the terms of the series fall, for which ``x < 3.6`` is enough; and
- ``f(x) <= (4/pi)**b c**b x**(b-1) exp(-c x) / gamma(b)`` with ``c = pi²/8``: J(b) is a sum of
  gamma draws of shape ``b`` and rates ``c (2k - 1)²``. Given the sum ``r`` of all but the first,
  the density at ``x`` is that of the first one at ``x - r``, and so at most that at ``x`` times
  ``exp(c r)``, of which ``(4/pi)**b`` is the mean. Here ``x**(b-1)`` is bounded by its tangent's
  exponential, so that the proposal is exponential.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit import distributions, random, reduce, rejection
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import expression as fx
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.expression import Expression, call, iterate, where
from jaxprgen.emit.values import (
    Shape,
    Value,
    broadcast_to,
    dtype_of,
    elementwise,
    known,
    like,
    splat,
)
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax

_RATE = math.pi**2 / 8


def polya_gamma(b: Builder, key: Var, shape: Shape, h: Value, z: Value) -> Value:
    """Draws of mean ``h tanh(z/2) / (2 z)``; the time grows with the largest ``h``."""
    dtype = dtype_of(h)
    key_sum, key_last = random.split(b, key)
    tilt = ew.multiply(b, ew.absolute(b, z), like(z, 0.5))
    tilt = ew.minimum(b, tilt, like(z, np.sqrt(np.finfo(dtype).max) / 10))  # Its square is finite.
    whole = ew.subtract(b, ew.floor(b, h), like(h, 1))
    last = ew.subtract(b, h, whole)

    def propose(c: Builder, key: Var, last: Value, tilt: Value) -> tuple[Value, Value]:
        return _propose(c, key, shape, last, tilt)

    drawn = rejection.until_accepted(b, key_last, shape, dtype, propose, (last, tilt))
    if not _all_below_two(h):
        drawn = ew.add(b, drawn, _sum_of_ones(b, key_sum, shape, whole, tilt))
    return ew.multiply(b, drawn, like(drawn, 0.25))


def _all_below_two(h: Value) -> bool:
    value = known(h)
    return value is not None and bool(np.all(value < 2))


def _sum_of_ones(b: Builder, key: Var, shape: Shape, count: Value, tilt: Value) -> Value:
    """The sum of ``count`` draws from J(1, tilt), for each element; 0 where one is NaN."""

    def goes_on(c: Builder, key: Any, total: Value, left: Value, tilt: Value) -> Value:
        is_open = ew.greater(c, left, like(left, 0))
        return reduce.bitwise_or(c, is_open, tuple(range(len(shape))))

    def step(c: Builder, key: Any, total: Value, left: Value, tilt: Value) -> list[Value]:
        key, subkey = random.split(c, key)
        x, accepted = _propose(c, subkey, shape, like(left, 1), tilt)
        counts = ew.bitwise_and(c, accepted, ew.greater(c, left, like(left, 0)))
        one, none = like(left, 1), like(left, 0)
        total = ew.add(c, total, ew.where(c, counts, x, none))
        return [key, total, ew.subtract(c, left, ew.where(c, counts, one, none)), tilt]

    count = ew.where(b, ew.isnan(b, tilt), like(count, 0), count)
    start = [splat(0, dtype_of(count), shape), *(broadcast_to(b, x, shape) for x in (count, tilt))]
    return while_loop(b, goes_on, step, [key, *start])[1]


def _propose(c: Builder, key: Var, shape: Shape, b: Value, z: Value) -> tuple[Value, Value]:
    """A proposal for J(b, z), with ``z >= 0``, and whether it is accepted."""
    dtype = dtype_of(b)
    one, two = random.split(c, key)
    keys = [*random.split(c, one), *random.split(c, two)]
    side, accept, first = (Expression(c, random.uniform(c, k, shape, dtype)) for k in keys[:3])
    b_, z_ = Expression(c, b), Expression(c, z)
    # Proposals are from two pieces: below `end` from the first bound, above from the second. These
    # numbers make the areas of both, which is 1 over the rate of acceptance, nearly the least.
    end = 1.17 * b_ - 0.18
    tangent = end + 0.62 + 0.23 * b_
    rate = _RATE - (b_ - 1) / tangent
    log_scale = b_ * math.log(math.pi / 2) - fx.lgamma(b_) + (b_ - 1) * (fx.log(tangent) - 1)
    tilted = rate + z_ * z_ / 2
    outside = fx.erfc(b_ / fx.sqrt(2 * end))
    is_flat = z_ * end < b_  # Then proposals leave out exp(-z² x / 2), which is no less than 0.3.
    log_above = log_scale - tilted * end - fx.log(tilted)
    log_below = b_ * math.log(2) + where(is_flat, fx.log(outside), -(b_ * z_))
    is_above = side * (1 + fx.exp(log_below - log_above)) < 1
    above = end - fx.log1p(-first) / tilted
    # Lévy draws below `end`, by inversion of the normal distribution; else inverse Gaussian draws.
    normal = math.sqrt(2) * call(_erf_inv, 1 - (1 - first) * outside)
    mean = b_ / fx.maximum(z_, b_ / end)
    gaussian = distributions.wald(c, keys[3], shape, mean.value, (b_ * b_).value)
    below = where(is_flat, (b_ / normal) * (b_ / normal), Expression(c, gaussian))
    x = where(is_above, above, below)
    log_a = b_ * math.log(2) + fx.log(b_) - math.log(2 * math.pi) / 2
    log_a = log_a - 1.5 * fx.log(x) - b_ * b_ / (2 * x)
    log_bound = where(is_flat, z_ * z_ * x / 2, b_.like(0) * x)
    log_bound = where(is_above, log_scale - rate * x - log_a, log_bound)
    accepted = accept * fx.exp(log_bound) <= _series(x, b_)
    return x.value, (accepted & (is_above | (x <= end))).value


def _series(x: Expression, b: Expression) -> Expression:
    """``f(x) / a(x)``: the sum of ``(-1)**n (b)_n / n! (2 n + b) / b exp(-2 n (n + b) / x)``.

    To the last bit, from where on the terms fall.
    """
    smallest = float(np.finfo(x.dtype).eps) / 8

    def step(k: Expression, *xs: Expression) -> list[Expression]:
        factor, _, total, x, b = xs
        n = k + 1
        factor = -factor * (k + b) / n
        term = factor * (2 * n + b) / b * fx.exp(-2 * n * (n + b) / x)
        return [factor, term, total + term]

    def more(factor: Expression, term: Expression, *_: Expression) -> Expression:
        return abs(term) > smallest

    one = x.like(1)
    return iterate(200, step, [one, one, one], [x, b], more)[2]


def _erf_inv(b: Builder, x: Value) -> Value:
    return elementwise(b, lax.erf_inv, x)
