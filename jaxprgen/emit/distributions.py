"""Draws from distributions, with the names and parameters of SciPy or NumPy.

Every function is called as ``draw(key, shape, *parameters)``. The parameters are floats of one
dtype, which is the dtype of the result, and broadcast to ``shape``; docstrings say where they do
not. Where `jax.random` has the distribution, draws equal its draws bit for bit, scaled and shifted
if it lacks these parameters. Other draws are exact transformations of such draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from jaxprgen.emit import (
    elementwise as ew,
    gather,
    linalg,
    primitives as lax,
    random,
    reduce,
    shape as sh,
)
from jaxprgen.emit.create import count_along
from jaxprgen.emit.decompositions import svd
from jaxprgen.emit.reduce import cumsum
from jaxprgen.emit.sizes import require_at_least
from jaxprgen.emit.softmax import softmax
from jaxprgen.emit.sort import first_largest, searchsorted
from jaxprgen.emit.values import Shape, Size, Value, broadcast_to, full

Draw = Callable[..., Value]


def _standard(draw: Callable[..., Value]) -> Draw:
    """Make a family with location and scale of a function of standard draws."""

    def located(key: Value, shape: Shape, loc: Value, scale: Value) -> Value:
        drawn = scale * draw(key, shape, scale.dtype)
        return drawn if loc.fill_value == 0 else loc + drawn

    return located


def _magnitude(draw: Callable[..., Value]) -> Callable[..., Value]:
    return lambda key, shape, dtype: abs(draw(key, shape, dtype))


normal = _standard(random.normal)
cauchy = _standard(random.cauchy)
gumbel = _standard(random.gumbel)
laplace = _standard(random.laplace)
logistic = _standard(random.logistic)
halfnormal = _standard(_magnitude(random.normal))
halfcauchy = _standard(_magnitude(random.cauchy))


def uniform(key: Value, shape: Shape, low: Value, high: Value) -> Value:
    """Draw uniformly, at least ``low`` and below ``high``."""
    return random.uniform(key, shape, low.dtype, low, high)


def exponential(key: Value, shape: Shape, scale: Value) -> Value:
    """Draw with mean ``scale``."""
    return scale * random.exponential(key, shape, scale.dtype)


def lognormal(key: Value, shape: Shape, mean: Value, sigma: Value) -> Value:
    """Return the exponential of normal draws."""
    return ew.exp(normal(key, shape, mean, sigma))


def triangular(key: Value, shape: Shape, left: Value, mode: Value, right: Value) -> Value:
    """Draw by inversion."""
    u = random.uniform(key, shape, left.dtype)
    width, below, above = right - left, mode - left, right - mode
    rising = left + ew.sqrt(u * width * below)
    falling = right - ew.sqrt((1 - u) * width * above)
    return ew.where(u < below / width, rising, falling)


def rayleigh(key: Value, shape: Shape, scale: Value) -> Value:
    """Draw by inversion."""
    u = random.uniform(key, shape, scale.dtype)
    return scale * ew.sqrt(ew.log(u) * -2)


def weibull(key: Value, shape: Shape, concentration: Value) -> Value:
    """Draw with scale 1, as `jax.random.weibull_min`; concentration 0 gives 0, as in NumPy."""
    drawn = random.exponential(key, shape, concentration.dtype)
    drawn = lax.pow(drawn, 1 / concentration)
    if concentration.fill_value:
        return drawn
    return ew.where(ew.equal(concentration, 0), 0, drawn)


def power(key: Value, shape: Shape, exponent: Value) -> Value:
    """Draw with density ``a * x**(a - 1)`` on the unit interval, by inversion."""
    drawn = random.exponential(key, shape, exponent.dtype)
    return ew.exp(-(drawn / exponent))


def pareto(key: Value, shape: Shape, exponent: Value, scale: Value) -> Value:
    """Draw values of at least ``scale``, by inversion."""
    drawn = random.exponential(key, shape, exponent.dtype)
    return scale * ew.exp(drawn / exponent)


def truncexpon(key: Value, shape: Shape, bound: Value, loc: Value, scale: Value) -> Value:
    """Draw exponentially below ``bound``, then scale and shift; by inversion."""
    u = random.uniform(key, shape, bound.dtype)
    return loc + scale * -ew.log1p(u * ew.expm1(-bound))


# --- Functions of gamma draws -------------------------------------------------------------


def gamma(key: Value, shape: Shape, alpha: Value, scale: Value) -> Value:
    """Draw with mean ``alpha * scale``."""
    return scale * random.gamma(key, alpha, shape)


def invgamma(key: Value, shape: Shape, alpha: Value, scale: Value) -> Value:
    """Return reciprocals of gamma draws, from their logarithms, which do not underflow."""
    drawn = random.gamma(key, alpha, shape, log=True)
    return scale * ew.exp(-drawn)


def gengamma(key: Value, shape: Shape, alpha: Value, exponent: Value, scale: Value) -> Value:
    """Return powers of gamma draws: the density falls as ``exp(-(x / scale)**exponent)``."""
    drawn = random.gamma(key, alpha / exponent, shape, log=True)
    return scale * ew.exp(drawn / exponent)


def chisquare(key: Value, shape: Shape, df: Value) -> Value:
    """Return sums of ``df`` squared normal draws."""
    return ew.exp(random.gamma(key, df / 2, shape, log=True)) * 2


def f(key: Value, shape: Shape, df: Value, df_below: Value) -> Value:
    """Return ratios of two mean squares."""
    key_below, key_above = random.split(key)
    above = chisquare(key_above, shape, df) / df
    below = chisquare(key_below, shape, df_below) / df_below
    return above / below


def t(key: Value, shape: Shape, df: Value, loc: Value, scale: Value) -> Value:
    """Draw from Student's t distribution."""
    key_above, key_below = random.split(key)
    above = random.normal(key_above, shape, df.dtype)
    half = df / 2
    below = random.gamma(key_below, half, shape)
    return loc + scale * (above * ew.sqrt(half / below))


