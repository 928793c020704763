"""Draws from Pólya-Gamma distributions, which aemcmc adds to Aesara."""

from __future__ import annotations

import aesara
import jax
import numpy as np
import pytest
import scipy.stats as stats
from aemcmc.dists import PolyaGammaRV, polyagamma
from catalogue.draws import generator, variable
from polyagamma import polyagamma_cdf, random_polyagamma
from profiles import amount

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.aesara.random import SAMPLERS
from jaxprgen.errors import DuplicateRuleError, ParameterError

KEY = jax.random.key(1)
COUNT = amount(quick=2_000, deep=100_000)
ALARM = 1e-7
"""The probability of a false alarm, for each case; keys are fixed, so it is once and for all."""
# Sums, single draws, and both bounds with and without the tilt: of z on either side of 2 h / t.
CASES = [(1, 0), (1, 1.9), (1, 3), (1, -40), (1.5, 0), (1.99, 6), (3, 2), (4.6, 2.5)]
# Two are not numbers, and two out of the domain; infinite tilts are concentrated at zero.
EDGES = [(np.nan, 1), (1, np.nan), (0.5, 1), (-1, 1), (1, np.inf), (3, 1e200)]


@pytest.fixture(scope="module")
def draws():
    """Draws of every case, and then of every edge."""
    h, z = np.array([*CASES, *EDGES], float).T
    inputs = [variable(h), variable(z)]
    size = (COUNT, len(h))
    f = jaxprgen.compile(inputs, polyagamma(*inputs, size=size, rng=generator()))
    check_jaxpr(f.jaxpr(KEY, h, z).jaxpr)
    return np.asarray(jax.jit(f)(KEY, h, z))


@pytest.mark.parametrize("i", range(len(CASES)), ids=lambda i: str(CASES[i]))
def test_distribution(draws, i):
    h, z = CASES[i]
    assert stats.kstest(draws[:, i], lambda x: polyagamma_cdf(x, h=h, z=z)).pvalue > ALARM
    theirs = random_polyagamma(h, z, size=COUNT, random_state=3)
    assert stats.ks_2samp(draws[:, i], theirs).pvalue > ALARM


@pytest.mark.parametrize("i", range(len(CASES)), ids=lambda i: str(CASES[i]))
def test_moments(draws, i):
    """Mean, and E exp(-s x) = (cosh(z/2) / cosh(sqrt(z² + 2 s) / 2))**h (Polson et al. 2013)."""
    h, z = CASES[i]
    mean = h / 4 if z == 0 else h * np.tanh(z / 2) / (2 * z)
    transformed = [np.cosh(z / 2) / np.cosh(np.sqrt(z**2 + 2 * s) / 2) for s in (1.0, 5.0)]
    found = [draws[:, i], np.exp(-draws[:, i]), np.exp(-5 * draws[:, i])]
    for x, expected in zip(found, [mean, transformed[0] ** h, transformed[1] ** h], strict=True):
        assert stats.ttest_1samp(x, expected).pvalue > ALARM


def test_single_precision_and_known_parameters():
    with aesara.config.change_flags(floatX="float32"):
        x = polyagamma(np.float32(1), np.float32(0.7), size=(COUNT,), rng=generator())
    f = jaxprgen.compile([], x)
    drawn = np.asarray(f(KEY))
    assert drawn.dtype == "float32"
    assert stats.kstest(drawn, lambda x: polyagamma_cdf(x.astype(float), h=1, z=0.7)).pvalue > ALARM
    loops = [eqn.primitive.name for eqn in f.jaxpr(KEY).jaxpr.eqns].count("while")
    assert loops == 1  # None for a sum.


def test_parameters(draws):
    """There is no exact sampler of smaller h than 1."""
    x = draws[:, len(CASES) :]
    assert np.isnan(x[:, :4]).all()
    assert (abs(x[:, 4:]) < 1e-100).all()
    with pytest.raises(ParameterError, match=r"polyagamma: h >= 1 must hold, got h = 0.5"):
        jaxprgen.compile([], polyagamma(0.5, 1.0, rng=generator()))(KEY)


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
