"""aemcmc's Gibbs sampler, as one program, finds what is known and draws as Aesara does."""

import functools
import json

import aesara
import jax
import numpy as np
import pytest
from aesara.compile.mode import Mode
from reference import FILE, quantities
from scipy.stats import ks_2samp
from test_sampling import assert_means, error_of_mean

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


MAKERS = {
    "mode": lambda inputs, outputs: aesara.function(inputs, outputs, mode="JAXPR"),
    "function": jaxprgen.function,
}


@pytest.mark.deep
@pytest.mark.parametrize("maker", MAKERS)
def test_horseshoe_regression_by_functions_that_hold_their_generators(maker, gibbs):
    # aemcmc draws in an `OpFromGraph`: the generators inside advance from call to call.
    record = json.loads(FILE.read_text("utf-8"))
    found, theirs = _chains(gibbs, MAKERS[maker], 4 * gibbs.DRAWS), _by_aesara(gibbs)
    assert list(found) == list(theirs)
    for name, draws in found.items():
        assert_means(draws, theirs[name].mean(), error_of_mean(theirs[name]))
        assert_means(draws, record["means"][name], record["errors"][name])


def _chains(gibbs, make, draws):
    """Quantities of several chains, each by calls of a function with generators of its own."""
    points, outcomes = gibbs.simulate()
    chains = []
    for seed in range(gibbs.CHAINS):
        inputs, outputs = gibbs.transition(seed)
        step = make(inputs, list(outputs))
        state, chain = [np.asarray(x) for x in gibbs.start(points.shape[1])], []
        for _ in range(gibbs.WARMUP + draws):
            state = step(points, outcomes, *state)
            chain.append([np.asarray(x) for x in state])
        chains.append([np.stack(x)[gibbs.WARMUP :] for x in zip(*chain, strict=True)])
    tau, lam, beta = (np.stack(x) for x in zip(*chains, strict=True))
    return quantities({"tau": tau, "lambda": lam, "beta": beta})


@functools.cache
def _by_aesara(gibbs):
    """The same quantities, which Aesara's Python mode draws in minutes, once for all tests."""
    python = Mode("py", "fast_run")

    def make(inputs, outputs):
        return aesara.function(inputs, outputs, mode=python)

    return _chains(gibbs, make, gibbs.DRAWS)
