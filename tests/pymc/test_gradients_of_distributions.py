"""Gradients of the log-densities of PyMC's distributions are finite and right, also far out."""

import itertools

import numpy as np
import profiles
import pytest

pytest.importorskip("pymc.model")  # Not "pymc", which is also the name of this folder.
pytest.importorskip("mpmath")
pytensor = pytest.importorskip("pytensor")

import pymc as pm  # noqa: E402
import pytensor.tensor as pt  # noqa: E402
from densities import (  # noqa: E402
    AROUND,
    COUNT,
    LOCATION,
    LOGIT,
    OUT,
    POSITIVE,
    PROBABILITY,
    SCALE,
    SHAPE,
    TINY,
    UNIT,
    arguments,
    assert_right_gradients,
)

CONTINUOUS = {
    "AsymmetricLaplace": ({"kappa": (0.5, 2.0), "mu": LOCATION, "b": SCALE}, OUT),
    "Beta": ({"alpha": SHAPE, "beta": SHAPE}, UNIT),
    "Cauchy": ({"alpha": LOCATION, "beta": SCALE}, OUT),
    "ChiSquared": ({"nu": SHAPE}, POSITIVE),
    "ExGaussian": ({**AROUND, "nu": (0.01, 1.0, 30.0)}, OUT),
    "Exponential": ({"lam": SHAPE}, POSITIVE),
    "Gamma": ({"alpha": SHAPE, "beta": SCALE}, POSITIVE),
    "Gumbel": ({"mu": LOCATION, "beta": SCALE}, OUT),
    "HalfCauchy": ({"beta": SCALE}, OUT),
    "HalfNormal": ({"sigma": SCALE}, OUT),
    "HalfStudentT": ({"nu": SHAPE, "sigma": SCALE}, OUT),
    "InverseGamma": ({"alpha": SHAPE, "beta": SCALE}, POSITIVE),
    "Kumaraswamy": ({"a": SHAPE, "b": SHAPE}, UNIT),
    "Laplace": ({"mu": LOCATION, "b": SCALE}, OUT),
    "LogNormal": (AROUND, POSITIVE),
    "Logistic": ({"mu": LOCATION, "s": SCALE}, OUT),
    "LogitNormal": (AROUND, UNIT),
    "Moyal": (AROUND, OUT),
    "Normal": (AROUND, OUT),
    "Pareto": ({"alpha": SHAPE, "m": SCALE}, POSITIVE),
    "Rice": ({"nu": (0.0, 1e-3, 1.0, 40.0), "sigma": SCALE}, POSITIVE),
    "SkewNormal": ({"alpha": (0.0, 1.0, -4.0, 20.0), **AROUND}, OUT),
    "SkewStudentT": ({"a": (0.5, 3.0), "b": (1.0, 40.0), **AROUND}, OUT),
    "StudentT": ({"nu": SHAPE, **AROUND}, OUT),
    "Triangular": ({"lower": (-1.0,), "upper": (1.0, 4.0), "c": (0.0, 1.0, -1.0)}, OUT),
    "TruncatedNormal": ({**AROUND, "lower": (-1.0, 30.0), "upper": (40.0, 41.0)}, OUT),
    "Uniform": ({"lower": (-1.0, 0.0), "upper": (1.0, 20.0)}, OUT),
    "VonMises": ({"mu": (0.0, -3.0), "kappa": TINY}, (0.0, 1.0, -1.0, np.pi, -np.pi, 4.0)),
    "Wald": ({"mu": SCALE, "lam": SHAPE, "alpha": (0.0, 0.05)}, POSITIVE),
    "Weibull": ({"alpha": SHAPE, "beta": SCALE}, POSITIVE),
}
DISCRETE = {
    "Bernoulli": ({"p": PROBABILITY}, (-1, 0, 1, 2)),
    "Bernoulli of logits": ({"logit_p": LOGIT}, (-1, 0, 1, 2)),
    "BetaBinomial": ({"alpha": SHAPE, "beta": SHAPE, "n": (0, 20, 1000)}, COUNT),
    "Binomial": ({"n": (0, 1, 20, 1000), "p": PROBABILITY}, COUNT),
    "Binomial of logits": ({"n": (0, 1, 20, 1000), "logit_p": LOGIT}, COUNT),
    "DiscreteWeibull": ({"q": PROBABILITY[1:-1], "beta": (0.1, 1.25, 2.5)}, COUNT),
    "Geometric": ({"p": PROBABILITY}, COUNT),
    "NegativeBinomial": ({"mu": (1e-12, 1.0, 30.0, 1e6), "alpha": (*SHAPE, 1e10)}, COUNT),
    "NegativeBinomial of p": ({"n": (*SHAPE, 1e10), "p": PROBABILITY[1:]}, COUNT),
    "Poisson": ({"mu": (0.0, 1e-30, 1e-12, 1.0, 30.0, 1e6)}, COUNT),
}
PSI = {"psi": (1e-12, 0.3, 1 - 1e-12)}
MIXED = {
    "HurdleGamma": ({**PSI, "alpha": SHAPE, "beta": SCALE}, POSITIVE),
    "HurdleLogNormal": ({**PSI, **AROUND}, POSITIVE),
    "HurdleNegativeBinomial": ({**PSI, "mu": (0.1, 30.0), "alpha": SHAPE}, COUNT),
    "HurdlePoisson": ({**PSI, "mu": (1e-12, 1.0, 30.0, 800.0)}, COUNT),
    "ZeroInflatedBinomial": ({**PSI, "n": (1, 20), "p": PROBABILITY}, COUNT),
    "ZeroInflatedNegativeBinomial": ({**PSI, "mu": (0.1, 30.0), "alpha": SHAPE}, COUNT),
    "ZeroInflatedPoisson": ({**PSI, "mu": (0.0, 1.0, 30.0, 800.0)}, COUNT),
}
BOUNDS = {"low": (-1.0, -20.0, 5.0), "high": (9.0, 30.0)}
BOUNDED = (
    *("Cauchy", "ChiSquared", "ExGaussian", "Exponential", "Gamma", "Gumbel", "HalfCauchy"),
    *("HalfNormal", "Laplace", "LogNormal", "Logistic", "Moyal", "Normal", "Pareto", "Triangular"),
    *("Uniform", "Wald", "Weibull"),
)
PARTS = {"low": (-1.0, 0.1), "high": (0.5, 9.0)}
PARTED = ("Kumaraswamy",)
COUNTS = {"low": (0, 2), "high": (9, 30)}
# Not "BetaBinomial", whose cumulative probabilities PyMC computes for scalars only.
COUNTED = ("Binomial", "DiscreteWeibull", "Geometric", "NegativeBinomial", "Poisson")
CHOSEN = {
    "Mixture": ({"w": (1e-12, 0.3, 1 - 1e-12), **AROUND}, OUT),
    "OrderedLogistic": ({"eta": LOGIT, "low": (-1.0,), "high": (1.0, 40.0)}, (-1, 0, 1, 2, 3)),
    "OrderedProbit": ({"eta": OUT, "low": (-1.0,), "high": (1.0, 40.0)}, (-1, 0, 1, 2, 3)),
    "Categorical": ({"a": LOGIT, "b": LOGIT}, (-1, 0, 1, 2, 3)),
}
CASES = {
    **(CONTINUOUS | DISCRETE | MIXED | CHOSEN),
    **{
        f"{kind} {name}": ({**parameters, **bounds}, values)
        for bounds, names in ((BOUNDS, BOUNDED), (PARTS, PARTED), (COUNTS, COUNTED))
        for kind, name in itertools.product(("Censored", "Truncated"), names)
        for parameters, values in [(CONTINUOUS | DISCRETE)[name]]
    },
    **{f"Transformed {name}": (x, [*OUT]) for name, (x, _) in CONTINUOUS.items()},
    # Nearer to 0 the derivative of (value - mu) / mu cancels.
    "Transformed Wald": (CONTINUOUS["Wald"][0], OUT[:7]),
}
"""Name -> values of each parameter, values of the variable."""


