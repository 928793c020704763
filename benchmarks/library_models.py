"""Models that Bambi and pymc-extras make, with made data, for `benchmarks/posteriors.py`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

ROWS = 200
TRIALS = 10
POINTS = 100
"""Points of a time series."""

_FORMULAS = {
    "asymmetriclaplace": "y ~ x + z",
    "bernoulli": "b ~ x + z + (1|g)",
    "beta": "share ~ x + z",
    "beta_binomial": "p(wins, trials) ~ x",
    "binomial": "p(wins, trials) ~ x + (1|g)",
    "categorical": "kind ~ x + z",
    "cumulative": "kind ~ x + z",
    "dirichlet_multinomial": "c(n0, n1, n2) ~ x",
    "exgaussian": "y ~ x + z",
    "exponential": "positive ~ x + z",
    "gamma": "positive ~ x + (1|g)",
    "gaussian": "y ~ x + z + (x|g)",
    "hurdle_gamma": "with_zeros ~ x",
    "hurdle_lognormal": "with_zeros ~ x",
    "hurdle_negativebinomial": "count ~ x",
    "hurdle_poisson": "count ~ x",
    "laplace": "y ~ x + z",
    "lognormal": "positive ~ x + z",
    "multinomial": "c(n0, n1, n2) ~ x",
    "negativebinomial": "count ~ x + (1|g)",
    "poisson": "count ~ x + z + (1|g)",
    "sratio": "kind ~ x + z",
    "t": "y ~ x + z",
    "vonmises": "angle ~ x",
    "wald": "positive ~ x",
    "weibull": "positive ~ x",
    "zero_inflated_binomial": "p(wins, trials) ~ x",
    "zero_inflated_negativebinomial": "count ~ x",
    "zero_inflated_poisson": "count ~ x",
}
"""A formula for each family of Bambi."""

_TERMS = {
    "polynomial": ("gaussian", "y ~ poly(x, 3)"),
    "splines": ("gaussian", "y ~ bs(x, df=6)"),
    "interaction": ("poisson", "count ~ x * group"),
    "offset": ("poisson", "count ~ x + offset(z)"),
    "crossed groups": ("gaussian", "y ~ x + (1|g) + (1|h)"),
    "nested groups": ("bernoulli", "b ~ x + (1|g:h)"),
    "Gaussian process": ("gaussian", "y ~ 0 + hsgp(x, m=10, c=2)"),
    "Gaussian process by group": ("poisson", "count ~ 0 + hsgp(x, by=group, m=8, c=2)"),
    "censored gaussian": ("gaussian", "censored(limited, status) ~ x"),
    "censored weibull": ("weibull", "censored(positive, status) ~ x"),
    "truncated gaussian": ("gaussian", "truncated(limited, -1, 2) ~ x"),
    "weighted": ("gaussian", "weighted(y, weight) ~ x"),
    "no common terms": ("gaussian", "y ~ 0 + (1|g)"),
}
"""Families and formulas with the other kinds of terms and responses that Bambi has."""

_OF_PARAMETERS = {
    "sigma": ("gaussian", "y ~ x", "sigma ~ z"),
    "alpha": ("gamma", "positive ~ x", "alpha ~ z"),
    "kappa": ("beta", "share ~ x", "kappa ~ z"),
    "psi": ("zero_inflated_poisson", "count ~ x", "psi ~ z"),
}
"""Families and formulas of two parameters each."""


def _data() -> pd.DataFrame:
    """Return two hundred rows with a response for each family."""
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, ROWS))
    groups = rng.integers(0, 8, size=(2, ROWS))
    y = 0.5 + 0.8 * x - 0.3 * z + 0.2 * groups[0] + 0.5 * rng.normal(size=ROWS)
    positive = rng.gamma(3.0, np.exp(0.3 * x) / 3)
    parts = rng.multinomial(TRIALS, [0.2, 0.3, 0.5], size=ROWS)
    kinds = pd.Categorical.from_codes(rng.integers(0, 4, ROWS), list("abcd"), ordered=True)
    limited = np.clip(y, -1, 2)
    status = np.where(limited >= 2, "right", np.where(limited <= -1, "left", "none"))
    columns = {
        "x": x,
        "z": z,
        "g": [f"g{i}" for i in groups[0]],
        "h": [f"h{i}" for i in groups[1]],
        "group": [f"k{i % 3}" for i in groups[0]],
        "y": y,
        "b": (y > 0).astype(int),
        "share": rng.beta(2, 3, ROWS),
        "wins": rng.binomial(TRIALS, 0.4, ROWS),
        "trials": np.full(ROWS, TRIALS),
        "kind": kinds,
        "positive": positive,
        "with_zeros": np.where(rng.random(ROWS) < 0.2, 0.0, positive),
        "count": rng.poisson(np.exp(0.4 * x)),
        "angle": rng.vonmises(0.5, 2.0, ROWS),
        "limited": limited,
        "status": status,
        "weight": rng.integers(1, 4, ROWS),
        **{f"n{i}": parts[:, i] for i in range(3)},
    }
    return pd.DataFrame(columns)


def bambi_models() -> dict[str, Callable[[], Any]]:
    """Return functions that make models of Bambi, by name: of all families and kinds of terms."""
    import bambi

    data = _data()

    def make(family: str, *formulas: str) -> Any:
        # With their own links, the mean at the initial point is infinite.
        link = "log" if family in ("gamma", "wald") else None
        model = bambi.Model(bambi.Formula(*formulas), data, family=family, link=link)
        model.build()
        return model.backend.model

    plain = {family: partial(make, family, formula) for family, formula in _FORMULAS.items()}
    rows = {
        **{name: partial(make, *parts) for name, parts in _TERMS.items()},
        **{f"{parts[0]}, {name}": partial(make, *parts) for name, parts in _OF_PARAMETERS.items()},
    }
    return plain | rows


def _priors(space: Any) -> None:
    """Give each parameter of a state-space model a prior of its shape."""
    for name, about in space.param_info.items():
        shape = about["shape"]
        if "P0" in name and len(shape) == 2:
            scale = pm.HalfNormal(f"{name}_scale", shape=shape[0])
            pm.Deterministic(name, pt.diag(scale + 0.1))
        elif any(word in name for word in ("sigma", "P0")) or about["constraints"] == "Positive":
            pm.HalfNormal(name, shape=shape)
        elif "alpha" in name or "beta" in name or "gamma" in name:
            pm.Beta(name, 2, 5, shape=shape)
        else:
            pm.Normal(name, 0, 0.3, shape=shape)


def extras_models() -> dict[str, Callable[[], Any]]:
    """Return functions that make models of pymc-extras: state spaces, distributions, others."""
    import pymc_extras as pmx
    from pymc_extras.statespace import (
        BayesianETS,
        BayesianSARIMAX,
        BayesianVARMAX,
        structural as st,
    )

    rng = np.random.default_rng(4)
    series = np.cumsum(0.3 * rng.normal(size=POINTS))
    ordinary, positive = rng.normal(size=60), rng.gamma(2.0, size=60)
    counts = rng.poisson(3, size=60)

    def state_space(build: Callable[[], Any], columns: int = 1) -> Any:
        names = [f"y{i}" for i in range(columns)]
        values = np.stack([series + 0.1 * i * rng.normal(size=POINTS) for i in range(columns)], 1)
        dates = pd.date_range("2020-01-01", periods=POINTS, freq="MS")
        space = build()
        with pm.Model(coords=space.coords) as model:
            _priors(space)
            space.build_statespace_graph(pd.DataFrame(values, dates, names))
        return model

    def structural(*parts: Any) -> Callable[[], Any]:
        return lambda: sum(parts[1:], parts[0]).build(verbose=False)

    trend = st.LevelTrend(order=2, innovations_order=[0, 1])
    noise = st.MeasurementError()
    spaces: dict[str, Callable[[], Any]] = {
        "level trend": structural(trend, noise),
        "level": structural(st.LevelTrend(order=1, innovations_order=1), noise),
        "trend and seasons": structural(trend, st.TimeSeasonality(season_length=4), noise),
        "trend and frequencies": structural(trend, st.FrequencySeasonality(season_length=12, n=2)),
        "trend and cycle": structural(trend, st.Cycle(cycle_length=12), noise),
        "autoregression": structural(st.Autoregressive(order=2), noise),
        "ARIMA(1, 1, 1)": lambda: BayesianSARIMAX(
            (1, 1, 1), stationary_initialization=False, verbose=False
        ),
        "SARIMA": lambda: BayesianSARIMAX((1, 0, 1), seasonal_order=(1, 0, 0, 4), verbose=False),
        "ETS": lambda: BayesianETS(order=("A", "A", "N"), endog_names=["y0"], verbose=False),
    }
    vector = partial(BayesianVARMAX, order=(1, 0), verbose=False)

    def with_law(make: Callable[[], Any]) -> Any:
        with pm.Model() as model:
            make()
        return model

    def scale() -> Any:
        return pm.HalfNormal("scale")

    laws: dict[str, Callable[[], Any]] = {
        "Chi": lambda: pmx.Chi("y", nu=pm.Gamma("nu", 3, 1), observed=positive),
        "Maxwell": lambda: pmx.Maxwell("y", a=scale(), observed=positive),
        "GenExtreme": lambda: pmx.GenExtreme(
            "y", mu=pm.Normal("mu"), sigma=scale(), xi=0.1, observed=ordinary
        ),
        "GeneralizedPoisson": lambda: pmx.GeneralizedPoisson(
            "y", mu=pm.Gamma("mu", 3, 1), lam=pm.Uniform("lam", 0, 0.9), observed=counts
        ),
        "BetaNegativeBinomial": lambda: pmx.BetaNegativeBinomial(
            "y", pm.Gamma("a", 3, 1), pm.Gamma("b", 3, 1), r=scale(), observed=counts
        ),
        "Skellam": lambda: pmx.Skellam(
            "y", mu1=pm.Gamma("one", 3, 1), mu2=pm.Gamma("two", 3, 1), observed=counts - 3
        ),
    }

    def shrinkage() -> None:
        inputs = rng.normal(size=(60, 5))
        sigma = pm.HalfNormal("sigma")
        rest, b = pmx.R2D2M2CP(
            "b", sigma, inputs.std(0), dims="inputs", r2=0.8, variables_importance=np.ones(5)
        )
        pm.Normal("y", pt.dot(inputs, b), rest, observed=ordinary)

    def chain() -> None:
        steps = pm.Dirichlet("steps", np.ones((3, 3)))
        start = pm.Categorical.dist(p=np.ones(3) / 3)
        pmx.DiscreteMarkovChain("y", P=steps, init_dist=start, observed=counts % 3)

    def marginal(build: Callable[[], None], names: list[str]) -> Any:
        with pm.Model() as model:
            build()
        return pmx.marginalize(model, names)

    def mixture() -> None:
        which = pm.Categorical("which", p=pm.Dirichlet("w", np.ones(3)), shape=60)
        mu = pm.Normal("mu", [-1, 0, 1], 1, shape=3)
        pm.Normal("y", mu[which], pm.HalfNormal("sigma"), observed=ordinary)

    def hidden_chain() -> None:
        steps = pm.Dirichlet("steps", np.ones((2, 2)))
        start = pm.Categorical.dist(p=np.ones(2) / 2)
        state = pmx.DiscreteMarkovChain("state", P=steps, init_dist=start, shape=60)
        mu = pm.Normal("mu", [-1, 1], 1, shape=2)
        pm.Normal("y", mu[state], 0.5, observed=ordinary)

    def change() -> None:
        when = pm.DiscreteUniform("when", 0, 59)
        mu = pt.switch(np.arange(60) < when, pm.Normal("before"), pm.Normal("after"))
        pm.Normal("y", mu, pm.HalfNormal("sigma"), observed=ordinary)

    def with_coordinates() -> Any:
        with pm.Model(coords={"inputs": range(5)}) as model:
            shrinkage()
        return model

    return {
        **{name: partial(state_space, build) for name, build in spaces.items()},
        "VAR(1)": partial(state_space, lambda: vector(endog_names=["y0", "y1"]), 2),
        **{name: partial(with_law, make) for name, make in laws.items()},
        "R2D2M2": with_coordinates,
        "Markov chain": partial(with_law, chain),
        "marginal mixture": partial(marginal, mixture, ["which"]),
        "hidden Markov chain": partial(marginal, hidden_chain, ["state"]),
        "change point": partial(marginal, change, ["when"]),
    }
