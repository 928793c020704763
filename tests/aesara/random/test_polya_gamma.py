"""Draws from Pólya-Gamma distributions, which aemcmc adds to Aesara."""

from __future__ import annotations

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.stats as stats
from aemcmc.dists import PolyaGammaRV, polyagamma
from catalogue.draws import generator
from numpy.polynomial.polynomial import polyval
from polyagamma import polyagamma_cdf, random_polyagamma
from profiles import amount

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.emit.polya_gamma import FAR, TAILS
from jaxprgen.errors import DuplicateRuleError, ParameterError
from jaxprgen.ops.random import SAMPLERS

KEY = jax.random.key(1)
COUNT = amount(quick=2_000, deep=100_000)
ALARM = 1e-7
"""The probability of a false alarm, for each case; keys are fixed, so it is once and for all."""
# Single draws, with both bounds with and without the tilt: of z on either side of 2 h / t.
SINGLE = [(1, 0), (1, 1.9), (1, 3), (1, -40), (1.5, 0), (1.99, 6)]
# Sums; z on either side of the value from which no gamma draw is needed.
SUMS = [(2, 0), (3, -2), (4.6, 14), (5, 17), (90.5, 2), (1e7, 3)]
LONG = [(0.6, -1), (0.05, 9)]
CASES = [*SINGLE, *SUMS, *LONG]
# Two are not numbers, and two out of the domain; infinite tilts are concentrated at zero.
EDGES = [(np.nan, 1), (1, np.nan), (0, 1), (-1, 1), (1, np.inf), (3, 1e200)]


@pytest.fixture(scope="module")
def draws():
    """Draws of every case, and then of every edge."""
    h, z = at.dvectors("h", "z")
    x = polyagamma(h, z, size=(COUNT, h.shape[0]), rng=generator())
    f = jaxprgen.compile([h, z], x)
    short = np.array([*SINGLE, *SUMS, *EDGES], float).T
    check_jaxpr(f.jaxpr(KEY, *short).jaxpr)
    drawn = jax.jit(f)(KEY, *short)
    first = len(SINGLE) + len(SUMS)
    return np.insert(drawn, [first] * len(LONG), f(KEY, *np.array(LONG).T), axis=1)


@pytest.mark.parametrize("i", range(len(CASES)), ids=lambda i: str(CASES[i]))
def test_distribution(draws, i):
    h, z = CASES[i]
    if h > 50:
        return  # polyagamma draws from a normal distribution.
    assert stats.kstest(draws[:, i], lambda x: polyagamma_cdf(x, h=h, z=z)).pvalue > ALARM
    theirs = random_polyagamma(h, z, size=COUNT, random_state=3)
    assert stats.ks_2samp(draws[:, i], theirs).pvalue > ALARM


@pytest.mark.parametrize("i", range(len(CASES)), ids=lambda i: str(CASES[i]))
def test_moments(draws, i):
    """Mean, and E exp(-s x) = (cosh(z/2) / cosh(sqrt(z² + 2 s) / 2))**h (Polson et al. 2013)."""
    h, z = CASES[i]
    mean = h / 4 if z == 0 else h * np.tanh(z / 2) / (2 * z)
    assert stats.ttest_1samp(draws[:, i], mean).pvalue > ALARM
    for s in (1.0, 5.0):
        s /= h**0.5
        ratio = np.cosh(z / 2) / np.cosh(np.sqrt(z**2 + 2 * s) / 2)
        transformed = np.exp(h * np.log(ratio) + s * mean)
        assert stats.ttest_1samp(np.exp(-s * (draws[:, i] - mean)), transformed).pvalue > ALARM


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("count", TAILS)
def test_terms_left_out(count, power):
    """Add them up, with an integral for the last ones."""
    y = np.square(np.linspace(0, FAR / (2 * np.pi), 5))[:, None]
    k = np.arange(count, 100_000) + 0.5
    expected = np.sum((k**2 + y) ** -power, axis=1) + 1e5 ** (1 - 2 * power) / (2 * power - 1)
    np.testing.assert_allclose(polyval(y[:, 0], TAILS[count][power - 1]), expected, rtol=1e-9)


@pytest.mark.parametrize(("h", "other"), [(1, "random_gamma"), (3, "erfc")])
def test_single_precision_and_known_parameters(h, other):
    """A program holds the code for single draws or that for sums, not both."""
    with aesara.config.change_flags(floatX="float32"):
        x = polyagamma(np.float32(h), np.float32(0.7), size=(COUNT,), rng=generator())
    f = jaxprgen.compile([], x)
    drawn = np.asarray(f(KEY))
    assert drawn.dtype == "float32"
    assert stats.kstest(drawn, lambda x: polyagamma_cdf(x.astype(float), h=h, z=0.7)).pvalue > ALARM
    assert other not in str(f.jaxpr(KEY))


def test_parameters(draws):
    x = draws[:, len(CASES) :]
    assert np.isnan(x[:, :4]).all()
    assert (abs(x[:, 4:]) < 1e-100).all()
    with pytest.raises(ParameterError, match=r"polyagamma: h > 0 must hold, got h = 0.0"):
        jaxprgen.compile([], polyagamma(0.0, 1.0, rng=generator()))(KEY)


def test_it_may_be_defined_anew():
    def constant(key, h, z, *, shape, dtype):
        return jax.numpy.asarray(0.25, dtype)  # No tracer: JAX makes a literal of it.

    with pytest.raises(DuplicateRuleError, match="PolyaGammaRV already has a sampler"):
        jaxprgen.samples(PolyaGammaRV)(constant)
    ours = SAMPLERS[PolyaGammaRV]
    jaxprgen.samples(PolyaGammaRV, override=True)(constant)
    try:
        assert jaxprgen.compile([], polyagamma(2.0, 1.0, rng=generator()))(KEY) == 0.25
    finally:
        SAMPLERS[PolyaGammaRV] = ours
