"""Draws from Pólya-Gamma distributions PG(h, z), exactly, for all real ``h >= 1``.

Sources: N. G. Polson, J. G. Scott and J. Windle, *Bayesian inference for logistic models using
Pólya-Gamma latent variables*, JASA 108 (2013), for ``h = 1`` after L. Devroye, *On exact simulation
algorithms for some distributions related to Jacobi theta functions* (2009); for other ``h`` Windle,
Polson and Scott, *Sampling Pólya-Gamma random variates: alternate and approximate techniques*
(2014).

A draw is a quarter of one from J(h, z/2), and J(h, z) is a sum of independent draws from J(1, z)
and one from J(b, z) with ``1 <= b < 2``. Its density is proportional to ``exp(-z² x / 2) f(x)``.
Here ``f(x)`` is ``a(x) = 2**b b / sqrt(2 pi x³) exp(-b² / (2 x))`` times an alternating series (see
`_series`). Two bounds of ``f`` give proposals:

- ``f <= a`` where the terms of the series fall, for which ``x < 3.6`` is enough.
- ``f(x) <= (4/pi)**b c**b x**(b-1) exp(-c x) / gamma(b)`` with ``c = pi²/8``: J(b) is a sum of
  gamma draws of shape ``b`` and rates ``c (2k - 1)²``. Given the sum ``r`` of all but the first,
  the density at ``x`` is that of the first draw at ``x - r``, which is at most its density at ``x``
  times ``exp(c r)``, and the mean of ``exp(c r)`` is ``(4/pi)**b``. The tangent of ``x**(b-1)``, as
  an exponential, bounds it, so that the proposal is exponential.
"""

from __future__ import annotations

import math

import numpy as np

from jaxprgen.emit import distributions, random, reduce, rejection
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.formula import iterate
from jaxprgen.emit.values import Shape, Value, broadcast_to, full, where

_RATE = math.pi**2 / 8


def polya_gamma(key: Value, shape: Shape, h: Value, z: Value) -> Value:
    """Draw with mean ``h tanh(z/2) / (2 z)``; the time grows with the largest ``h``."""
    dtype = h.dtype
    key_sum, key_last = random.split(key)
    tilt = abs(z) * 0.5
    tilt = ew.minimum(tilt, np.sqrt(np.finfo(dtype).max) / 10)  # Its square is finite.
    whole = ew.floor(h) - 1
    last = h - whole

    def propose(key: Value, last: Value, tilt: Value) -> tuple[Value, Value]:
        return _propose(key, shape, last, tilt)

    drawn = rejection.until_accepted(key_last, shape, dtype, propose, (last, tilt))
    if not _all_below_two(h):
        drawn = drawn + _sum_of_ones(key_sum, shape, whole, tilt)
    return drawn * 0.25


def _all_below_two(h: Value) -> bool:
    value = h.static
    return value is not None and bool(np.all(value < 2))


def _sum_of_ones(key: Value, shape: Shape, count: Value, tilt: Value) -> Value:
    """Return sums of ``count`` draws from J(1, tilt); 0 where ``tilt`` is NaN."""

    def goes_on(key: Value, total: Value, left: Value, tilt: Value) -> Value:
        return reduce.bitwise_or(left > 0, range(len(shape)))

    def step(key: Value, total: Value, left: Value, tilt: Value) -> list[Value]:
        key, subkey = random.split(key)
        x, accepted = _propose(subkey, shape, left.like(1), tilt)
        counts = accepted & (left > 0)
        total = total + ew.where(counts, x, 0)
        return [key, total, left - counts.astype(left.dtype), tilt]

    count = ew.where(ew.isnan(tilt), 0, count)
    start = [full(shape, 0, count.dtype), *(broadcast_to(x, shape) for x in (count, tilt))]
    return while_loop(goes_on, step, [key, *start])[1]


def _propose(key: Value, shape: Shape, b: Value, z: Value) -> tuple[Value, Value]:
    """Return a proposal for J(b, z) with ``z >= 0``, and whether it is accepted."""
    dtype = b.dtype
    one, two = random.split(key)
    keys = [*random.split(one), *random.split(two)]
    side, accept, first = (random.uniform(k, shape, dtype) for k in keys[:3])
    # Proposals use the first bound below `end` and the second above. These numbers nearly minimize
    # the total area, which is the inverse of the acceptance rate.
    end = 1.17 * b - 0.18
    tangent = end + 0.62 + 0.23 * b
    rate = _RATE - (b - 1) / tangent
    log_scale = b * math.log(math.pi / 2) - lax.lgamma(b) + (b - 1) * (ew.log(tangent) - 1)
    tilted = rate + z * z / 2
    outside = lax.erfc(b / ew.sqrt(2 * end))
    is_flat = z * end < b  # Then exp(-z² x / 2) >= 0.3, and proposals leave it out.
    log_above = log_scale - tilted * end - ew.log(tilted)
    log_below = b * math.log(2) + where(is_flat, ew.log(outside), -(b * z))
    is_above = side * (1 + ew.exp(log_below - log_above)) < 1
    above = end - ew.log1p(-first) / tilted
    # Below `end`: Lévy draws, by inversion of the normal distribution, or inverse Gaussian draws.
    normal = math.sqrt(2) * lax.erf_inv(1 - (1 - first) * outside)
    mean = b / ew.maximum(z, b / end)
    gaussian = distributions.wald(keys[3], shape, mean, b * b)
    below = where(is_flat, (b / normal) * (b / normal), gaussian)
    x = where(is_above, above, below)
    log_a = b * math.log(2) + ew.log(b) - math.log(2 * math.pi) / 2
    log_a = log_a - 1.5 * ew.log(x) - b * b / (2 * x)
    log_bound = where(is_flat, z * z * x / 2, 0 * x)
    log_bound = where(is_above, log_scale - rate * x - log_a, log_bound)
    accepted = accept * ew.exp(log_bound) <= _series(x, b)
    return x, accepted & (is_above | (x <= end))


def _series(x: Value, b: Value) -> Value:
    """Return ``f(x) / a(x)``, to rounding, where the terms of the series fall.

    It is the sum of ``(-1)**n (b)_n / n! (2 n + b) / b exp(-2 n (n + b) / x)``.
    """
    smallest = float(np.finfo(x.dtype).eps) / 8

    def step(k: Value, *xs: Value) -> list[Value]:
        factor, _, total, x, b = xs
        n = k + 1
        factor = -factor * (k + b) / n
        term = factor * (2 * n + b) / b * ew.exp(-2 * n * (n + b) / x)
        return [factor, term, total + term]

    def more(factor: Value, term: Value, *_: Value) -> Value:
        return abs(term) > smallest

    one = x.like(1)
    return iterate(200, step, [one, one, one], [x, b], more)[2]
