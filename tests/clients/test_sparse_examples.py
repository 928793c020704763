"""The examples with sparse matrices have the log-densities of others, and find what they find."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import potential_energy
from test_sampling import assert_alike, assert_means, draws_by_numpyro, error_of_mean

# aeppl asserts that the parameters of distributions are positive.
pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")


def by_hand(matrix, expected, counts):
    """The model of examples/spatial.py, by `numpyro.distributions` alone."""
    tau = numpyro.sample("tau", dist.Gamma(2.0, 1.0))
    alpha = numpyro.sample("alpha", dist.Beta(4.0, 1.0))
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    mean = mu * np.ones(len(counts))
    phi = numpyro.sample("phi", dist.CAR(mean, alpha, tau, matrix))
    numpyro.sample("Y", dist.Poisson(expected * jax.numpy.exp(phi)), obs=counts)


def test_neighbours_are_those_of_the_map(spatial):
    by_state = dict(zip(spatial.STATES, spatial.DEGREES, strict=True))
    assert (len(by_state), len(spatial.PAIRS)) == (48, 105)
    assert len(set(map(frozenset, spatial.PAIRS))) == 105
    assert [state for state in by_state if by_state[state] == 8] == ["MO", "TN"]
    assert [state for state in by_state if by_state[state] == 1] == ["ME"]


def test_the_spatial_log_density_is_that_of_numpyro(spatial):
    _, counts = spatial.simulate()
    dense = spatial.NEIGHBOURS.toarray()
    rng, values, gradients = np.random.default_rng(0), [], []
    names = "tau", "alpha", "mu", "phi"

    def theirs(*position):
        named = dict(zip(names, position, strict=True))
        return -potential_energy(by_hand, (dense, spatial.EXPECTED, counts), {}, named)

    def ours(*position):
        return spatial.logdensity(*position, counts, spatial.NEIGHBOURS)

    for _ in range(2):
        position = *rng.normal(size=3), rng.normal(size=48)
        pairs = [jax.value_and_grad(f, argnums=(0, 1, 2, 3))(*position) for f in (ours, theirs)]
        values.append(pairs[0][0] - pairs[1][0])
        gradients.append([gradient for _, gradient in pairs])
    np.testing.assert_allclose(*values, rtol=1e-8)  # They differ by a constant.
    for found, wanted in gradients:
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-8)


@pytest.mark.deep
def test_the_spatial_posterior_is_that_of_numpyro(spatial, capsys):
    found = spatial.main()
    printed = capsys.readouterr().out
    assert printed.startswith("48 states, 105 borders")
    assert float(printed.rpartition(" ")[2]) > 0.8
    data = spatial.NEIGHBOURS.toarray(), spatial.EXPECTED, spatial.simulate()[1]
    theirs = draws_by_numpyro(by_hand, 1, *data, count=2000, target_accept_prob=0.9)
    for name in ("tau", "alpha"):
        assert_alike(found[name], theirs[name])
    # Where alpha is close to 1, mu has long tails: too few draws tell its variance.
    assert_means(found["mu"], theirs["mu"].mean(), error_of_mean(np.asarray(theirs["mu"])))


@pytest.mark.deep
def test_texts_are_classified(text, capsys):
    assert text.main()[0] > 0.9  # It asserts that the coefficients are those of scikit-learn.
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[2:-1]] == list(text.TOPICS)
