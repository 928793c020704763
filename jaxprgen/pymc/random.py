"""Draws from PyMC's own random variables, beside those of PyTensor."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# Checks run without PyMC, too.

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pymc.distributions import continuous, discrete, multivariate

from jaxprgen.emit import (
    distributions,
    elementwise as ew,
    gather,
    linalg,
    primitives as lax,
    random,
    reduce,
    shape as sh,
)
from jaxprgen.emit.constraints import parse_constraints
from jaxprgen.emit.decompositions import cholesky, transposed, triangle
from jaxprgen.emit.polya_gamma import polya_gamma
from jaxprgen.emit.sizes import as_size
from jaxprgen.emit.sort import searchsorted
from jaxprgen.emit.values import Shape, Value, broadcast_to, full, where
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.random import SAMPLERS, define
from jaxprgen.special.error_functions import erfcinv


def _truncated_normal(
    key: Value, shape: Shape, mu: Value, sigma: Value, low: Value, high: Value
) -> Value:
    """Draw a normal variable between two bounds, by inversion.

    Bounds above the mean are mirrored, because probabilities near one have few digits.
    """
    low, high = (low - mu) / sigma, (high - mu) / sigma
    is_mirrored = low > 0
    low, high = where(is_mirrored, -high, low), where(is_mirrored, -low, high)
    least, most = (lax.erfc(x * -math.sqrt(0.5)) for x in (low, high))  # Twice the probability.
    u = random.uniform(key, shape, mu.dtype)
    drawn = erfcinv(least + u * (most - least)) * -math.sqrt(2)
    drawn = ew.clip(drawn, low, high)
    return mu + sigma * where(is_mirrored, -drawn, drawn)


def _wald(key: Value, shape: Shape, mu: Value, lam: Value, alpha: Value) -> Value:
    return distributions.wald(key, shape, mu, lam) + alpha


def _skew_normal(key: Value, shape: Shape, mu: Value, sigma: Value, alpha: Value) -> Value:
    """Return a normal variable and the size of another, in proportions that ``alpha`` decides."""
    one, other = (random.normal(k, shape, mu.dtype) for k in random.split(key))
    return mu + sigma * (alpha * abs(one) + other) / ew.sqrt(1 + ew.square(alpha))


def _skew_student_t(key: Value, shape: Shape, a: Value, b: Value, mu: Value, sigma: Value) -> Value:
    """Transform a beta draw.

    M. C. Jones, M. J. Faddy, *A skew extension of the t-distribution, with applications*, Journal
    of the Royal Statistical Society B 65 (2003).
    """
    share = distributions.beta(key, shape, a, b)
    spread = ew.sqrt(a + b) / (2 * ew.sqrt(share * (1 - share)))
    return mu + sigma * (2 * share - 1) * spread


def _rice(key: Value, shape: Shape, shift: Value, sigma: Value) -> Value:
    """Return the length of a normal vector that is shifted along one axis."""
    one, other = (random.normal(k, shape, sigma.dtype) for k in random.split(key))
    return sigma * ew.sqrt(ew.square(shift + one) + ew.square(other))


def _moyal(key: Value, shape: Shape, mu: Value, sigma: Value) -> Value:
    return mu - sigma * ew.log(ew.square(random.normal(key, shape, mu.dtype)))


def _interpolated(key: Value, shape: Shape, x: Value, density: Value, below: Value) -> Value:
    """Draw by inversion from a density that is linear between points.

    ``below`` are the probabilities of values below the points. Only one density serves all draws.
    """
    x, density, below = (sh.reshape(v, (v.shape[-1],)) for v in (x, density, below))
    p = random.uniform(key, shape, x.dtype)
    row = ew.clip(searchsorted(below, p, right=True) - 1, 0, x.shape[0] - 2)
    (start, end), (height, above) = (
        [gather.take(v, [row + i]) for i in (0, 1)] for v in (x, density)
    )
    rest, slope = p - gather.take(below, [row]), (above - height) / (end - start)
    # Of the two forms of the root, the one that does not cancel.
    root = ew.sqrt(ew.maximum(ew.square(height) + 2 * slope * rest, 0))
    return start + 2 * rest / (height + root)


def _matrix_normal(key: Value, shape: Shape, mu: Value, rows: Value, columns: Value) -> Value:
    """Return normal draws times the Cholesky factors of the covariances of rows and columns."""
    drawn = random.normal(key, shape, mu.dtype)
    return mu + linalg.matmul(rows, linalg.matmul(drawn, transposed(columns)))


def _conditional_autoregression(
    key: Value, shape: Shape, mu: Value, weights: Value, alpha: Value, tau: Value, _: Value
) -> Value:
    """Solve with the transposed Cholesky factor of the precision, a dense matrix.

    H. Rue, *Fast sampling of Gaussian Markov random fields*, Journal of the Royal Statistical
    Society B 63 (2001).
    """
    count = shape[-1]
    weights = sh.reshape(weights, (count, count))
    alpha, tau = sh.reshape(alpha, ()), sh.reshape(tau, ())
    totals = broadcast_to(reduce.sum(weights, [0]), weights.shape)
    on_diagonal = triangle(triangle(totals, lower=True), lower=False)
    factor = cholesky(tau * (on_diagonal - alpha * weights), lower=True)
    rows = sh.reshape(random.normal(key, shape, mu.dtype), (-1, count))
    rows = lax.triangular_solve(factor, rows, left_side=False, lower=True)
    return mu + sh.reshape(rows, shape)


@lowers(multivariate.StickBreakingWeightsRV, folds=False)
def lower_stick_breaking_weights(
    ctx: RuleContext, rng: Any, size: Value | None, alpha: Value, count: Value
) -> tuple[Any, Value]:
    """Return the parts of a stick that is broken ``count`` times, the last one what is left."""
    stream, key = random.take_key(rng)
    batch = alpha.shape if size is None else tuple(map(as_size, ctx.static(1)))
    axis, breaks = len(batch), (*batch, int(ctx.static(3).item()))
    alpha = sh.expand_dims(alpha.astype(ctx.node.outputs[1].type.dtype), (alpha.ndim,))
    shares = distributions.beta(key, breaks, full((), 1, alpha.dtype), alpha)
    whole = full((*batch, 1), 1, alpha.dtype)
    left = sh.concatenate([whole, reduce.cumprod(1 - shares, axis)], axis)
    return stream, left * sh.concatenate([shares, whole], axis)


def _discrete_uniform(key: Value, dtype: np.dtype, shape: Shape, low: Value, high: Value) -> Value:
    return SAMPLERS["tensor.IntegersRV"](key, dtype, shape, low, high + 1)


SAMPLERS[discrete.DiscreteUniformRV] = _discrete_uniform

for _kind, _draw, *_domain in (
    (continuous.TruncatedNormalRV, _truncated_normal, "mu sigma lower upper", "sigma > 0"),
    (continuous.WaldRV, _wald, "mu lam alpha", "mu > 0", "lam > 0"),
    (continuous.SkewNormalRV, _skew_normal, "mu sigma alpha", "sigma > 0"),
    (continuous.SkewStudentTRV, _skew_student_t, "a b mu sigma", "a > 0", "b > 0", "sigma > 0"),
    (continuous.RiceRV, _rice, "b sigma", "b >= 0", "sigma > 0"),
    (continuous.MoyalRV, _moyal, "mu sigma", "sigma > 0"),
    (continuous.InterpolatedRV, _interpolated),
    (continuous.PolyaGammaRV, polya_gamma, "h z", "h > 0"),
    (multivariate.MatrixNormalRV, _matrix_normal),
    (
        *(multivariate.CARRV, _conditional_autoregression, "mu W alpha tau W_is_valid"),
        *("alpha > -1", "alpha < 1", "W_is_valid > 0"),
    ),
):
    define(_kind, _draw, parse_constraints(*_domain) if _domain else ())