def distribution(name, **given):
    """Return a distribution of vectors of parameters."""
    kind, _, inner = name.partition(" ")
    if kind in ("Censored", "Truncated"):
        lower, upper = given.pop("low"), given.pop("high")
        return getattr(pm, kind).dist(distribution(inner, **given), lower=lower, upper=upper)
    if kind == "Mixture":
        w, mu, sigma = given.values()
        parts = [pm.Normal.dist(mu, sigma), pm.StudentT.dist(3.0, mu + 1, sigma=sigma)]
        return pm.Mixture.dist(pt.stack([w, 1 - w], axis=-1), parts)
    if kind.startswith("Ordered"):
        eta, *cutpoints = given.values()
        return getattr(pm, kind).dist(eta=eta, cutpoints=pt.stack(cutpoints, axis=-1))
    if kind == "Categorical":
        a, b = given.values()
        return pm.Categorical.dist(logit_p=pt.stack([a, b, 0 * a], axis=-1))
    return getattr(pm, kind).dist(**given)


def graph(name):
    """Return inputs, log-densities of vectors, and vectors."""
    given = arguments(name, *CASES[name])
    inputs = [pt.vector(k, dtype=x.dtype) for k, x in given.items()]
    value, *parameters = inputs
    chosen = distribution(name.removeprefix("Transformed "), **{v.name: v for v in parameters})
    if not name.startswith("Transformed "):
        return inputs, pm.logp(chosen, value), given
    with pm.Model() as model:
        model.register_rv(chosen, name="x")
    return [*model.value_vars, *parameters], *model.logp(sum=False), given


@pytest.mark.filterwarnings(
    "ignore::jaxprgen.errors.RuntimeCheckWarning", "ignore::UserWarning:pymc"
)
@pytest.mark.filterwarnings(
    "ignore:overflow", "ignore:divide", "ignore:invalid", "ignore:underflow"
)
@pytest.mark.parametrize("name", profiles.sample(CASES, 8))
def test_gradients_of_log_densities_are_finite_and_right(name):
    assert_right_gradients(pytensor, *graph(name))
