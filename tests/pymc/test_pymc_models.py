"""PyMC's models: log-densities and gradients agree with PyTensor's Python mode."""

import jax
import numpy as np
import profiles
import pytest

pytest.importorskip("pymc.model")  # Not "pymc", which is also the name of this folder.
pytensor = pytest.importorskip("pytensor")

import pymc as pm  # noqa: E402
import pytensor.tensor as pt  # noqa: E402
from models import MODELS  # noqa: E402
from pytensor.compile.mode import Mode  # noqa: E402

import jaxprgen.pymc  # noqa: E402

PYTHON = Mode("py", None)
"""Without rewrites, which merge sums to more operands than Python mode takes."""
REWRITTEN = {"conditional_autoregression"}
"""Models that PyTensor evaluates only after rewrites."""


def point_of(model):
    """A point beside the initial one, which is special in some models."""
    rng = np.random.default_rng(0)
    point = model.initial_point(random_seed=1)
    moved = {k: x + 0.1 * rng.normal(size=x.shape) for k, x in point.items() if x.dtype.kind == "f"}
    return {**point, **moved}


def expected(model, point, mode):
    """The log-density and its gradient with respect to continuous variables, by Python mode."""
    terms, wrt = model.logp(sum=False), model.continuous_value_vars
    slopes = pytensor.grad(model.logp(), wrt, disconnected_inputs="ignore")
    with model:
        f = pm.compile(model.value_vars, [*terms, *slopes], mode=mode, on_unused_input="ignore")
    found = f(*(point[v.name] for v in model.value_vars))
    names = [v.name for v in wrt]
    count = len(terms)
    return sum(map(np.sum, found[:count])), dict(zip(names, found[count:], strict=True))


def assert_as_by(model, mode):
    """Its log-density and its gradients agree with those of a mode."""
    point = point_of(model)
    density, slopes = expected(model, point, mode)
    assert np.isfinite(density)
    f = jaxprgen.pymc.logp(model)
    np.testing.assert_allclose(f(point), density, rtol=1e-8)
    assert_agree(jaxprgen.pymc.dlogp(model)(point), slopes)
    assert_agree(jax.grad(lambda part: f({**point, **part}))({k: point[k] for k in slopes}), slopes)


def assert_agree(found, reference):
    for name, slope in reference.items():
        scale = max(1.0, np.max(np.abs(slope), initial=0.0))
        np.testing.assert_allclose(found[name], slope, rtol=1e-8, atol=1e-8 * scale, err_msg=name)


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
# PyMC announces what it does with missing data, and clones of variables in densities of walks.
@pytest.mark.filterwarnings("ignore::UserWarning:pymc")
@pytest.mark.parametrize("name", profiles.sample(MODELS, 5))
def test_a_log_density_and_its_gradients_agree_with_python_mode(name):
    assert_as_by(MODELS[name](), "FAST_COMPILE" if name in REWRITTEN else PYTHON)


def test_sums_may_have_more_operands_than_numpy_functions_take():
    with pm.Model() as model:
        terms = [pm.Normal(f"x{i}") for i in range(70)]
        pm.Normal("y", sum(terms), 1.0, observed=0.0)
    point = {v.name: np.float64(0.1) for v in model.value_vars}
    expected = -71 * 0.5 * np.log(2 * np.pi) - 0.5 * (70 * 0.01 + 7.0**2)
    np.testing.assert_allclose(jaxprgen.pymc.logp(model)(point), expected, rtol=1e-12)
    slopes = jaxprgen.pymc.dlogp(model)(point)
    np.testing.assert_allclose(list(slopes.values()), np.full(70, -0.1 - 7.0), rtol=1e-12)


@pytest.mark.parametrize("mean", [pt.reciprocal, lambda eta: 1 / pt.sqrt(eta)])
def test_a_mean_may_be_infinite_at_the_initial_point(mean):
    with pm.Model() as model:
        eta = pm.Flat("eta", shape=3)
        pm.Wald("y", mu=mean(eta), lam=pm.HalfCauchy("lam", 1), observed=[0.5, 1.0, 2.0])
    point = model.initial_point()
    assert not np.any(point["eta"])
    density, _ = expected(model, point, "FAST_COMPILE")
    assert np.isfinite(density)
    f = jaxprgen.pymc.logp(model)
    np.testing.assert_allclose(f(point), density, rtol=1e-12)
    if mean is pt.reciprocal:  # The slope of a root is infinite at 0.
        np.testing.assert_allclose(jax.grad(f)(point)["eta"], np.ones(3), rtol=1e-12)


def test_a_probability_may_be_that_of_what_is_observed():
    with pm.Model() as model:
        p = pm.Flat("p", shape=3)
        pm.Bernoulli("y", p=p, observed=[1, 0, 1])
    point = {"p": np.array([1.0, 0.0, 0.25])}
    _, slopes = expected(model, point, "FAST_COMPILE")
    np.testing.assert_allclose(slopes["p"], [1.0, -1.0, 4.0])
    for found in (jaxprgen.pymc.dlogp(model)(point), jax.grad(jaxprgen.pymc.logp(model))(point)):
        np.testing.assert_allclose(found["p"], slopes["p"])
