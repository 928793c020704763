"""Three plain JAX functions of one model: prior samples, log-density, posterior predictive."""

from __future__ import annotations

import aesara
import jax
import numpy as np
import pytest
import scipy.stats as stats
from aesara.graph import FunctionGraph, rewrite_graph
from laws import assert_same, reference
from scipy.special import expit

import jaxprgen

# aeppl asserts that scales are positive and probabilities are between 0 and 1.
pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")

POINTS = np.random.default_rng(1).normal(size=(5, 3))
KEYS = jax.random.split(jax.random.key(0), 20_000)
ALARM = 1e-8
"""The probability of a false alarm, for each p-value; there are fewer than 100."""

LOG_2 = float(np.log(np.float32(2)))
"""What becomes of the log(2.0) that aeppl writes: Aesara computes it in single precision."""


def draw_prior(horseshoe, keys):
    drawn = jax.vmap(horseshoe.prior, in_axes=(0, None))(keys, POINTS)
    return [np.asarray(x) for x in drawn]


def assert_calibrated(drawn, chances):
    """Ones come up as often as told, wherever on the scale of chances."""
    edges = np.quantile(chances, np.linspace(0, 1, 11))
    groups = np.searchsorted(edges[1:-1], chances)
    for i in range(10):
        expected, found = chances[groups == i], drawn[groups == i]
        deviation = np.sqrt((expected * (1 - expected)).sum())
        # A normal approximation needs some of either outcome.
        error = (found - expected).sum() / max(deviation, 5)
        assert 2 * stats.norm.sf(abs(error)) > ALARM


def test_prior_draws_have_the_distributions_of_the_model(horseshoe):
    tau, lam, beta, y = draw_prior(horseshoe, KEYS)
    assert [x.shape for x in (tau, lam, beta, y)] == [(20_000, *s) for s in [(), (3,), (3,), (5,)]]
    white = beta / (tau[:, None] * lam)
    laws = {"halfcauchy": [tau, *lam.T], "norm": list(white.T)}
    for law, columns in laws.items():
        for column in columns:
            assert stats.kstest(column, law).pvalue > ALARM
    columns = np.column_stack([np.log(tau), np.log(lam), white])
    correlations = np.corrcoef(columns.T)[np.triu_indices(7, 1)]
    assert 2 * stats.norm.sf(np.abs(correlations).max() * np.sqrt(len(KEYS))) > ALARM
    assert set(np.unique(y)) == {0, 1}
    assert_calibrated(y, expit(-beta @ POINTS.T))


def test_draws_are_told_by_their_keys(horseshoe):
    together = draw_prior(horseshoe, KEYS[:10])
    for i, key in enumerate(KEYS[:10]):
        for x, alone, again in zip(
            together, horseshoe.prior(key, POINTS), horseshoe.prior(key, POINTS), strict=True
        ):
            assert_same(x[i], alone)
            np.testing.assert_array_equal(alone, again)
    assert len(np.unique(together[0])) == 10


def test_the_log_density_is_that_of_scipy(horseshoe):
    drawn = draw_prior(horseshoe, KEYS[:50])
    ours = jax.vmap(horseshoe.logdensity, in_axes=(None, 0, 0, 0, 0))(POINTS, *drawn)
    for i, (tau, lam, beta, y) in enumerate(zip(*drawn, strict=True)):
        expected = (
            stats.halfcauchy.logpdf(tau)
            + stats.halfcauchy.logpdf(lam).sum()
            + 4 * (LOG_2 - np.log(2))
            + stats.norm.logpdf(beta, 0, tau * lam).sum()
            + stats.bernoulli.logpmf(y, expit(-POINTS @ beta)).sum()
        )
        assert_same(ours[i], expected, rtol=1e-11)


def test_the_gradient_is_that_of_aesara(horseshoe):
    places = horseshoe.values[:3]
    inputs = [horseshoe.X, *horseshoe.values]
    outputs = aesara.grad(horseshoe.log_joint, list(places))
    gradient = jax.jit(jax.grad(horseshoe.logdensity, argnums=(1, 2, 3)))
    drawn = draw_prior(horseshoe, KEYS[:5])
    for args in zip(*drawn, strict=True):
        theirs = reference(inputs, outputs, [POINTS, *args])
        for ours, expected in zip(gradient(POINTS, *args), theirs, strict=True):
            assert_same(ours, expected, rtol=1e-10)


def test_predictive_draws_have_the_chances_that_the_coefficients_tell(horseshoe):
    betas = np.random.default_rng(2).normal(size=(len(KEYS), 3))
    drawn = jax.vmap(horseshoe.predictive, in_axes=(0, None, 0))(KEYS, POINTS, betas)
    assert drawn.shape == (len(KEYS), 5)
    assert_calibrated(np.asarray(drawn), expit(-betas @ POINTS.T))
    for i in range(5):
        assert_same(drawn[i], horseshoe.predictive(KEYS[i], POINTS, betas[i]))


def test_far_out_the_log_density_is_finite(horseshoe):
    """As the README tells; by Aesara's rewrites as well."""
    inputs, outputs = [horseshoe.X, *horseshoe.values], horseshoe.log_joint
    stabilized = rewrite_graph(FunctionGraph(inputs, [outputs]), include=("stabilize",))
    args = POINTS, 1.0, np.ones(3), np.full(3, 1000.0), np.array([0, 1, 0, 1, 0])
    eta = POINTS @ args[3]
    expected = (
        4 * (stats.halfcauchy.logpdf(1) + LOG_2 - np.log(2))
        + stats.norm.logpdf(args[3]).sum()
        - np.logaddexp(0, np.where(args[4], eta, -eta)).sum()
    )
    assert jaxprgen.compile(inputs, outputs, passes=())(*args) == -np.inf
    for f in (horseshoe.logdensity, jaxprgen.compile(stabilized, passes=())):
        value, gradient = jax.value_and_grad(f, argnums=3)(*args)
        assert_same(value, expected, rtol=1e-11)
        assert_same(gradient, (expit(-eta) - args[4]) @ POINTS - args[3], rtol=1e-11)
