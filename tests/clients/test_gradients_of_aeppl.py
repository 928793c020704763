"""Gradients of the log-densities of aeppl's distributions are finite and right, also far out."""

import aesara
import aesara.tensor as at
import numpy as np
import profiles
import pytest
from aeppl.logprob import logcdf, logprob
from densities import (
    COUNT,
    LOCATION,
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

AROUND = {"loc": LOCATION, "scale": SCALE}
SHAPES = {"a": SHAPE, "b": SHAPE}
CASES = {
    "normal": (AROUND, OUT),
    "normal cdf": (AROUND, OUT),
    "halfnormal": (AROUND, OUT),
    "uniform": ({"low": (-1.0, 0.0), "high": (1.0, 20.0)}, OUT),
    "uniform cdf": ({"low": (-1.0, 0.0), "high": (1.0, 20.0)}, OUT),
    "beta": (SHAPES, UNIT),
    "exponential": ({"scale": SHAPE}, POSITIVE),
    "laplace": (AROUND, OUT),
    "lognormal": (AROUND, POSITIVE),
    "pareto": ({"b": SHAPE, "scale": SCALE}, POSITIVE),
    "cauchy": (AROUND, OUT),
    "halfcauchy": (AROUND, OUT),
    "gamma": ({"shape": SHAPE, "rate": SCALE}, POSITIVE),
    "invgamma": ({"shape": SHAPE, "scale": SCALE}, POSITIVE),
    "chisquare": ({"df": SHAPE}, POSITIVE),
    # Nearer to 0 the derivative of (value - mean) / mean cancels.
    "wald": ({"mean": SCALE, "scale": SHAPE}, (-1.0, 0.0, *POSITIVE[4:])),
    "weibull": ({"shape": SHAPE}, POSITIVE),
    "vonmises": ({"mu": (0.0, -3.0), "kappa": TINY}, (0.0, 1.0, -1.0, np.pi, -np.pi, 4.0)),
    "triangular": ({"left": (-1.0,), "mode": (0.0, 1.0, -1.0), "right": (1.0, 4.0)}, OUT),
    "gumbel": (AROUND, OUT),
    "logistic": (AROUND, OUT),
    "t": ({"df": SHAPE, **AROUND}, OUT),
    "binomial": ({"n": (0, 1, 20, 1000), "p": PROBABILITY}, COUNT),
    "betabinom": ({"n": (0, 20, 1000), **SHAPES}, COUNT),
    "bernoulli": ({"p": PROBABILITY}, (-1, 0, 1, 2)),
    "poisson": ({"mu": (0.0, 1e-30, 1e-12, 1.0, 30.0, 1e6)}, COUNT),
    "poisson cdf": ({"mu": (1e-12, 1.0, 30.0)}, COUNT[:5]),
    "nbinom": ({"n": (*SHAPE, 1e10), "p": PROBABILITY[1:]}, COUNT),
    "geometric": ({"p": PROBABILITY}, COUNT),
    "geometric cdf": ({"p": PROBABILITY[1:-1]}, COUNT),
}
"""Name -> values of each parameter, values of the variable."""


def graph(name):
    """Return inputs, log-densities of vectors, and vectors."""
    given = arguments(name, *CASES[name])
    inputs = [at.vector(k, dtype=x.dtype) for k, x in given.items()]
    value, *parameters = inputs
    kind, _, cdf = name.partition(" ")
    chosen = getattr(at.random, kind)(*parameters)
    return inputs, (logcdf if cdf else logprob)(chosen, value), given


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
@pytest.mark.filterwarnings(
    "ignore:overflow", "ignore:divide", "ignore:invalid", "ignore:underflow"
)
@pytest.mark.parametrize("name", profiles.sample(CASES, 8))
def test_gradients_of_log_densities_are_finite_and_right(name):
    assert_right_gradients(aesara, *graph(name))
