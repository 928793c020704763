"""Draws that take an unknown number of steps.

Called as the functions of `jaxprgen.emit.distributions`. Loops go on until the last element has
its draw; elements that have one keep it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit import distributions, random, reduce
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import expression as fx
from jaxprgen.emit import shape as sh
from jaxprgen.emit import transcendental as special
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.expression import Expression
from jaxprgen.emit.staged import Sampler, staged
from jaxprgen.emit.values import (
    BOOL,
    Dtype,
    Shape,
    Value,
    broadcast_to,
    dtype_of,
    known,
    like,
    shape_of,
    splat,
)
from jaxprgen.ir import Builder


def until_accepted(
    b: Builder,
    key: Var,
    shape: Shape,
    dtype: Dtype,
    propose: Callable[..., tuple[Value, Value]],
    parameters: tuple[Value, ...],
) -> Value:
    """Proposals of ``propose(b, key, *parameters)``, each with whether it is accepted.

    NaN is drawn where a parameter is NaN: no proposal would be accepted.
    """

    def goes_on(c: Builder, key: Any, drawn: Value, done: Value, *_: Value) -> Value:
        return ew.invert(c, reduce.bitwise_and(c, done, tuple(range(len(shape)))))

    def step(c: Builder, key: Any, drawn: Value, done: Value, *ps: Value) -> list[Value]:
        key, subkey = random.split(c, key)
        proposal, accepted = propose(c, subkey, *ps)
        drawn = ew.where(c, done, drawn, proposal)
        return [key, drawn, ew.bitwise_or(c, done, accepted), *ps]

    full = [broadcast_to(b, p, shape) for p in parameters]
    start = [splat(np.nan, dtype, shape), splat(False, BOOL, shape)]
    for p in parameters:
        if known(p) is None:
            start[1] = ew.bitwise_or(b, start[1], broadcast_to(b, ew.isnan(b, p), shape))
    return while_loop(b, goes_on, step, [key, *start, *full])[1]


def zipf(b: Builder, key: Var, shape: Shape, exponent: Value) -> Value:
    """Whole numbers ``k`` with probabilities that fall as ``k**-exponent``, as floats.

    By Devroye (Non-Uniform Random Variate Generation, 1986, X.6.1). Numbers beyond int64 are
    drawn anew, as in NumPy.
    """
    dtype = dtype_of(exponent)
    largest = 2.0 ** (ew.canonical(np.int64).itemsize * 8 - 1)

    def propose(c: Builder, key: Var, a: Value) -> tuple[Value, Value]:
        one = like(a, 1)
        key_x, key_v = random.split(c, key)
        # The exponential of an exponential draw over a - 1 is u ** (-1 / (a - 1)).
        less = ew.subtract(c, a, one)
        x = ew.exp(c, ew.divide(c, random.exponential(c, key_x, shape, dtype), less))
        x = ew.floor(c, x)
        v = random.uniform(c, key_v, shape, dtype)
        log_t = ew.multiply(c, less, ew.log1p(c, ew.reciprocal(c, x)))
        log_b = ew.multiply(c, less, like(a, math.log(2)))
        # v x (t - 1) / (b - 1) <= t / b, times (b - 1) / t, for neither overflows so.
        rest_t, rest_b = (ew.expm1(c, ew.negative(c, log)) for log in (log_t, log_b))
        left = ew.multiply(c, ew.multiply(c, v, x), rest_t)
        accepted = ew.greater_equal(c, left, rest_b)
        return x, ew.bitwise_and(c, accepted, ew.less(c, x, like(x, largest)))

    return until_accepted(b, key, shape, dtype, propose, (exponent,))


def vonmises(b: Builder, key: Var, shape: Shape, mu: Value, kappa: Value) -> Value:
    """Angles from -pi to pi around ``mu``, concentrated by ``kappa``.

    By Best and Fisher (Applied Statistics 28, 1979), written for the sine of half the angle, so
    that nothing cancels for large ``kappa``: no normal approximation is needed.
    """
    dtype = dtype_of(kappa)
    kappa = ew.minimum(b, kappa, like(kappa, np.finfo(dtype).max / 4))  # Of infinity, nothing is 0.
    key_angle, key_sign = random.split(b, key)

    def propose(c: Builder, key: Var, kappa: Value) -> tuple[Value, Value]:
        two, one = like(kappa, 2), like(kappa, 1)
        key_z, key_u = random.split(c, key)
        twice = ew.multiply(c, two, kappa)
        root = ew.sqrt(c, ew.add(c, one, ew.square(c, twice)))
        excess = ew.add(c, one, ew.reciprocal(c, ew.add(c, root, twice)))  # tau - 2 kappa
        turn = random.uniform(c, key_z, shape, dtype)
        half = ew.multiply(c, turn, like(kappa, math.pi / 2))
        versine = ew.multiply(c, two, ew.square(c, ew.sin(c, half)))  # 1 - z
        vercosine = ew.multiply(c, two, ew.square(c, ew.cos(c, half)))  # 1 + z
        below = ew.add(c, excess, ew.multiply(c, twice, vercosine))
        w = ew.divide(c, ew.multiply(c, excess, versine), below)  # 1 - cos(angle)
        gap = ew.add(c, ew.divide(c, excess, two), ew.multiply(c, kappa, w))
        u = random.uniform(c, key_u, shape, dtype)
        bound = ew.subtract(c, ew.add(c, ew.log(c, gap), one), gap)
        return w, ew.less_equal(c, ew.log(c, u), bound)

    w = until_accepted(b, key_angle, shape, dtype, propose, (kappa,))
    half = ew.arcsin(b, ew.sqrt(b, ew.divide(b, w, like(w, 2))))
    angle = ew.multiply(b, like(half, 2), half)
    positive = ew.less(b, random.uniform(b, key_sign, shape, dtype), like(half, 0.5))
    angle = ew.add(b, mu, ew.where(b, positive, angle, ew.negative(b, angle)))
    turn = like(angle, 2 * math.pi)
    return ew.subtract(
        b, angle, ew.multiply(b, turn, ew.round_half_to_even(b, ew.divide(b, angle, turn)))
    )


# --- Whole numbers, as floats if nothing else is said -------------------------------------


def hypergeometric(
    b: Builder, key: Var, shape: Shape, good: Value, bad: Value, drawn: Value
) -> Value:
    """The number of good ones among ``drawn`` of both.

    By inversion, searched outwards from the mode (Kachitvichyanukul and Schmeiser, Journal of
    Statistical Computation and Simulation 22, 1985).
    """
    good, bad, drawn = (broadcast_to(b, x, shape) for x in (good, bad, drawn))
    one, two = like(good, 1), like(good, 2)
    total = ew.add(b, good, bad)
    mode = ew.multiply(b, ew.add(b, drawn, one), ew.add(b, good, one))
    mode = ew.floor(b, ew.divide(b, mode, ew.add(b, total, two)))
    probability = _log_binomial(b, good, mode)
    probability = ew.add(b, probability, _log_binomial(b, bad, ew.subtract(b, drawn, mode)))
    probability = ew.exp(b, ew.subtract(b, probability, _log_binomial(b, total, drawn)))
    u = random.uniform(b, key, shape, dtype_of(mode))

    def goes_on(c: Builder, up: Value, p: Value, down: Value, q: Value, *others: Value) -> Value:
        rest = others[0]
        is_open = ew.greater_equal(c, rest, like(rest, 0))
        reachable = ew.greater(c, ew.add(c, p, q), like(p, 0))
        return reduce.bitwise_or(c, ew.bitwise_and(c, is_open, reachable), tuple(range(len(shape))))

    def step(c: Builder, *carries: Value) -> list[Value]:
        up, p, down, q, rest, found, good, bad, drawn = carries
        spare = ew.subtract(c, bad, drawn)
        for_up = ew.multiply(c, ew.subtract(c, good, up), ew.subtract(c, drawn, up))
        up = ew.add(c, up, one)
        p = ew.multiply(c, p, ew.divide(c, for_up, ew.multiply(c, up, ew.add(c, spare, up))))
        for_down = ew.multiply(c, down, ew.add(c, spare, down))
        down = ew.subtract(c, down, one)
        below = ew.multiply(c, ew.subtract(c, good, down), ew.subtract(c, drawn, down))
        q = ew.multiply(c, q, ew.divide(c, for_down, below))
        for value, weight in ((up, p), (down, q)):
            is_open = ew.greater_equal(c, rest, like(rest, 0))
            rest = ew.subtract(c, rest, ew.where(c, is_open, weight, like(weight, 0)))
            hit = ew.bitwise_and(c, is_open, ew.less(c, rest, like(rest, 0)))
            found = ew.where(c, hit, value, found)
        return [up, p, down, q, rest, found, good, bad, drawn]

    rest = ew.subtract(b, u, probability)
    start = [mode, probability, mode, probability, rest, mode, good, bad, drawn]
    return while_loop(b, goes_on, step, [broadcast_to(b, x, shape) for x in start])[5]


def _log_binomial(b: Builder, n: Value, k: Value) -> Value:
    def log_factorial(x: Value) -> Value:
        return special.gammaln(b, ew.add(b, x, like(x, 1)))

    chosen = ew.add(b, log_factorial(k), log_factorial(ew.subtract(b, n, k)))
    return ew.subtract(b, log_factorial(n), chosen)


def poisson(b: Builder, key: Var, shape: Shape, rate: Value) -> Value:
    """Integers of mean ``rate``, by `jax.random.poisson` for rates below 100,000.

    That computes in single precision: 400,000 of its draws have a standard deviation that is off
    by 0.5 % at 3e5, by 5 % at 3e6 and by 21 % at 1e8 (JAX 0.10.2). Others are drawn by Hörmann's
    transformed rejection, PTRS (Insurance: Mathematics and Economics 12, 1993), in the precision
    of the rate.
    """
    dtype = ew.canonical(np.int64)
    drawn = staged(b, Sampler(jax.random.poisson, shape, dtype), key, rate)[0]
    value = known(rate)
    if value is not None and np.all(value < _LARGE_RATE):
        return drawn
    is_large = ew.greater_equal(b, rate, like(rate, _LARGE_RATE))
    large = ew.where(b, is_large, rate, like(rate, np.nan))  # None of the others is drawn anew.
    found = until_accepted(
        b, key, shape, dtype_of(rate), lambda c, k, x: _large_poisson(c, k, shape, x), (large,)
    )
    return ew.where(b, is_large, ew.convert(b, found, dtype), drawn)


_LARGE_RATE = 1e5


def _large_poisson(c: Builder, key: Var, shape: Shape, rate: Value) -> tuple[Value, Value]:
    keys = random.split(c, key)
    u, v = (Expression(c, random.uniform(c, k, shape, dtype_of(rate))) for k in keys)
    rate_ = Expression(c, rate)
    u = u - 0.5
    width = 0.931 + 2.53 * fx.sqrt(rate_)
    slope = 0.02483 * width - 0.059
    rest = 0.5 - abs(u)
    k = fx.floor((2 * slope / rest + width) * u + rate_ + 0.43)
    bound = v * (1.1239 + 1.1328 / (width - 3.4)) / (slope / (rest * rest) + width)
    # The logarithm of the probability, by the distance from the rate: nothing large cancels.
    distance = (k - rate_) / rate_
    size = fx.maximum(k, 1)
    exponent = rate_ * ((1 + distance) * fx.log1p(distance) - distance) + 1 / (12 * size)
    logarithm = -exponent - fx.log(2 * math.pi * size) / 2
    return k.value, ((k > 0) & (fx.log(bound) <= logarithm)).value


def binomial(b: Builder, key: Var, shape: Shape, n: Value, p: Value) -> Value:
    """The number of successes in ``n`` trials, by `jax.random.binomial`."""
    return staged(b, Sampler(jax.random.binomial, shape, dtype_of(p)), key, n, p)[0]


def multinomial(b: Builder, key: Var, shape: Shape, n: Value, p: Value) -> Value:
    """How often each of ``p`` comes in ``n`` trials, by `jax.random.multinomial`.

    The last of ``p`` is what the others leave of 1, as in NumPy.
    """
    others = sh.slice_axis(b, p, -1 % len(shape_of(p)), 0, shape_of(p)[-1] - 1)
    rest = ew.subtract(b, like(p, 1), reduce.sum(b, others, (len(shape_of(p)) - 1,)))
    rest = sh.expand_dims(b, ew.maximum(b, rest, like(p, 0)), [len(shape_of(p)) - 1])
    p = sh.concatenate(b, [others, rest], len(shape_of(p)) - 1)
    # JAX's ``shape`` is with the last axis or without, by version: the operands say it all.
    n, p = broadcast_to(b, n, shape[:-1]), broadcast_to(b, p, shape)
    return staged(b, Sampler(jax.random.multinomial, None, dtype_of(p)), key, n, p)[0]


def nbinom(b: Builder, key: Var, shape: Shape, n: Value, p: Value) -> Value:
    """Failures before ``n`` successes: Poisson draws whose rates are gamma draws."""
    key_rate, key_count = random.split(b, key)
    odds = ew.divide(b, ew.subtract(b, like(p, 1), p), p)
    rate = ew.multiply(b, odds, random.gamma(b, key_rate, n, shape))
    return poisson(b, key_count, shape, rate)


def beta_binomial(
    b: Builder, key: Var, shape: Shape, n: Value, alpha: Value, other: Value
) -> Value:
    """Binomial draws whose probabilities are beta draws."""
    key_p, key_count = random.split(b, key)
    p = distributions.beta(b, key_p, shape, alpha, other)
    return binomial(b, key_count, shape, n, p)
