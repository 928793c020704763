"""Draws from Pólya-Gamma distributions PG(h, z), for all real ``h > 0``.

Sources: N. G. Polson, J. G. Scott and J. Windle, *Bayesian inference for logistic models using
Pólya-Gamma latent variables*, JASA 108 (2013), for ``h = 1`` after L. Devroye, *On exact simulation
algorithms for some distributions related to Jacobi theta functions* (2009); for other ``h`` Windle,
Polson and Scott, *Sampling Pólya-Gamma random variates: alternate and approximate techniques*
(2014).

For ``1 <= h < 2``, draws are exact: quarters of draws from J(b, z/2) with ``b = h``. Its density is
proportional to ``exp(-z² x / 2) f(x)``, where ``f(x)`` is ``a(x) = 2**b b / sqrt(2 pi x³)
exp(-b² / (2 x))`` times an alternating series (see `_series`). Two bounds of ``f`` give proposals:

- ``f <= a`` where the terms of the series fall, for which ``x < 3.6`` is enough.
- ``f(x) <= (4/pi)**b c**b x**(b-1) exp(-c x) / gamma(b)`` with ``c = pi²/8``: J(b) is a sum of
  gamma draws of shape ``b`` and rates ``c (2k - 1)²``. Given the sum ``r`` of all but the first,
  the density at ``x`` is that of the first draw at ``x - r``, which is at most its density at ``x``
  times ``exp(c r)``, and the mean of ``exp(c r)`` is ``(4/pi)**b``. The tangent of ``x**(b-1)``, as
  an exponential, bounds it, so that the proposal is exponential.

For other ``h``, `_sum_of_gammas` adds up the largest of the infinitely many gamma draws of which a
Pólya-Gamma draw consists. Its time does not grow with ``h``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxprgen.emit import (
    distributions,
    elementwise as ew,
    primitives as lax,
    random,
    reduce,
    rejection,
)
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.formula import iterate, polynomial
from jaxprgen.emit.values import Shape, Value, broadcast_to, full, where

_RATE = math.pi**2 / 8
FAR = 16.0
"""The largest ``z`` of sums of gamma draws."""


def _coefficients(power: int, count: int) -> list[float]:
    """Return the sum of ``(k² + y)**-power`` over ``k = count + 0.5, count + 1.5, …``.

    It is a polynomial in ``y``, with an error below 1e-13 of the sum where ``y <= (FAR / 2 pi)²``.
    """
    last = 10_000  # The rest of each sum is an integral.
    k = np.arange(count, last) + 0.5
    found, binomial = [], 1.0
    for j in range(20):
        exponent = 2 * (power + j)
        found.append(binomial * (np.sum(k**-exponent) + last ** (1.0 - exponent) / (exponent - 1)))
        binomial *= -(power + j) / (j + 1)
    return found


TAILS = {count: [_coefficients(power, count) for power in (1, 2, 3)] for count in (8, 64)}
"""Polynomials of the sums that give mean, variance and third cumulant of the terms left out.

They are by the number of terms in the sum. There are more if an ``h`` is less than 1.
"""


def polya_gamma(key: Value, shape: Shape, h: Value, z: Value) -> Value:
    """Draw with mean ``h tanh(z/2) / (2 z)``."""
    key_one, key_sum = random.split(key)
    z = ew.minimum(abs(z), np.sqrt(np.finfo(h.dtype).max) / 5)  # Its square is finite.
    is_one, known = _is_one(h), h.static
    if known is not None and not np.any(_is_one(known)):
        return _sum_of_gammas(key_sum, shape, h, z)

    def propose(key: Value, h: Value, tilt: Value) -> tuple[Value, Value]:
        return _propose(key, shape, h, tilt)

    parameters = where(is_one, h, h.like(np.nan)), z * 0.5  # The loop does not wait for NaN.
    one = rejection.until_accepted(key_one, shape, h.dtype, propose, parameters) * 0.25
    if known is not None and np.all(_is_one(known)):
        return one
    return where(is_one, one, _sum_of_gammas(key_sum, shape, h, z))


def _is_one(h: Any) -> Any:
    return (h >= 1) & (h < 2)


def _sum_of_gammas(key: Value, shape: Shape, h: Value, z: Value) -> Value:
    """Draw where ``0 < h < 1`` or ``h >= 2``.

    A draw is ``sum(g[k] / (k² + y)) / (2 pi²)`` over ``k = 0.5, 1.5, …``, with gamma draws ``g`` of
    shape ``h`` and ``y = (z / (2 pi))²``. An inverse Gaussian draw, shifted, stands for the terms
    left out; it has their mean, variance and third cumulant. The distribution tends to an inverse
    Gaussian one with growing ``z``. The distribution function is right to within 1e-6; where
    ``h < 0.06``, for draws above 1e-4.
    """
    near = ew.minimum(z, FAR)
    y = ew.square(near / (2 * math.pi))

    def goes_on(left: Value, *_: Value) -> Value:
        return left > 0

    def step(left: Value, key: Value, total: Value, h: Value, y: Value) -> list[Value]:
        key, subkey = random.split(key)
        total = total + random.gamma(subkey, h, shape) / (ew.square(left - 0.5) + y)
        return [left - 1, key, total]

    key, subkey = random.split(key)
    axes = range(h.ndim)
    is_long = reduce.bitwise_or((h > 0) & (h < 1), axes)
    left, many = (h.like(n) for n in TAILS)
    left = where(is_long, many, where(reduce.bitwise_or(h >= 2, axes), left, h.like(0)))
    shapes = broadcast_to(where(h > 0, h, h.like(1)), shape)
    start = [left, key, full(shape, 0, h.dtype)]
    total = while_loop(goes_on, step, start, [shapes, broadcast_to(y, shape)])[2]
    tails = zip(*TAILS.values(), strict=True)
    first, second, third = (where(is_long, polynomial(y, b), polynomial(y, a)) for a, b in tails)
    ratio = 1.5 * ew.square(second) / third  # Of the inverse Gaussian draw's mean to `h`.
    total = total + h * (first - ratio)
    is_far, unit = z > FAR, 2 * math.pi**2
    mean = h * ew.where(is_far, 0.5 / ew.maximum(z, FAR), ratio / unit)
    scale = ew.square(h) * ew.where(is_far, 0.25, ratio * ratio * ratio / (second * unit))
    rest = distributions.wald(subkey, shape, mean, scale)
    return rest + ew.where(is_far, 0, total / unit)


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