def beta(key: Value, shape: Shape, alpha: Value, other: Value) -> Value:
    """Return the share of one gamma draw in two, from their logarithms."""
    logs = [
        random.gamma(k, a, shape, log=True)
        for k, a in zip(random.split(key), (alpha, other), strict=True)
    ]
    largest = ew.maximum(*logs)
    one, two = (ew.exp(x - largest) for x in logs)
    return one / (one + two)


def dirichlet(key: Value, shape: Shape, alphas: Value) -> Value:
    """Return shares of gamma draws along the last axis of ``alphas`` and of ``shape``."""
    logs = random.gamma(key, alphas, shape, log=True)
    return softmax(logs, (len(shape) - 1,))


def wald(key: Value, shape: Shape, mean: Value, scale: Value) -> Value:
    """Draw from the inverse Gaussian distribution.

    J. R. Michael, W. R. Schucany and R. W. Haas, *Generating random variates using transformations
    with multiple roots*, American Statistician 30 (1976).
    """
    key_normal, key_uniform = random.split(key)
    mean = mean / scale
    y = ew.square(random.normal(key_normal, shape, mean.dtype))
    z = random.uniform(key_uniform, shape, mean.dtype)
    square, half = ew.square(mean), mean / 2
    root = ew.sqrt(4 * mean * y + square * ew.square(y))
    x = mean + square * y / 2 - half * root
    is_smaller = z <= mean / (mean + x)
    return scale * ew.where(is_smaller, x, square / x)


# --- Whole numbers ------------------------------------------------------------------------


def bernoulli(key: Value, shape: Shape, p: Value) -> Value:
    """Draw True with probability ``p``."""
    return random.uniform(key, shape, p.dtype) < p


def geometric(key: Value, shape: Shape, p: Value) -> Value:
    """Draw the number of trials up to the first success, as a float, by inversion."""
    u = random.uniform(key, shape, p.dtype)
    u = ew.where(ew.equal(u, 0), 1, u)
    return ew.floor(ew.log(u) / ew.log1p(-p)) + 1


def categorical(key: Value, shape: Shape, p: Value) -> Value:
    """Draw positions on the last axis of ``p``, with these probabilities: int32 or int64."""
    count = p.shape[-1]
    logits = random.gumbel(key, (*shape, count), p.dtype) + ew.log(p)
    return reduce.argmax(logits, (len(shape),))


