"""Measure PyMC models beside PyTensor's JAX mode: ``python benchmarks/pymc_models.py``.

For each model, the first number is the log-density with its gradient at the initial point, from the
model's graph: with this package by `jaxprgen.pymc.logp` and ``jax.value_and_grad``, with PyTensor
by the function that PyMC's JAX samplers use. PyMC finds the point before. Each figure is the median
of fresh processes that alternate between the two; none finds programs in a cache. Calls of both are
made in turn, in another process. ``--sample`` draws from the radon model by NumPyro's NUTS and by
nutpie, with and without `jaxprgen.pymc.sampling`, also in fresh processes: seconds of the whole
call, milliseconds of it for an effective draw of the variable that has fewest, the largest R-hat,
and the largest difference of posterior means in units of its Monte Carlo error.
"""

import argparse
import contextlib
import importlib
import json
import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from processes import in_turn

ROUNDS = 3
RNG = np.random.default_rng(1)
COUNTIES = 85
SEED = 2
"""The seed of draws. With 1, a chain without us and with us stays where its steps are tiny."""
SAMPLERS: dict[str, dict[str, str]] = {"numpyro": {"chain_method": "vectorized"}, "nutpie": {}}
"""Samplers of `pymc.sample`, and what they are called with."""


def radon() -> None:
    """Make a regression of 919 houses with slopes per county, and an LKJ prior (synthetic data)."""
    county, floor = RNG.integers(0, COUNTIES, 919), RNG.integers(0, 2, 919)
    y = 1.3 - 0.6 * floor + 0.3 * RNG.normal(size=COUNTIES)[county] + 0.7 * RNG.normal(size=919)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=2))
    ab = pm.Normal("mean", 0, 5, shape=2) + pt.dot(pm.Normal("z", shape=(COUNTIES, 2)), chol.T)
    mu = ab[county, 0] + ab[county, 1] * floor
    pm.Normal("y", mu, pm.Exponential("sigma", 1.0), observed=y)


def gaussian_process() -> None:
    """Make a regression by a Gaussian process at 100 points."""
    x = np.linspace(0, 10, 100)
    cov = pm.HalfNormal("eta") ** 2 * pm.gp.cov.Matern52(1, ls=pm.Gamma("ls", 2, 1))
    gp, y = pm.gp.Marginal(cov_func=cov), np.sin(x) + 0.1 * RNG.normal(size=100)
    gp.marginal_likelihood("y", X=x[:, None], y=y, sigma=pm.HalfNormal("sigma"))


def stochastic_volatility() -> None:
    """Make a stochastic volatility model of 500 returns."""
    step, init = pm.Exponential("step", 10), pm.Normal.dist(0, 1)
    h = pm.GaussianRandomWalk("h", sigma=step, init_dist=init, shape=500)
    returns = 0.02 * RNG.normal(size=500)
    pm.StudentT("r", nu=pm.Exponential("nu", 0.1), sigma=pm.math.exp(h), observed=returns)


def scalars() -> None:
    """Make 60 scalar variables in a loop, each with an observation."""
    mu, sigma = pm.Normal("mu"), pm.HalfNormal("sigma")
    for i in range(60):
        pm.Normal(f"y{i}", pm.Normal(f"x{i}", mu, sigma), 1.0, observed=0.1 * i)


def unrolled() -> None:
    """Make an autoregression written as a loop of 80 steps."""
    rho, sigma, x = pm.Uniform("rho", -1, 1), pm.HalfNormal("sigma"), 0.0
    for i in range(80):
        x = rho * x + sigma * np.sin(i)
        pm.Normal(f"y{i}", x, 1.0, observed=np.cos(i))


def marketing_mix() -> None:
    """Make a regression of 156 weekly sales on lasting, saturating effects of three channels."""
    weeks, lags, sales = np.arange(156), 8, 1 + 0.2 * RNG.normal(size=156)
    spent = np.pad(RNG.gamma(2, 0.3, size=(156, 3)), ((lags - 1, 0), (0, 0)))
    decay = pm.Beta("decay", 1, 3, shape=3) ** np.arange(lags)[:, None]
    decay = decay / decay.sum(0)
    lasting = sum(decay[i] * spent[lags - 1 - i :][:156] for i in range(lags))
    rate, effect = pm.Gamma("rate", 3, 1, shape=3), pm.HalfNormal("effect", 2, shape=3)
    saturated = (1 - pm.math.exp(-rate * lasting)) / (1 + pm.math.exp(-rate * lasting))
    # Seasons and controls are computed in the graph, from data that stay.
    angles = 2 * np.pi * pt.as_tensor(weeks / 52.18)[:, None] * np.arange(1, 3)
    seasons = pt.concatenate([pt.sin(angles), pt.cos(angles)], axis=1)
    controls = pm.Data("controls", RNG.normal(2, 3, size=(156, 2)))
    controls = (controls - controls.mean(0)) / controls.std(0)
    mu = pm.Normal("level", 1, 1) + pm.Normal("trend", 0, 0.1) * weeks / 156
    mu = mu + saturated @ effect + seasons @ pm.Laplace("season", 0, 0.2, shape=4)
    mu = mu + controls @ pm.Normal("control", 0, 1, shape=2)
    pm.Normal("sales", mu, pm.HalfNormal("sigma"), observed=sales)


