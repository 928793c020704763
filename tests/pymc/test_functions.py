"""Functions of a model: points, data, draws and errors."""

import jax
import numpy as np
import pytest

pytest.importorskip("pymc.model")  # Not "pymc", which is also the name of this folder.

import pymc as pm
import scipy.stats

import jaxprgen.pymc
from jaxprgen.errors import UnknownNameError


@pytest.fixture
def model():
    with pm.Model() as made:
        x = pm.Data("x", np.array([0.0, 1.0, 2.0]))
        slope, sigma = pm.Normal("slope"), pm.HalfCauchy("sigma", 1)
        line = pm.Deterministic("line", slope * x)
        pm.Normal("y", line, sigma, observed=[0.1, 0.9, 2.2])
    return made


POINT = {"slope": np.float64(0.7), "sigma_log__": np.float64(-0.2)}


def log_density(x):
    sigma = np.exp(-0.2)
    prior = scipy.stats.norm.logpdf(0.7) + scipy.stats.halfcauchy.logpdf(sigma) - 0.2
    return prior + scipy.stats.norm.logpdf([0.1, 0.9, 2.2], 0.7 * x, sigma).sum()


def test_a_log_density_works_under_transformations(model):
    f = jaxprgen.pymc.logp(model)
    expected = log_density(np.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(f(POINT), expected, rtol=1e-8)
    x = np.array([0.0, 1.0, 2.0])
    np.testing.assert_allclose(jax.jit(f)(POINT, {"x": x}), expected, rtol=1e-8)
    points = {name: np.stack([value, value]) for name, value in POINT.items()}
    many = jax.vmap(lambda point: f(point, {"x": x}))(points)
    np.testing.assert_allclose(many, [expected, expected], rtol=1e-8)
    slopes = jax.grad(f)(POINT, {"x": x})
    for name, slope in jaxprgen.pymc.dlogp(model)(POINT).items():
        np.testing.assert_allclose(slopes[name], slope, rtol=1e-12)


def test_data_can_be_set_or_replaced(model):
    f, other = jaxprgen.pymc.logp(model), np.array([1.0, -1.0, 0.5])
    np.testing.assert_allclose(f(POINT, {"x": other}), log_density(other), rtol=1e-8)
    with model:
        pm.set_data({"x": other})
    np.testing.assert_allclose(f(POINT), log_density(other), rtol=1e-8)


def test_terms_are_named(model):
    terms = jaxprgen.pymc.logp(model, sum=False)(POINT)
    assert set(terms) == {"slope", "sigma", "y"}
    np.testing.assert_allclose(sum(np.sum(x) for x in terms.values()), log_density(np.arange(3.0)))


def test_invalid_parameters_give_minus_infinity_if_the_model_checks_them():
    for checks in (True, False):
        with pm.Model(check_bounds=checks) as model:
            pm.Normal("y", 0.0, pm.Normal("mu"), observed=0.0)
        found = jaxprgen.pymc.logp(model)({"mu": -1.0})
        assert np.isneginf(found) == checks


def test_draws_from_the_prior(model):
    f = jaxprgen.pymc.prior(model)
    draws = jax.vmap(f)(jax.random.split(jax.random.key(0), 500))
    assert set(draws) == {"slope", "sigma", "line", "y"}
    np.testing.assert_allclose(draws["line"][:, 1], draws["slope"], rtol=1e-12)
    assert scipy.stats.kstest(np.asarray(draws["slope"]), "norm").pvalue > 1e-3
    assert scipy.stats.kstest(np.asarray(draws["sigma"]), "halfcauchy").pvalue > 1e-3


def test_draws_of_observations(model):
    f = jaxprgen.pymc.posterior_predictive(model, ["y", "line"])
    point = {"slope": 2.0, "sigma": 0.5, "line": None}  # Of which "line" follows.
    keys = jax.random.split(jax.random.key(0), 500)
    draws = jax.vmap(lambda key: f(key, point, {"x": np.array([1.0, 2.0, 3.0])}))(keys)
    np.testing.assert_allclose(draws["line"][0], [2.0, 4.0, 6.0])
    assert scipy.stats.kstest(np.asarray(draws["y"][:, 1] - 4.0) / 0.5, "norm").pvalue > 1e-3


def test_wrong_names(model):
    f = jaxprgen.pymc.logp(model)
    with pytest.raises(UnknownNameError) as lacks:
        f({"slope": 1.0, "sigma": 1.0})
    assert str(lacks.value).splitlines() == [
        "jaxprgen.pymc.logp: The point lacks 'sigma_log__'.",
        "  It takes 'slope', 'sigma_log__'; given are 'slope', 'sigma'.",
    ]
    with pytest.raises(UnknownNameError, match=r"The model has no variable 'slop'\."):
        f({**POINT, "slop": 1.0})
    with pytest.raises(UnknownNameError, match=r"There is no data 'z'\."):
        f(POINT, {"z": 1.0})


def test_a_derivative_where_a_factor_is_zero():
    """A skewness of zero, where PyTensor's rewritten switches have derivatives that are NaN."""
    with pm.Model() as model:
        pm.SkewNormal("y", alpha=pm.Normal("a"), observed=[0.3, -1.0, 2.0])
    f, point = jaxprgen.pymc.logp(model), {"a": np.array(0.0)}
    (wanted,) = jaxprgen.pymc.dlogp(model)(point).values()
    np.testing.assert_allclose(wanted, 1.3 * np.sqrt(2 / np.pi), rtol=1e-7)
    np.testing.assert_allclose(jax.grad(f)(point)["a"], wanted, rtol=1e-10)