def choice(key: Value, shape: Shape, a: Value, p: Value | None, *, replace: bool) -> Value:
    """Draw rows of ``a``, as `jax.random.choice`.

    With replacement it inverts the cumulative sum of ``p``. Without, it takes the rows with the
    largest sums of log-probability and a Gumbel draw.

    Parameters
    ----------
    key, shape
        The key and the shape of the draws.
    a
        The array whose rows are drawn.
    p : (rows,) float
        The probabilities, or None for equal ones.
    replace
        Whether a row may be drawn again.

    Raises
    ------
    ShapeMismatchError
        More rows are asked for than there are, without replacement.
    """
    population, count = a.shape[0], math.prod(shape)
    if not replace:
        text = f"Cannot draw {count} of {population} rows without replacement: size is {shape}."
        require_at_least(population, count, text)
    if p is None and not replace:
        rows = sh.slice_axis(random.permutation(key, a), 0, 0, count)
        return sh.reshape(rows, (*shape, *a.shape[1:]))
    if p is None:
        low, high = (full((), n, ew.canonical(np.int64)) for n in (0, population))
        rows = random.randint(key, low, high, shape)
    elif replace:
        total = cumsum(p, 0)
        last = sh.reshape(sh.slice_axis(total, 0, population - 1, population), ())
        u = random.uniform(key, shape, p.dtype)
        rows = searchsorted(total, last * (1 - u), right=False)
    else:
        logits = random.gumbel(key, p.shape, p.dtype) + ew.log(p)
        rows = sh.reshape(first_largest(logits, count)[1], shape)
    return gather.take(a, [rows])


def rows_without_replacement(
    key: Value, batch: Shape, p: Value | None, population: Size, count: Size
) -> Value:
    """Draw positions of rows, for every index of a batch on its own, without replacement.

    Parameters
    ----------
    key, batch
        The key and the shape of the batch.
    p : (..., population) float
        The probabilities, which broadcast to the batch, or None for equal ones. Every next row is
        drawn with probabilities in proportion to those of the rows that are left.
    population, count
        The number of rows, and how many of them are drawn.

    Returns
    -------
    (*batch, count) int32 or int64

    Raises
    ------
    ShapeMismatchError
        More rows are asked for than there are.
    """
    text = f"Cannot draw {count} of {population} rows without replacement."
    require_at_least(population, count, text)
    shape = (*batch, population)
    if p is None:
        positions = random.permuted_positions(key, shape)
        return sh.slice_axis(positions, len(batch), 0, count)
    logits = random.gumbel(key, shape, p.dtype) + ew.log(p)
    return first_largest(logits, count)[1]


def take_rows(x: Value, rows: Value, batch: Shape) -> Value:
    """Return rows of an array, for every index of a batch on its own.

    Parameters
    ----------
    x : (*batch, population, ...)
        The array; its first axes broadcast to the batch.
    rows : (*batch, ...) int
        The positions.
    batch : tuple of int
        The shape of the batch.
    """
    x = broadcast_to(x, (*batch, *x.shape[len(batch) :]))
    counts = [count_along(batch, axis) for axis in range(len(batch))]
    inner = range(len(batch), rows.ndim)
    return gather.take(x, [*(sh.expand_dims(c, inner) for c in counts), rows])


# --- Vectors ------------------------------------------------------------------------------


def multivariate_normal(key: Value, shape: Shape, mean: Value, cov: Value) -> Value:
    """Draw from a normal distribution with a covariance that may be singular, as JAX's
    ``method="svd"``.

    Parameters
    ----------
    key
        The key.
    shape
        The shape of the draws; its last size is ``n``.
    mean : (..., n) float
        The mean, which broadcasts.
    cov : (..., n, n) float
        The covariance, which broadcasts.
    """
    u, s, _ = svd(cov, full_matrices=True)
    factor = u * sh.expand_dims(ew.sqrt(s), (s.ndim - 1,))
    drawn = random.normal(key, shape, mean.dtype)
    factor = broadcast_to(factor, (*shape, shape[-1]))
    rank = len(shape)
    product = linalg.contract(factor, drawn, (rank, rank - 1), rank - 1)
    return mean + product