MODELS = {
    f.__name__: f
    for f in (radon, gaussian_process, stochastic_volatility, scalars, unrolled, marketing_mix)
}


def make(name: str) -> Any:
    """Return the model, after importing what builds it."""
    global pm, pt
    import pymc as pm
    import pytensor.tensor as pt

    with pm.Model() as model:
        MODELS[name]()
    return model


def gradient(model: Any, point: Any, who: str) -> tuple[Callable[[Any], Any], Any]:
    """Return the function of the log-density and its gradient, and its argument for a point."""
    import jax
    import pymc.sampling.jax as samplers

    import jaxprgen.pymc

    if who == "ours":
        return jax.jit(jax.value_and_grad(jaxprgen.pymc.logp(model))), point
    negative = samplers.get_jaxified_logp(model, negative_logp=True)
    return jax.jit(jax.value_and_grad(negative)), list(point.values())


def first_number(name: str, who: str) -> dict[str, float]:
    """Return seconds to the first log-density with gradient."""
    import jax
    import pymc.sampling.jax  # noqa: F401  # The time does not include it.

    import jaxprgen.pymc  # noqa: F401

    jax.config.update("jax_enable_x64", True)
    model = make(name)
    point = model.initial_point()
    jax.value_and_grad(jax.jit(lambda x: x**2))(1.0)  # JAX itself starts.
    began = time.perf_counter()
    function, argument = gradient(model, point, who)
    value, _ = jax.block_until_ready(function(argument))
    return {"first": time.perf_counter() - began, "value": float(value)}


def calls(name: str) -> dict[str, float]:
    """Return seconds of calls that are made in turn, in random order."""
    import jax

    jax.config.update("jax_enable_x64", True)
    model, order = make(name), ["ours", "theirs"]
    made = {who: gradient(model, model.initial_point(), who) for who in order}
    arguments = {who: jax.device_put(argument) for who, (_, argument) in made.items()}
    times: dict[str, list[float]] = {who: [] for who in order}
    for _ in range(1_000):
        RNG.shuffle(order)
        for who in order:
            began = time.perf_counter()
            jax.block_until_ready(made[who][0](arguments[who]))
            times[who].append(time.perf_counter() - began)
    return {who: float(np.median(seconds)) for who, seconds in times.items()}


def draw(sampler: str, who: str) -> dict[str, Any]:
    """Return seconds of `pymc.sample` by a sampler, and summaries of the posterior."""
    import arviz as az
    import jax

    import jaxprgen.pymc

    jax.config.update("jax_enable_x64", True)
    model = make("radon")
    importlib.import_module("pymc.sampling.jax")  # Neither time includes it.
    block = jaxprgen.pymc.sampling() if who == "ours" else contextlib.nullcontext()
    began = time.perf_counter()
    with model, block:
        trace = pm.sample(
            500,
            tune=500,
            chains=2,
            nuts_sampler=sampler,
            random_seed=SEED,
            progressbar=False,
            nuts_sampler_kwargs=SAMPLERS[sampler],
        )
    seconds = time.perf_counter() - began
    table = az.summary(trace, var_names=["mean", "sigma", "chol"], round_to="none")
    columns = {"mean": "mean", "error": "mcse_mean", "rhat": "r_hat", "effective": "ess_bulk"}
    return {"seconds": seconds, **{k: list(map(float, table[v])) for k, v in columns.items()}}


def report() -> None:
    """Print a line for each model."""
    print(f"{'':24}{'first, s':>10}{'JAX mode':>10}{'ratio':>8}{'call, µs':>12}{'JAX mode':>10}")
    for name in MODELS:
        cases = (name, "ours"), (name, "theirs"), (name, "calls")
        ours, theirs, calls = in_turn(__file__, ROUNDS, cases)
        assert np.isclose(ours["value"], theirs["value"])
        ratio = theirs["first"] / ours["first"]
        print(
            f"{name:24}{ours['first']:10.2f}{theirs['first']:10.2f}{ratio:8.1f}"
            f"{calls['ours'] * 1e6:12.0f}{calls['theirs'] * 1e6:10.0f}",
            flush=True,
        )


def report_draws() -> None:
    """Print what samplers take with and without this package, and compare posteriors."""
    from processes import measured

    for sampler in SAMPLERS:
        rows: dict[str, Any] = {
            who: [measured(__file__, sampler, who) for _ in range(ROUNDS)]
            for who in ("ours", "theirs")
        }
        for who, found in rows.items():
            seconds = np.median([row["seconds"] for row in found])
            each = np.median([1e3 * row["seconds"] / min(row["effective"]) for row in found])
            print(f"{sampler}, {who}: {seconds:.1f} s, {each:.1f} ms for an effective draw")
        ours, theirs = rows["ours"][0], rows["theirs"][0]
        error = np.hypot(ours["error"], theirs["error"])
        apart = np.abs(np.subtract(ours["mean"], theirs["mean"])) / error
        print(f"R-hat {max(ours['rhat']):.3f} and {max(theirs['rhat']):.3f}; ", end="")
        print(f"means {apart.max():.1f} standard errors apart at most", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--one", nargs=2)
    asked = parser.parse_args()
    if asked.one:
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        name, who = asked.one
        if name in SAMPLERS:
            result = draw(name, who)
        else:
            result = calls(name) if who == "calls" else first_number(name, who)
        print(json.dumps(result))
    elif asked.sample:
        report_draws()
    else:
        report()
