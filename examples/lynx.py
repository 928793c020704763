"""Fit a predator and its prey: the Lotka–Volterra equations in a `scan`, sampled with BlackJAX.

The pelts of hares and lynxes that the Hudson's Bay Company collected from 1900 to 1920, in
thousands, stand for the two populations. The data are those of Howard, "Modeling basics", lecture
notes (2009). Model and priors are those of Carpenter, "Predator-prey population dynamics: the
Lotka-Volterra model in Stan" (2018), who reports posterior means of 0.55, 0.028, 0.80 and 0.024 for
the rates.

The equations are solved inside the graph: each step of the `scan` is one step of the method of
Runge and Kutta. Its gradient is that of `jax.grad`.
"""

import jaxprgen  # noqa: I001  # First: it makes Aesara importable on current NumPy and Python.
import aeppl
import aesara
import aesara.tensor as at
import jax
import numpy as np
from aeppl.transforms import LogTransform, TransformValuesRewrite
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

import figures
from sampling import nuts

jax.config.update("jax_enable_x64", True)

YEARS = np.arange(1900, 1921)
HARES = [30, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22, 25.4, 27.1, 40.3, 57, 76.6]
HARES += [52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7]
LYNXES = [4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1, 7.4, 8, 12.3, 19.5, 45.7, 51.1]
LYNXES += [29.7, 15.8, 9.7, 10.1, 8.6]
PELTS = np.stack([HARES, LYNXES], 1)
NAMES = ["growth of hares", "hares eaten", "decline of lynxes", "lynxes fed"]
PUBLISHED = np.array([0.55, 0.028, 0.80, 0.024])
STEPS = 8
"""Steps of the solver in a year."""
CHAINS, WARMUP, DRAWS = 4, 500, 500

stream = at.random.RandomStream()
rates = stream.normal(np.array([1, 0.05, 1, 0.05]), np.array([0.5, 0.05, 0.5, 0.05]), name="rates")
start = stream.lognormal(np.log(10.0), 1, size=2, name="start")
sigma = stream.lognormal(-1, 1, size=2, name="sigma")


def slope(z, rates):
    """Return the changes of hares and lynxes in a year."""
    hares, lynxes = z[0], z[1]
    growth = hares * (rates[0] - rates[1] * lynxes)
    return at.stack([growth, lynxes * (rates[3] * hares - rates[2])])


def step(z, rates):
    """Take one step of the classical method of Runge and Kutta."""
    h = 1 / STEPS
    first = slope(z, rates)
    second = slope(z + h / 2 * first, rates)
    third = slope(z + h / 2 * second, rates)
    fourth = slope(z + h * third, rates)
    return z + h / 6 * (first + 2 * second + 2 * third + fourth)


path, _ = aesara.scan(step, outputs_info=[start], non_sequences=[rates], n_steps=20 * STEPS)
orbit = at.concatenate([start[None], path])
pelts = stream.lognormal(at.log(orbit[::STEPS]), sigma, name="pelts")

# A sampler needs unbounded variables: the logarithms of all three.
unbounded = TransformValuesRewrite({x: LogTransform() for x in (rates, start, sigma)})
log_posterior, values = aeppl.joint_logprob(
    *(rates, start, sigma), realized={pelts: at.constant(PELTS)}, extra_rewrites=unbounded
)
logdensity = jaxprgen.compile(values, log_posterior, name="lynx")
orbit_of = jaxprgen.compile([rates, start], orbit, name="orbit")


def sample(key):
    """Draw the rates, the start and sigma, and tell which draws diverged."""
    starting, sampling = jax.random.split(key)
    # Start near an orbit of the right period: other periods are modes of their own.
    guess = np.log([0.6, 0.03, 0.8, 0.03]), np.log(PELTS[0]), np.log([0.3, 0.3])
    starts = [
        x + 0.1 * jax.random.normal(key, (CHAINS, len(x)))
        for x, key in zip(guess, jax.random.split(starting, 3), strict=True)
    ]
    draws, diverged = nuts(lambda p: logdensity(*p), tuple(starts), sampling, WARMUP, DRAWS)
    return [np.exp(x) for x in draws], diverged


def main():
    (rates, starts, _), diverged = sample(jax.random.key(0))
    print(f"{int(diverged.sum())} of {diverged.size} draws diverged.\n")
    print(f"{'':20}{'published':>10}{'mean':>8}{'sd':>8}{'size':>8}{'R-hat':>8}")
    for i, name in enumerate(NAMES):
        drawn = rates[..., i]
        size, ratio = effective_sample_size(drawn), split_gelman_rubin(drawn)
        row = f"{name:20}{PUBLISHED[i]:10.3f}{drawn.mean():8.3f}{drawn.std():8.3f}"
        print(f"{row}{size:8.0f}{ratio:8.3f}")
    flat = rates.reshape(-1, 4), starts.reshape(-1, 2)
    orbits = jax.jit(jax.vmap(orbit_of))(*(x[::20] for x in flat))
    return rates, np.asarray(orbits)


def plot(rates, orbits):
    """Draw the populations over time, and against each other: a phase diagram."""
    figure, (left, right) = figures.subplots(1, 2, width_ratios=[3, 2])
    fine = 1900 + np.arange(orbits.shape[1]) / STEPS
    for i, name in enumerate(["hares", "lynxes"]):
        figures.band(left, fine, orbits[..., i], color=f"C{i}", label=name)
        left.plot(YEARS, PELTS[:, i], ".", color=f"C{i}")
    left.set(ylabel="thousand pelts", title="Populations", xticks=[1900, 1905, 1910, 1915, 1920])
    left.legend(loc="upper right")
    for orbit in orbits[::4]:
        right.plot(*orbit[: 12 * STEPS].T, color="C2", lw=0.5, alpha=0.4)
    right.plot(*PELTS.T, ".-", color="0.3", lw=0.5)
    right.set(xlabel="hares", ylabel="lynxes", title="Phase diagram")
    return figure


if __name__ == "__main__":
    figures.save(plot, *main())
