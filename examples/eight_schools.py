"""Sample one compiled log-density with BlackJAX and with NumPyro: eight schools.

How much does coaching raise the results of a test? The effects in eight schools and their standard
errors are from Rubin, "Estimation in parallel randomized experiments", Journal of Educational
Statistics 6 (1981). The model is non-centred, with the priors of eight_schools_noncentered in
posteriordb. Its exact posterior means are known: given the scale tau, everything is normal, which
leaves one integral over tau.
"""

import jaxprgen  # noqa: I001  # First: it makes Aesara importable on current NumPy and Python.
import aeppl
import aesara.tensor as at
import blackjax
import jax
import numpy as np
import scipy.stats as stats
from aeppl.transforms import LogTransform, TransformValuesRewrite
from numpyro.infer import MCMC, NUTS
from scipy.integrate import quad_vec

import figures
from sampling import nuts

jax.config.update("jax_enable_x64", True)

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
NAMES = ["mu", "tau", *(f"theta[{i}]" for i in range(8))]

stream = at.random.RandomStream()
mu = stream.normal(0, 5, name="mu")
tau = stream.halfcauchy(0, 5, name="tau")
z = stream.normal(0, 1, size=8, name="z")
y = stream.normal(mu + tau * z, ERRORS, name="y")

log_posterior, values = aeppl.joint_logprob(
    *(mu, tau, z),
    realized={y: at.constant(EFFECTS)},
    # A sampler needs an unbounded variable: log(tau).
    extra_rewrites=TransformValuesRewrite({tau: LogTransform()}),
)
logdensity = jaxprgen.compile(values, log_posterior)

CHAINS, WARMUP, DRAWS = 4, 500, 1000
ACCEPTANCE = 0.95
"""With the usual 0.8, one run in eight did not mix: its split R-hat was 1.02."""


def starts(key):
    """Draw the starts of chains, mu, log(tau) and z, from standard normal distributions."""
    keys = jax.random.split(key, 3)
    shapes = (CHAINS,), (CHAINS,), (CHAINS, 8)
    return tuple(jax.random.normal(k, shape) for k, shape in zip(keys, shapes, strict=True))


def by_blackjax(key):
    starting, sampling = jax.random.split(key)
    draws, _ = nuts(lambda p: logdensity(*p), starts(starting), sampling, WARMUP, DRAWS, ACCEPTANCE)
    return draws


def by_numpyro(key):
    starting, sampling = jax.random.split(key)
    sampler = MCMC(
        NUTS(potential_fn=lambda p: -logdensity(*p), target_accept_prob=ACCEPTANCE),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(sampling, init_params=starts(starting))
    return sampler.get_samples(group_by_chain=True)


def quantities(draws):
    """Return the quantities of `NAMES` along a new last axis, from draws of mu, log(tau) and z."""
    mu, log_tau, z = draws
    tau = np.exp(log_tau)
    theta = mu[..., None] + tau[..., None] * z
    return np.concatenate([np.stack([mu, tau], -1), theta], -1)


def exact_means():
    """Return the posterior means of the quantities of `NAMES`, by quadrature over tau."""

    def given(tau):
        """Return the density of data and tau, up to a factor, and its products with the means."""
        variances = ERRORS**2 + tau**2
        precision = 1 / 5**2 + np.sum(1 / variances)
        mu = np.sum(EFFECTS / variances) / precision
        theta = (tau**2 * EFFECTS + ERRORS**2 * mu) / variances
        exponent = np.sum(EFFECTS**2 / variances) - mu**2 * precision
        density = np.exp(-exponent / 2) / np.sqrt(np.prod(variances) * precision)
        return density * stats.halfcauchy.pdf(tau, 0, 5) * np.array([1, mu, tau, *theta])

    total, *means = quad_vec(given, 0, np.inf, epsrel=1e-10)[0]
    return means / total


def main():
    draws = {"BlackJAX": by_blackjax(jax.random.key(1)), "NumPyro": by_numpyro(jax.random.key(2))}
    draws = {name: quantities(drawn) for name, drawn in draws.items()}
    exact = exact_means()
    print("mean of     exact   " + "   ".join(f"{name:>8} ± error" for name in draws))
    for i, name in enumerate(NAMES):
        row = f"{name:9} {exact[i]:7.3f}"
        for drawn in draws.values():
            size = blackjax.diagnostics.effective_sample_size(drawn[..., i])
            row += f"   {drawn[..., i].mean():8.3f} ± {drawn[..., i].std() / np.sqrt(size):.3f}"
        print(row)
    return draws


def plot(draws):
    """Draw the posterior intervals of both samplers, and the exact means."""
    figure, axes = figures.subplots(size=(7, 3.6))
    for i, (name, drawn) in enumerate(draws.items()):
        figures.intervals(axes, NAMES, drawn, color=f"C{i}", offset=0.3 * i - 0.15, label=name)
    axes.plot(exact_means(), range(len(NAMES)), "|k", ms=12, label="exact mean")
    axes.set(xlabel="points of the test", title="Eight schools: middle 50 and 90 % of draws")
    axes.legend(loc="center right")
    return figure


if __name__ == "__main__":
    figures.save(plot, main())
