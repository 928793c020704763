"""Samplers and optimizers are handed compiled functions and find what others find."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS
from reference import FILE, quantities

# aeppl asserts that scales are positive and probabilities are between 0 and 1.
pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")

ERRORS = 5
"""How many standard errors a mean may be off: 6e-7 is the chance of more, for each mean."""

POSTERIORDB = {
    "mu": (4.41051833695493, 0.0330374705950917),
    "tau": (3.60205952364059, 0.0318615135640706),
    "theta[0]": (6.15050229334425, 0.0557375282295219),
    "theta[1]": (4.9395811407422, 0.0462293788624847),
    "theta[2]": (3.90590609001582, 0.0542313705632124),
    "theta[3]": (4.79601675138494, 0.0474935816762281),
    "theta[4]": (3.6144363246799, 0.0461450610244603),
    "theta[5]": (4.0511475789675, 0.0485195392528031),
    "theta[6]": (6.31716975886893, 0.0498766794075794),
    "theta[7]": (4.88399694353288, 0.0542511606560972),
}
"""Posterior means and their Monte-Carlo errors, by a long run of Stan.

github.com/stan-dev/posteriordb, reference_posteriors/summary_statistics/mean/mean,
eight_schools-eight_schools_noncentered.json.
"""


def assert_means(draws, mean, error=0.0):
    """Draws, by chain, have this mean, itself known up to an error."""
    draws = np.asarray(draws)
    assert split_gelman_rubin(draws) < 1.02
    error = np.hypot(error_of_mean(draws), error)
    assert abs(draws.mean() - mean) < ERRORS * error
    # A mean that is off by more than this would not have passed.
    assert ERRORS * error < 0.25 * draws.std()


def error_of_mean(draws):
    """The Monte-Carlo standard error of a mean of draws, by chain."""
    return draws.std() / np.sqrt(effective_sample_size(draws))


def assert_alike(draws, others):
    """Draws, by chain, have the mean and the variance of others."""
    draws, others = np.asarray(draws), np.asarray(others)
    center = (draws.mean() + others.mean()) / 2
    for power in (1, 2):
        a, b = (draws - center) ** power, (others - center) ** power
        assert_means(a, b.mean(), error_of_mean(b))


def draws_by_numpyro(model, seed, *data, count, **options):
    """As many draws of each variable, of each of four chains."""
    lengths = {"num_warmup": 500, "num_samples": count, "num_chains": 4}
    kernel = NUTS(model, **options)
    sampler = MCMC(kernel, **lengths, chain_method="vectorized", progress_bar=False)
    sampler.run(jax.random.key(seed), *data)
    return sampler.get_samples(group_by_chain=True)


@pytest.mark.deep
def test_eight_schools_by_blackjax_and_numpyro(eight_schools, capsys):
    exact = dict(zip(eight_schools.NAMES, eight_schools.exact_means(), strict=True))
    for name, (mean, error) in POSTERIORDB.items():
        assert abs(mean - exact[name]) < ERRORS * error
    samplers = eight_schools.main()
    assert list(samplers) == ["BlackJAX", "NumPyro"]
    for draws in samplers.values():
        for i, mean in enumerate(exact.values()):
            assert_means(draws[..., i], mean)
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(exact)


@pytest.mark.deep
def test_horseshoe_regression_by_blackjax(horseshoe, capsys):
    record = json.loads(FILE.read_text("utf-8"))
    _, outcomes = horseshoe.simulate()
    assert "".join(map(str, outcomes)) == record["outcomes"]
    found = quantities(horseshoe.main())
    assert list(found) == list(record["means"])
    for name, draws in found.items():
        assert_means(draws, record["means"][name], record["errors"][name])
    assert "Posterior predictive: 7" in capsys.readouterr().out


def test_maxima_by_optax_and_jax(map_estimate, capsys):
    map_estimate.main()
    found = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert found == ["Fit by Optax", "Fit by jax.scipy.optimize"]
