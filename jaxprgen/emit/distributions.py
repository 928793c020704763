"""Draws from distributions with parameters, by the names and parameters of SciPy or NumPy.

A function is called as ``draw(b, key, shape, *parameters)``: the parameters are floats of one
dtype, that of the result, and broadcast to ``shape``; the exceptions say so. Where `jax.random`
has the distribution, draws equal its own bit for bit, scaled and shifted if it lacks these
parameters; the others are exact transformations of such draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import gather, linalg, random, reduce
from jaxprgen.emit import shape as sh
from jaxprgen.emit.cumulative import cumsum
from jaxprgen.emit.decompositions import svd
from jaxprgen.emit.softmax import softmax
from jaxprgen.emit.sort import searchsorted
from jaxprgen.emit.values import (
    Shape,
    Value,
    atom,
    broadcast_to,
    dtype_of,
    elementwise,
    like,
    shape_of,
    splat_value,
)
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax

Draw = Callable[..., Value]


def _standard(draw: Callable[..., Value]) -> Draw:
    """A family of locations and scales, of standard draws."""

    def located(b: Builder, key: Var, shape: Shape, loc: Value, scale: Value) -> Value:
        drawn = ew.multiply(b, scale, draw(b, key, shape, dtype_of(scale)))
        return drawn if splat_value(loc) == 0 else ew.add(b, loc, drawn)

    return located


def _magnitude(draw: Callable[..., Value]) -> Callable[..., Value]:
    return lambda b, key, shape, dtype: ew.absolute(b, draw(b, key, shape, dtype))


normal = _standard(random.normal)
cauchy = _standard(random.cauchy)
gumbel = _standard(random.gumbel)
laplace = _standard(random.laplace)
logistic = _standard(random.logistic)
halfnormal = _standard(_magnitude(random.normal))
halfcauchy = _standard(_magnitude(random.cauchy))


def uniform(b: Builder, key: Var, shape: Shape, low: Value, high: Value) -> Value:
    """At least ``low`` and below ``high``."""
    return random.uniform(b, key, shape, dtype_of(low), low, high)


def exponential(b: Builder, key: Var, shape: Shape, scale: Value) -> Value:
    """Of mean ``scale``."""
    return ew.multiply(b, scale, random.exponential(b, key, shape, dtype_of(scale)))


def lognormal(b: Builder, key: Var, shape: Shape, mean: Value, sigma: Value) -> Value:
    """The exponential of normal draws."""
    return ew.exp(b, normal(b, key, shape, mean, sigma))


def triangular(b: Builder, key: Var, shape: Shape, left: Value, mode: Value, right: Value) -> Value:
    """By inversion."""
    u = random.uniform(b, key, shape, dtype_of(left))
    width, before = ew.subtract(b, right, left), ew.subtract(b, mode, left)
    behind = ew.subtract(b, right, mode)
    rest = ew.subtract(b, like(u, 1), u)
    rising = ew.sqrt(b, ew.multiply(b, ew.multiply(b, u, width), before))
    falling = ew.sqrt(b, ew.multiply(b, ew.multiply(b, rest, width), behind))
    is_before = ew.less(b, u, ew.divide(b, before, width))
    return ew.where(b, is_before, ew.add(b, left, rising), ew.subtract(b, right, falling))


def rayleigh(b: Builder, key: Var, shape: Shape, scale: Value) -> Value:
    """By inversion."""
    u = random.uniform(b, key, shape, dtype_of(scale))
    return ew.multiply(b, scale, ew.sqrt(b, ew.multiply(b, ew.log(b, u), like(u, -2))))


def weibull(b: Builder, key: Var, shape: Shape, concentration: Value) -> Value:
    """Of scale 1, by inversion; `jax.random.weibull_min`. As in NumPy, 0 is concentrated at 0."""
    drawn = random.exponential(b, key, shape, dtype_of(concentration))
    drawn = elementwise(b, lax.pow, drawn, ew.reciprocal(b, concentration))
    if splat_value(concentration):
        return drawn
    zero = like(concentration, 0)
    return ew.where(b, ew.equal(b, concentration, zero), zero, drawn)


def power(b: Builder, key: Var, shape: Shape, exponent: Value) -> Value:
    """With the density ``a * x**(a - 1)`` on the unit interval, by inversion."""
    drawn = random.exponential(b, key, shape, dtype_of(exponent))
    return ew.exp(b, ew.negative(b, ew.divide(b, drawn, exponent)))


def pareto(b: Builder, key: Var, shape: Shape, exponent: Value, scale: Value) -> Value:
    """At least ``scale``, by inversion."""
    drawn = random.exponential(b, key, shape, dtype_of(exponent))
    return ew.multiply(b, scale, ew.exp(b, ew.divide(b, drawn, exponent)))


def truncexpon(b: Builder, key: Var, shape: Shape, bound: Value, loc: Value, scale: Value) -> Value:
    """Exponential draws below ``bound``, then scaled and shifted; by inversion."""
    u = random.uniform(b, key, shape, dtype_of(bound))
    beyond = ew.expm1(b, ew.negative(b, bound))
    drawn = ew.negative(b, ew.log1p(b, ew.multiply(b, u, beyond)))
    return ew.add(b, loc, ew.multiply(b, scale, drawn))


# --- Of gamma draws -----------------------------------------------------------------------


def gamma(b: Builder, key: Var, shape: Shape, alpha: Value, scale: Value) -> Value:
    """Of mean ``alpha * scale``."""
    return ew.multiply(b, scale, random.gamma(b, key, alpha, shape))


def invgamma(b: Builder, key: Var, shape: Shape, alpha: Value, scale: Value) -> Value:
    """Reciprocals of gamma draws, from their logarithms, which do not underflow."""
    drawn = random.gamma(b, key, alpha, shape, log=True)
    return ew.multiply(b, scale, ew.exp(b, ew.negative(b, drawn)))


def gengamma(
    b: Builder, key: Var, shape: Shape, alpha: Value, exponent: Value, scale: Value
) -> Value:
    """Powers of gamma draws: the density falls as ``exp(-(x / scale)**exponent)``."""
    drawn = random.gamma(b, key, ew.divide(b, alpha, exponent), shape, log=True)
    return ew.multiply(b, scale, ew.exp(b, ew.divide(b, drawn, exponent)))


def chisquare(b: Builder, key: Var, shape: Shape, df: Value) -> Value:
    """Sums of ``df`` squared normal draws."""
    half = ew.divide(b, df, like(df, 2))
    drawn = random.gamma(b, key, half, shape, log=True)
    return ew.multiply(b, ew.exp(b, drawn), like(df, 2))


def f(b: Builder, key: Var, shape: Shape, df: Value, df_below: Value) -> Value:
    """Quotients of mean squares."""
    key_below, key_above = random.split(b, key)
    above = ew.divide(b, chisquare(b, key_above, shape, df), df)
    below = ew.divide(b, chisquare(b, key_below, shape, df_below), df_below)
    return ew.divide(b, above, below)


def t(b: Builder, key: Var, shape: Shape, df: Value, loc: Value, scale: Value) -> Value:
    """Student's."""
    key_above, key_below = random.split(b, key)
    above = random.normal(b, key_above, shape, dtype_of(df))
    half = ew.divide(b, df, like(df, 2))
    below = random.gamma(b, key_below, half, shape)
    drawn = ew.multiply(b, above, ew.sqrt(b, ew.divide(b, half, below)))
    return ew.add(b, loc, ew.multiply(b, scale, drawn))


