"""aemcmc's Gibbs sampler, as one program, finds what is known and draws as Aesara does."""

import json

import aesara
import jax
import numpy as np
import pytest
from reference import FILE, quantities
from scipy.stats import ks_2samp
from test_sampling import assert_means

import jaxprgen

# Of a matrix that is not positive definite the sampler could not draw.
pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")


@pytest.mark.deep
def test_horseshoe_regression_by_gibbs(gibbs, capsys):
    record = json.loads(FILE.read_text("utf-8"))
    found = quantities(gibbs.main())
    assert list(found) == list(record["means"])
    for name, draws in found.items():
        assert_means(draws, record["means"][name], record["errors"][name])
    assert "One program of" in capsys.readouterr().out


@pytest.mark.deep
def test_a_step_is_drawn_as_by_aesara(gibbs):
    # More coefficients than points: aemcmc has another algorithm for these. The mode is Aesara's
    # own, which merges nodes that are equal; where it does not, it draws tau twice.
    inputs, outputs = gibbs.transition(seed=0)
    rng = np.random.default_rng(0)
    points, outcomes = rng.normal(size=(2, 3)), np.array([0, 1])
    state = 0.7, np.abs(rng.normal(size=3)), rng.normal(size=3)

    reference = aesara.function(inputs, outputs)
    expected = zip(*(reference(points, outcomes, *state) for _ in range(1000)), strict=True)
    step = jaxprgen.compile(inputs, outputs)
    keys = jax.random.split(jax.random.key(0), 5_000)
    found = jax.lax.map(lambda key: step(key, points, outcomes, *state), keys)
    for a, b in zip(_columns(*expected), _columns(*found), strict=True):
        assert ks_2samp(a, b).pvalue > 1e-6


def _columns(tau, lam, beta):
    """Each variable, and those that tell whether they belong to one another."""
    tau, lam, beta = map(np.asarray, (tau, lam, beta))
    return np.column_stack([tau, lam, beta, beta / (tau[:, None] * lam)]).T
