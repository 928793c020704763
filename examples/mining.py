"""Find when mining in Britain became safer, with a change point that is summed out.

The data are the numbers of disasters in coal mines in each year from 1851 to 1962: Jarrett, "A note
on the intervals between coal-mining disasters", Biometrika 66 (1979). The rate of disasters changes
once, in an unknown year. A sampler that needs gradients cannot draw a year, so the density of the
rates is a sum over all years. Each term costs a few operations, because a sum over years before the
change is a difference of cumulative sums.

Given the year, the posterior is known, so the draws are compared with exact means.
"""

import jaxprgen  # noqa: I001  # First: it makes Aesara importable on current NumPy and Python.
import aesara.tensor as at
import jax
import numpy as np
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from scipy.special import gammaln, logsumexp

import figures
from sampling import nuts

jax.config.update("jax_enable_x64", True)

DISASTERS = """
45410434063340263354531441553425223421322111130010110031
03220111010100021000110233112111124200014000100000100101
"""
COUNTS = np.array([int(digit) for digit in "".join(DISASTERS.split())])
YEARS = 1851 + np.arange(len(COUNTS))
CHAINS, WARMUP, DRAWS = 4, 500, 1000
SHAPE, RATE = 2.0, 1.0
"""Of the gamma prior of both rates."""

counts, log_rates = at.lvector("counts"), at.dvector("log_rates")
rates = at.exp(log_rates)
# The log-likelihood of the counts before each year, at the first rate, and of those from it on.
before = at.cumsum(counts * log_rates[0] - rates[0])
after = at.cumsum(counts * log_rates[1] - rates[1])
by_year = before[:-1] + after[-1] - after[:-1]  # The change follows year 0, 1, ...
# A gamma prior for each rate; the last term is from the change to logarithms.
log_prior = at.sum((SHAPE - 1) * log_rates - RATE * rates + log_rates)
log_posterior = at.logsumexp(by_year) + log_prior
logdensity = jaxprgen.compile([log_rates, counts], log_posterior, name="mining")
chances = jaxprgen.compile([log_rates, counts], at.exp(by_year - at.logsumexp(by_year)))


def exact():
    """Return the exact chances of each year, and the exact means of the two rates."""
    years = np.arange(1, len(COUNTS))
    sums = np.cumsum(COUNTS)[:-1]
    shapes = SHAPE + np.stack([sums, COUNTS.sum() - sums])
    scales = RATE + np.stack([years, len(COUNTS) - years])
    logs = np.sum(gammaln(shapes) - shapes * np.log(scales), axis=0)
    chances = np.exp(logs - logsumexp(logs))
    return chances, (shapes / scales) @ chances


def main():
    starting, sampling = jax.random.split(jax.random.key(0))
    starts = jax.random.normal(starting, (CHAINS, 2))
    draws, diverged = nuts(lambda p: logdensity(p, COUNTS), starts, sampling, WARMUP, DRAWS)
    by_draw = jax.jit(jax.vmap(lambda p: chances(p, COUNTS)))(draws.reshape(-1, 2))
    rates, by_year = np.exp(draws), np.asarray(by_draw).mean(0)
    true_chances, true_rates = exact()
    print(f"{int(diverged.sum())} of {diverged.size} draws diverged.\n")
    print(f"{'':10}{'exact':>8}{'mean':>8}{'size':>8}{'R-hat':>8}")
    for i, name in enumerate(["earlier", "later"]):
        drawn = rates[..., i]
        size, ratio = effective_sample_size(drawn), split_gelman_rubin(drawn)
        print(f"{name:10}{true_rates[i]:8.3f}{drawn.mean():8.3f}{size:8.0f}{ratio:8.3f}")
    likeliest = np.argmax(by_year)
    print(f"The likeliest last year of the earlier rate is {YEARS[likeliest]}:")
    print(f"chance {by_year[likeliest]:.3f}, exactly {true_chances[likeliest]:.3f}")
    return rates, by_year


def plot(rates, by_year):
    """Draw the counts with the expected rate of each year, and the chances of the years."""
    figure, (upper, lower) = figures.subplots(2, 1, size=(7, 3.8), sharex=True)
    upper.vlines(YEARS, 0, COUNTS, color="0.6", lw=2)
    changed = np.concatenate([[0], np.cumsum(by_year)])
    flat = rates.reshape(-1, 2)
    expected = flat[:, :1] * (1 - changed) + flat[:, 1:] * changed
    figures.band(upper, YEARS, expected, color="C1", label="expected")
    upper.set(ylabel="disasters", title="Disasters in coal mines")
    upper.legend()
    lower.bar(YEARS[:-1], by_year, width=1)
    lower.set(ylabel="chance", title="The last year of the earlier rate")
    return figure


if __name__ == "__main__":
    figures.save(plot, *main())