def beta(b: Builder, key: Var, shape: Shape, alpha: Value, other: Value) -> Value:
    """The share of one gamma draw in two, from their logarithms."""
    logs = [
        random.gamma(b, k, a, shape, log=True)
        for k, a in zip(random.split(b, key), (alpha, other), strict=True)
    ]
    largest = ew.maximum(b, *logs)
    one, two = (ew.exp(b, ew.subtract(b, x, largest)) for x in logs)
    return ew.divide(b, one, ew.add(b, one, two))


def dirichlet(b: Builder, key: Var, shape: Shape, alphas: Value) -> Value:
    """Shares of gamma draws on the last axis, which is the last of ``shape``, too."""
    logs = random.gamma(b, key, alphas, shape, log=True)
    return softmax(b, logs, (len(shape) - 1,))


def wald(b: Builder, key: Var, shape: Shape, mean: Value, scale: Value) -> Value:
    """Inverse Gaussian draws, by Michael, Schucany and Haas (American Statistician 30, 1976)."""
    key_normal, key_uniform = random.split(b, key)
    mean = ew.divide(b, mean, scale)
    y = ew.square(b, random.normal(b, key_normal, shape, dtype_of(mean)))
    z = random.uniform(b, key_uniform, shape, dtype_of(mean))
    square, half = ew.square(b, mean), ew.divide(b, mean, like(mean, 2))
    root = ew.multiply(b, ew.multiply(b, like(mean, 4), mean), y)
    root = ew.sqrt(b, ew.add(b, root, ew.multiply(b, square, ew.square(b, y))))
    x = ew.add(b, mean, ew.divide(b, ew.multiply(b, square, y), like(mean, 2)))
    x = ew.subtract(b, x, ew.multiply(b, half, root))
    is_smaller = ew.less_equal(b, z, ew.divide(b, mean, ew.add(b, mean, x)))
    return ew.multiply(b, scale, ew.where(b, is_smaller, x, ew.divide(b, square, x)))


