"""Draws that take an unknown number of steps.

Functions are called as those of `jaxprgen.emit.distributions`. Loops run until the last element is
drawn, and elements that have been drawn keep their values.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import numpy as np

from jaxprgen.emit import (
    distributions,
    elementwise as ew,
    primitives as lax,
    random,
    reduce,
    shape as sh,
    transcendental as special,
)
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.custom_derivatives import with_derivatives
from jaxprgen.emit.staged import Sampler, staged
from jaxprgen.emit.values import BOOL, Dtype, Shape, Value, broadcast_to, full


def until_accepted(
    key: Value,
    shape: Shape,
    dtype: Dtype,
    propose: Callable[..., tuple[Value, Value]],
    parameters: tuple[Value, ...],
) -> Value:
    """Draw by rejection.

    Parameters
    ----------
    key, shape, dtype
        The key, and the shape and dtype of the draws.
    propose
        ``propose(key, *parameters)`` returns proposals and where they are accepted.
    parameters
        The parameters, which broadcast to ``shape``. Where one is NaN, the draw is NaN, because no
        proposal would be accepted.
    """

    def goes_on(key: Value, drawn: Value, done: Value, *_: Value) -> Value:
        return ~reduce.bitwise_and(done, tuple(range(len(shape))))

    def step(key: Value, drawn: Value, done: Value, *ps: Value) -> list[Value]:
        key, subkey = random.split(key)
        proposal, accepted = propose(subkey, *ps)
        drawn = ew.where(done, drawn, proposal)
        return [key, drawn, done | accepted]

    done = full(shape, False, BOOL)
    for p in parameters:
        if p.static is None:
            done = done | broadcast_to(ew.isnan(p), shape)
    operands = [broadcast_to(p, shape) for p in parameters]
    return while_loop(goes_on, step, [key, full(shape, np.nan, dtype), done], operands)[1]


def zipf(key: Value, shape: Shape, exponent: Value) -> Value:
    """Draw whole numbers ``k`` with probabilities proportional to ``k**-exponent``, as floats.

    L. Devroye, *Non-Uniform Random Variate Generation*, 1986, X.6.1. Numbers beyond int64 are drawn
    again, as in NumPy.
    """
    dtype = exponent.dtype
    largest = 2.0 ** (ew.canonical(np.int64).itemsize * 8 - 1)

    def propose(key: Value, a: Value) -> tuple[Value, Value]:
        key_x, key_v = random.split(key)
        less = a - 1  # The exponential of an exponential draw over this is u ** (-1 / (a - 1)).
        x = ew.floor(ew.exp(random.exponential(key_x, shape, dtype) / less))
        v = random.uniform(key_v, shape, dtype)
        log_t = less * ew.log1p(1 / x)
        log_b = less * math.log(2)
        # v x (t - 1) / (b - 1) <= t / b, times (b - 1) / t, so that neither side overflows.
        rest_t, rest_b = (ew.expm1(-log) for log in (log_t, log_b))
        return x, (v * x * rest_t >= rest_b) & (x < largest)

    return until_accepted(key, shape, dtype, propose, (exponent,))


def vonmises(key: Value, shape: Shape, mu: Value, kappa: Value) -> Value:
    """Draw angles from -pi to pi around ``mu``, concentrated by ``kappa``.

    D. J. Best and N. I. Fisher, *Efficient simulation of the von Mises distribution*, Applied
    Statistics 28 (1979), written in terms of the sine of half the angle. Nothing cancels for large
    ``kappa``, so no normal approximation is needed.

    The derivative by ``kappa`` is implicit, like that of `jax.random.gamma`: M. Figurnov, S.
    Mohamed, A. Mnih, *Implicit reparameterization gradients*, NeurIPS 2018.
    """
    dtype = kappa.dtype
    kappa = ew.minimum(kappa, np.finfo(dtype).max / 4)  # Infinity would give NaN.
    concentration, kappa = kappa, ew.stop_gradient(kappa)
    key_angle, key_sign = random.split(key)

    def propose(key: Value, kappa: Value) -> tuple[Value, Value]:
        key_z, key_u = random.split(key)
        twice = 2 * kappa
        root = ew.sqrt(1 + ew.square(twice))
        excess = 1 + 1 / (root + twice)  # tau - 2 kappa
        half = random.uniform(key_z, shape, dtype) * (math.pi / 2)
        versine = 2 * ew.square(ew.sin(half))  # 1 - z
        vercosine = 2 * ew.square(ew.cos(half))  # 1 + z
        w = excess * versine / (excess + twice * vercosine)  # 1 - cos(angle)
        gap = excess / 2 + kappa * w
        u = random.uniform(key_u, shape, dtype)
        return w, ew.log(u) <= ew.log(gap) + 1 - gap

    w = until_accepted(key_angle, shape, dtype, propose, (kappa,))
    angle = 2 * ew.arcsin(ew.sqrt(w / 2))
    is_positive = random.uniform(key_sign, shape, dtype) < 0.5
    angle = mu + _concentrated(ew.where(is_positive, angle, -angle), concentration)
    turn = 2 * math.pi
    return angle - turn * ew.round_half_to_even(angle / turn)


def _vonmises_slope(angle: Value, kappa: Value) -> Value:
    """Return the derivative of a draw by ``kappa``, by Gauss-Legendre quadrature.

    It is minus the derivative of the distribution function, over the density; both are zero or
    symmetric at the angle 0, where the integral of ``(cos t - A) exp(kappa (cos t - cos angle))``
    starts. ``A`` is the mean of ``cos t``.
    """
    angle = _concentrated(angle, kappa)
    scaled = lax.bessel_i0e(kappa)
    rest = (scaled - lax.bessel_i1e(kappa)) / scaled  # 1 - A
    last = [angle.ndim]
    end, kappa, rest = (sh.expand_dims(x, last) for x in (angle, kappa, rest))
    nodes, weights = (end.like(x) for x in np.polynomial.legendre.leggauss(_NODES))
    t = end * (nodes + 1) / 2
    difference = 2 * ew.sin((end + t) / 2) * ew.sin((end - t) / 2)  # cos t - cos angle
    values = (2 * ew.square(ew.sin(t / 2)) - rest) * ew.exp(kappa * difference)
    return angle / 2 * reduce.sum(weights * values, last)


_NODES = 48
_concentrated = with_derivatives(lambda x, kappa: x, lambda x, kappa: x.like(1), _vonmises_slope)


# --- Whole numbers, as floats unless a docstring says otherwise ---------------------------


def hypergeometric(key: Value, shape: Shape, good: Value, bad: Value, drawn: Value) -> Value:
    """Draw the number of good elements among ``drawn`` of ``good + bad`` elements.

    By inversion, searched outwards from the mode: V. Kachitvichyanukul and B. Schmeiser, *Computer
    generation of hypergeometric random variates*, J. Stat. Comput. Simul. 22 (1985).
    """
    good, bad, drawn = (broadcast_to(x, shape) for x in (good, bad, drawn))
    total = good + bad
    mode = ew.floor((drawn + 1) * (good + 1) / (total + 2))
    ways = _log_binomial(good, mode) + _log_binomial(bad, drawn - mode)
    probability = ew.exp(ways - _log_binomial(total, drawn))
    u = random.uniform(key, shape, mode.dtype)

    def goes_on(up: Value, p: Value, down: Value, q: Value, rest: Value, *_: Value) -> Value:
        return reduce.bitwise_or((rest >= 0) & (p + q > 0), range(len(shape)))

    def step(*carries: Value) -> list[Value]:
        up, p, down, q, rest, found, good, bad, drawn = carries
        spare = bad - drawn
        for_up = (good - up) * (drawn - up)
        up = up + 1
        p = p * (for_up / (up * (spare + up)))
        for_down = down * (spare + down)
        down = down - 1
        q = q * (for_down / ((good - down) * (drawn - down)))
        for value, weight in ((up, p), (down, q)):
            is_open = rest >= 0
            rest = rest - ew.where(is_open, weight, 0)
            found = ew.where(is_open & (rest < 0), value, found)
        return [up, p, down, q, rest, found]

    rest = u - probability
    start = [mode, probability, mode, probability, rest, mode]
    carries = [broadcast_to(x, shape) for x in start]
    return while_loop(goes_on, step, carries, (good, bad, drawn))[5]


def _log_binomial(n: Value, k: Value) -> Value:
    def log_factorial(x: Value) -> Value:
        return special.gammaln(x + 1)

    denominator = log_factorial(k) + log_factorial(n - k)
    return log_factorial(n) - denominator


def poisson(key: Value, shape: Shape, rate: Value) -> Value:
    """Draw integers of mean ``rate``, by `jax.random.poisson` for rates below 100,000.

    JAX's sampler computes in single precision: the standard deviation of 400,000 draws is off by
    0.5 % at a rate of 3e5, by 5 % at 3e6 and by 21 % at 1e8 (JAX 0.10.2). Larger rates use W.
    Hörmann's transformed rejection, PTRS (Insurance: Mathematics and Economics 12, 1993), in their
    own precision.
    """
    dtype = ew.canonical(np.int64)
    drawn = staged(Sampler(jax.random.poisson, shape, dtype), key, rate)[0]
    value = rate.static
    if value is not None and np.all(value < _LARGE_RATE):
        return drawn
    is_large = rate >= _LARGE_RATE
    large = ew.where(is_large, rate, np.nan)  # The loop does not wait for NaN.
    found = until_accepted(
        key, shape, rate.dtype, lambda k, x: _large_poisson(k, shape, x), (large,)
    )
    return ew.where(is_large, found.astype(dtype), drawn)


_LARGE_RATE = 1e5


def _large_poisson(key: Value, shape: Shape, rate: Value) -> tuple[Value, Value]:
    keys = random.split(key)
    u, v = (random.uniform(k, shape, rate.dtype) for k in keys)
    u = u - 0.5
    width = 0.931 + 2.53 * ew.sqrt(rate)
    slope = 0.02483 * width - 0.059
    rest = 0.5 - abs(u)
    k = ew.floor((2 * slope / rest + width) * u + rate + 0.43)
    bound = v * (1.1239 + 1.1328 / (width - 3.4)) / (slope / (rest * rest) + width)
    # The logarithm of the probability in terms of the distance from the rate: nothing cancels.
    distance = (k - rate) / rate
    size = ew.maximum(k, 1)
    exponent = rate * ((1 + distance) * ew.log1p(distance) - distance) + 1 / (12 * size)
    logarithm = -exponent - ew.log(2 * math.pi * size) / 2
    return k, (k > 0) & (ew.log(bound) <= logarithm)


def binomial(key: Value, shape: Shape, n: Value, p: Value) -> Value:
    """Draw the number of successes in ``n`` trials, by `jax.random.binomial`."""
    return staged(Sampler(jax.random.binomial, shape, p.dtype), key, n, p)[0]


def multinomial(key: Value, shape: Shape, n: Value, p: Value) -> Value:
    """Draw the number of occurrences of each outcome in ``n`` trials, by `jax.random.multinomial`.

    The last probability is 1 minus the sum of the others, as in NumPy.
    """
    others = sh.slice_axis(p, -1 % p.ndim, 0, p.shape[-1] - 1)
    rest = 1 - reduce.sum(others, (p.ndim - 1,))
    rest = sh.expand_dims(ew.maximum(rest, 0), [p.ndim - 1])
    p = sh.concatenate([others, rest], p.ndim - 1)
    # Versions of JAX disagree whether ``shape`` includes the last axis, so operands decide it.
    n, p = broadcast_to(n, shape[:-1]), broadcast_to(p, shape)
    return staged(Sampler(jax.random.multinomial, None, p.dtype), key, n, p)[0]


def nbinom(key: Value, shape: Shape, n: Value, p: Value) -> Value:
    """Draw the number of failures before ``n`` successes: Poisson draws with gamma rates."""
    key_rate, key_count = random.split(key)
    odds = (1 - p) / p
    rate = odds * random.gamma(key_rate, n, shape)
    return poisson(key_count, shape, rate)


def beta_binomial(key: Value, shape: Shape, n: Value, alpha: Value, other: Value) -> Value:
    """Draw binomially, with probabilities that are beta draws."""
    key_p, key_count = random.split(key)
    p = distributions.beta(key_p, shape, alpha, other)
    return binomial(key_count, shape, n, p)
