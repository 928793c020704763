# %% [markdown]
# # Forecast the Nile
#
# How much water will the Nile carry? The data are its yearly flows at Aswan from 1871 to 1970, in
# 100 million cubic metres. They are those of Durbin and Koopman, "Time Series Analysis by State
# Space Methods" (2012), who fit the same model: a level that walks at random, and noise around it.
# They report 1469.1 and 15099 for the variances of walk and noise.
#
# The Kalman filter is a `scan` of Aesara. `jax.grad` differentiates it, Optax maximizes it, and
# BlackJAX samples from it.

# %%
import jaxprgen  # noqa: I001  # First: it makes Aesara importable on current NumPy and Python.
import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np

import figures
from map_estimate import by_optax
from sampling import nuts

jax.config.update("jax_enable_x64", True)

# fmt: off
FLOWS = np.array([
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180,
    799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833,
    701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845,
    864, 862, 698, 845, 744, 796, 1040, 759, 781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649,
    846, 812, 742, 801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050, 918, 986, 797, 923, 975, 815,
    1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
]).astype(float)
# fmt: on
YEARS = 1871 + np.arange(len(FLOWS))
PUBLISHED = np.array([1469.1, 15099.0])

# %% [markdown]
# The filter carries the mean and the variance of the level, given the flows so far. The first flow
# says where the level starts, so the sum of the densities begins with the second.

# %%
y, log_variances = at.dvector("flows"), at.dvector("log_variances")
walk, noise = at.exp(log_variances[0]), at.exp(log_variances[1])


def step(flow, mean, variance, walk, noise):
    """Predict a flow, and learn from it."""
    predicted = variance + walk
    total = predicted + noise
    error = flow - mean
    term = -0.5 * (at.log(2 * np.pi * total) + error**2 / total)
    return mean + predicted / total * error, predicted * noise / total, term


(means, variances, terms), _ = aesara.scan(
    step,
    sequences=[y[1:]],
    outputs_info=[y[0], noise, None],
    non_sequences=[walk, noise],
)
log_likelihood = terms.sum()
log_likelihood.name = "log_likelihood"
filtered = jaxprgen.compile([log_variances, y], [means, variances], name="filtered")
likelihood = jaxprgen.compile([log_variances, y], log_likelihood, name="likelihood")

# %% [markdown]
# ## The likeliest variances
#
# They are those that Durbin and Koopman report.

# %%
fit = jax.jit(lambda start: by_optax(lambda p: -likelihood(p, FLOWS) / len(FLOWS), start))
found = np.exp(fit(jnp.full(2, 8.0)))
print("variances of walk and noise:", found.round(1), "published:", PUBLISHED)
print("log-likelihood:", float(likelihood(np.log(found), FLOWS)).__round__(2))

# %% [markdown]
# ## Their posterior
#
# Each standard deviation has a log-normal prior around 100.


# %%
def log_posterior(p):
    """Return the log-density of the logarithms of both variances, up to a constant."""
    return likelihood(p, FLOWS) - 0.5 * jnp.sum((p / 2 - jnp.log(100.0)) ** 2)


starting, sampling, drawing = jax.random.split(jax.random.key(0), 3)
starts = jnp.log(PUBLISHED) + 0.3 * jax.random.normal(starting, (4, 2))
draws, diverged = nuts(log_posterior, starts, sampling, 500, 500)
deviations = np.exp(draws / 2).reshape(-1, 2)
print(int(diverged.sum()), "of", diverged.size, "draws diverged")
for name, drawn in zip(["walk", "noise"], deviations.T, strict=True):
    low, high = np.percentile(drawn, [5, 95])
    print(f"deviation of {name:5}: mean {drawn.mean():5.1f}, 90 % from {low:.1f} to {high:.1f}")

# %% [markdown]
# ## The forecast
#
# Each draw of the variances gives one future: a level now, its walk, and noise around it.

# %%
AHEAD = 20


@jax.jit
@jax.vmap
def future(key, p):
    """Draw the flows of the coming years, given the variances."""
    means, variances = filtered(p, FLOWS)
    steps = jax.random.normal(key, (3, AHEAD))
    walk, noise = jnp.exp(p / 2)
    level = means[-1] + jnp.sqrt(variances[-1]) * steps[0, 0] + walk * jnp.cumsum(steps[1])
    return level + noise * steps[2]


flat = draws.reshape(-1, 2)
futures = np.asarray(future(jax.random.split(drawing, len(flat)), flat))
levels = np.asarray(jax.jit(jax.vmap(lambda p: filtered(p, FLOWS)[0]))(flat[::10]))
low, high = np.percentile(futures[:, 0], [5, 95])
print(f"1971: 90 % of draws are between {low:.0f} and {high:.0f}")

# %%
figure, axes = figures.subplots()
axes.plot(YEARS, FLOWS, ".", color="0.4", ms=4, label="flows")
figures.band(axes, YEARS[1:], levels, color="C0", label="level so far")
figures.band(axes, 1971 + np.arange(AHEAD), futures, color="C1", label="forecast")
axes.set(ylabel="100 million m³ a year", title="The Nile at Aswan", ylim=(300, 1450))
axes.legend(ncols=3, loc="upper right")
figures.save(lambda: figure)
figure  # noqa: B018  # A notebook shows it.