# --- Whole numbers ------------------------------------------------------------------------


def bernoulli(b: Builder, key: Var, shape: Shape, p: Value) -> Value:
    """True with probability ``p``."""
    return ew.less(b, random.uniform(b, key, shape, dtype_of(p)), p)


def geometric(b: Builder, key: Var, shape: Shape, p: Value) -> Value:
    """The number of trials up to the first success, as a float; by inversion."""
    u = random.uniform(b, key, shape, dtype_of(p))
    u = ew.where(b, ew.equal(b, u, like(u, 0)), like(u, 1), u)
    failures = ew.divide(b, ew.log(b, u), ew.log1p(b, ew.negative(b, p)))
    return ew.add(b, ew.floor(b, failures), like(u, 1))


def categorical(b: Builder, key: Var, shape: Shape, p: Value) -> Value:
    """Positions on the last axis of ``p``, drawn with these probabilities: int32 or int64."""
    count = shape_of(p)[-1]
    logits = ew.add(b, random.gumbel(b, key, (*shape, count), dtype_of(p)), ew.log(b, p))
    return reduce.argmax(b, logits, (len(shape),))


def choice(
    b: Builder, key: Var, shape: Shape, a: Value, p: Value | None, *, replace: bool
) -> Value:
    """Rows of ``a``, with probabilities ``p`` or all alike, with replacement or without.

    The draws of `jax.random.choice`: by inversion of the cumulative sum, or, without
    replacement, those with the largest of logarithms and Gumbel draws together.
    """
    population, count = shape_of(a)[0], math.prod(shape)
    if not replace and count > population:
        raise ShapeMismatchError(
            f"Cannot draw {count} of {population} rows without replacement: size is {shape}."
        )
    if p is None and not replace:
        return sh.reshape(b, sh.slice_axis(b, random.permutation(b, key, a), 0, 0, count), shape)
    if p is None:
        low, high = (np.asarray(n, ew.canonical(np.int64)) for n in (0, population))
        rows = random.randint(b, key, low, high, shape)
    elif replace:
        total = cumsum(b, p, 0)
        last = sh.reshape(b, sh.slice_axis(b, total, 0, population - 1, population), ())
        u = random.uniform(b, key, shape, dtype_of(p))
        r = ew.multiply(b, last, ew.subtract(b, like(u, 1), u))
        rows = searchsorted(b, total, r, right=False)
    else:
        logits = ew.add(b, random.gumbel(b, key, shape_of(p), dtype_of(p)), ew.log(b, p))
        rows = sh.reshape(b, lax.top_k(b, atom(b, logits), count)[1], shape)
    return gather.take(b, a, [rows])


# --- Vectors ------------------------------------------------------------------------------


def multivariate_normal(b: Builder, key: Var, shape: Shape, mean: Value, cov: Value) -> Value:
    """Normal draws with a covariance, which may be singular; ``shape`` ends with their length.

    With the square root that JAX's ``method="svd"`` takes.
    """
    u, s, _ = svd(b, cov, full_matrices=True)
    factor = ew.multiply(b, u, sh.expand_dims(b, ew.sqrt(b, s), (len(shape_of(s)) - 1,)))
    drawn = random.normal(b, key, shape, dtype_of(mean))
    factor = broadcast_to(b, factor, (*shape, shape[-1]))
    rank = len(shape)
    product = linalg.contract(b, factor, drawn, (rank, rank - 1), rank - 1)
    return ew.add(b, mean, product)
