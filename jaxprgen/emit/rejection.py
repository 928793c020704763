"""Draws that take an unknown number of steps.

Called as the functions of `jaxprgen.emit.distributions`. Loops go on until the last element has
its draw; elements that have one keep it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import numpy as np

from jaxprgen.emit import distributions, random, reduce
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import shape as sh
from jaxprgen.emit import transcendental as special
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.staged import Sampler, staged
from jaxprgen.emit.values import BOOL, Dtype, Shape, Value, broadcast_to, full


def until_accepted(
    key: Value,
    shape: Shape,
    dtype: Dtype,
    propose: Callable[..., tuple[Value, Value]],
    parameters: tuple[Value, ...],
) -> Value:
    """Proposals of ``propose(key, *parameters)``, each with whether it is accepted.

    NaN is drawn where a parameter is NaN: no proposal would be accepted.
    """

    def goes_on(key: Value, drawn: Value, done: Value, *_: Value) -> Value:
        return ~reduce.bitwise_and(done, tuple(range(len(shape))))

    def step(key: Value, drawn: Value, done: Value, *ps: Value) -> list[Value]:
        key, subkey = random.split(key)
        proposal, accepted = propose(subkey, *ps)
        drawn = ew.where(done, drawn, proposal)
        return [key, drawn, done | accepted, *ps]

    start = [full(shape, np.nan, dtype), full(shape, False, BOOL)]
    for p in parameters:
        if p.static is None:
            start[1] = start[1] | broadcast_to(ew.isnan(p), shape)
    return while_loop(goes_on, step, [key, *start, *(broadcast_to(p, shape) for p in parameters)])[
        1
    ]


def zipf(key: Value, shape: Shape, exponent: Value) -> Value:
    """Whole numbers ``k`` with probabilities that fall as ``k**-exponent``, as floats.

    By Devroye (Non-Uniform Random Variate Generation, 1986, X.6.1). Numbers beyond int64 are
    drawn anew, as in NumPy.
    """
    dtype = exponent.dtype
    largest = 2.0 ** (ew.canonical(np.int64).itemsize * 8 - 1)

    def propose(key: Value, a: Value) -> tuple[Value, Value]:
        key_x, key_v = random.split(key)
        # The exponential of an exponential draw over a - 1 is u ** (-1 / (a - 1)).
        less = a - 1
        x = ew.floor(ew.exp(random.exponential(key_x, shape, dtype) / less))
        v = random.uniform(key_v, shape, dtype)
        log_t = less * ew.log1p(1 / x)
        log_b = less * math.log(2)
        # v x (t - 1) / (b - 1) <= t / b, times (b - 1) / t, for neither overflows so.
        rest_t, rest_b = (ew.expm1(-log) for log in (log_t, log_b))
        left = v * x * rest_t
        accepted = left >= rest_b
        return x, accepted & (x < largest)

    return until_accepted(key, shape, dtype, propose, (exponent,))


def vonmises(key: Value, shape: Shape, mu: Value, kappa: Value) -> Value:
    """Angles from -pi to pi around ``mu``, concentrated by ``kappa``.

    By Best and Fisher (Applied Statistics 28, 1979), written for the sine of half the angle, so
    that nothing cancels for large ``kappa``: no normal approximation is needed.
    """
    dtype = kappa.dtype
    kappa = ew.minimum(kappa, np.finfo(dtype).max / 4)  # Of infinity, nothing is 0.
    key_angle, key_sign = random.split(key)

    def propose(key: Value, kappa: Value) -> tuple[Value, Value]:
        key_z, key_u = random.split(key)
        twice = 2 * kappa
        root = ew.sqrt(1 + ew.square(twice))
        excess = 1 + 1 / (root + twice)  # tau - 2 kappa
        turn = random.uniform(key_z, shape, dtype)
        half = turn * (math.pi / 2)
        versine = 2 * ew.square(ew.sin(half))  # 1 - z
        vercosine = 2 * ew.square(ew.cos(half))  # 1 + z
        below = excess + twice * vercosine
        w = excess * versine / below  # 1 - cos(angle)
        gap = excess / 2 + kappa * w
        u = random.uniform(key_u, shape, dtype)
        bound = ew.log(gap) + 1 - gap
        return w, ew.log(u) <= bound

    w = until_accepted(key_angle, shape, dtype, propose, (kappa,))
    half = ew.arcsin(ew.sqrt(w / 2))
    angle = 2 * half
    positive = random.uniform(key_sign, shape, dtype) < 0.5
    angle = mu + ew.where(positive, angle, -angle)
    turn = angle.like(2 * math.pi)
    return angle - turn * ew.round_half_to_even(angle / turn)


# --- Whole numbers, as floats if nothing else is said -------------------------------------


def hypergeometric(key: Value, shape: Shape, good: Value, bad: Value, drawn: Value) -> Value:
    """The number of good ones among ``drawn`` of both.

    By inversion, searched outwards from the mode (Kachitvichyanukul and Schmeiser, Journal of
    Statistical Computation and Simulation 22, 1985).
    """
    good, bad, drawn = (broadcast_to(x, shape) for x in (good, bad, drawn))
    one, two = good.like(1), good.like(2)
    total = good + bad
    mode = (drawn + one) * (good + one)
    mode = ew.floor(mode / (total + two))
    probability = _log_binomial(good, mode)
    probability = probability + _log_binomial(bad, drawn - mode)
    probability = ew.exp(probability - _log_binomial(total, drawn))
    u = random.uniform(key, shape, mode.dtype)

    def goes_on(up: Value, p: Value, down: Value, q: Value, *others: Value) -> Value:
        rest = others[0]
        is_open = rest >= rest.like(0)
        reachable = p + q > p.like(0)
        return reduce.bitwise_or(is_open & reachable, tuple(range(len(shape))))

    def step(*carries: Value) -> list[Value]:
        up, p, down, q, rest, found, good, bad, drawn = carries
        spare = bad - drawn
        for_up = (good - up) * (drawn - up)
        up = up + one
        p = p * (for_up / (up * (spare + up)))
        for_down = down * (spare + down)
        down = down - one
        below = (good - down) * (drawn - down)
        q = q * (for_down / below)
        for value, weight in ((up, p), (down, q)):
            is_open = rest >= rest.like(0)
            rest = rest - ew.where(is_open, weight, weight.like(0))
            hit = is_open & (rest < rest.like(0))
            found = ew.where(hit, value, found)
        return [up, p, down, q, rest, found, good, bad, drawn]

    rest = u - probability
    start = [mode, probability, mode, probability, rest, mode, good, bad, drawn]
    return while_loop(goes_on, step, [broadcast_to(x, shape) for x in start])[5]


def _log_binomial(n: Value, k: Value) -> Value:
    def log_factorial(x: Value) -> Value:
        return special.gammaln(x + 1)

    chosen = log_factorial(k) + log_factorial(n - k)
    return log_factorial(n) - chosen


def poisson(key: Value, shape: Shape, rate: Value) -> Value:
    """Integers of mean ``rate``, by `jax.random.poisson` for rates below 100,000.

    That computes in single precision: 400,000 of its draws have a standard deviation that is off
    by 0.5 % at 3e5, by 5 % at 3e6 and by 21 % at 1e8 (JAX 0.10.2). Others are drawn by Hörmann's
    transformed rejection, PTRS (Insurance: Mathematics and Economics 12, 1993), in the precision
    of the rate.
    """
    dtype = ew.canonical(np.int64)
    drawn = staged(Sampler(jax.random.poisson, shape, dtype), key, rate)[0]
    value = rate.static
    if value is not None and np.all(value < _LARGE_RATE):
        return drawn
    is_large = rate >= _LARGE_RATE
    large = ew.where(is_large, rate, np.nan)  # None of the others is drawn anew.
    found = until_accepted(
        key, shape, rate.dtype, lambda k, x: _large_poisson(k, shape, x), (large,)
    )
    return ew.where(is_large, found.astype(dtype), drawn)


_LARGE_RATE = 1e5


def _large_poisson(key: Value, shape: Shape, rate: Value) -> tuple[Value, Value]:
    keys = random.split(key)
    u, v = (random.uniform(k, shape, rate.dtype) for k in keys)
    rate_ = rate
    u = u - 0.5
    width = 0.931 + 2.53 * ew.sqrt(rate_)
    slope = 0.02483 * width - 0.059
    rest = 0.5 - abs(u)
    k = ew.floor((2 * slope / rest + width) * u + rate_ + 0.43)
    bound = v * (1.1239 + 1.1328 / (width - 3.4)) / (slope / (rest * rest) + width)
    # The logarithm of the probability, by the distance from the rate: nothing large cancels.
    distance = (k - rate_) / rate_
    size = ew.maximum(k, 1)
    exponent = rate_ * ((1 + distance) * ew.log1p(distance) - distance) + 1 / (12 * size)
    logarithm = -exponent - ew.log(2 * math.pi * size) / 2
    return k, (k > 0) & (ew.log(bound) <= logarithm)


def binomial(key: Value, shape: Shape, n: Value, p: Value) -> Value:
    """The number of successes in ``n`` trials, by `jax.random.binomial`."""
    return staged(Sampler(jax.random.binomial, shape, p.dtype), key, n, p)[0]


def multinomial(key: Value, shape: Shape, n: Value, p: Value) -> Value:
    """How often each of ``p`` comes in ``n`` trials, by `jax.random.multinomial`.

    The last of ``p`` is what the others leave of 1, as in NumPy.
    """
    others = sh.slice_axis(p, -1 % p.ndim, 0, p.shape[-1] - 1)
    rest = 1 - reduce.sum(others, (p.ndim - 1,))
    rest = sh.expand_dims(ew.maximum(rest, 0), [p.ndim - 1])
    p = sh.concatenate([others, rest], p.ndim - 1)
    # JAX's ``shape`` is with the last axis or without, by version: the operands say it all.
    n, p = broadcast_to(n, shape[:-1]), broadcast_to(p, shape)
    return staged(Sampler(jax.random.multinomial, None, p.dtype), key, n, p)[0]


def nbinom(key: Value, shape: Shape, n: Value, p: Value) -> Value:
    """Failures before ``n`` successes: Poisson draws whose rates are gamma draws."""
    key_rate, key_count = random.split(key)
    odds = (1 - p) / p
    rate = odds * random.gamma(key_rate, n, shape)
    return poisson(key_count, shape, rate)


def beta_binomial(key: Value, shape: Shape, n: Value, alpha: Value, other: Value) -> Value:
    """Binomial draws whose probabilities are beta draws."""
    key_p, key_count = random.split(key)
    p = distributions.beta(key_p, shape, alpha, other)
    return binomial(key_count, shape, n, p)
