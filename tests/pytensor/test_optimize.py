"""Minima and roots, and their implicit derivatives."""

import jax
import numpy as np
import pytest
import scipy.optimize

import jaxprgen

pytensor = pytest.importorskip("pytensor")
optimize = pytest.importorskip("pytensor.tensor.optimize")
pt = pytensor.tensor


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B"])
def test_a_minimum_of_a_vector(method):
    x, a = pt.dvector("x"), pt.dscalar("a")
    objective = ((a - x[:-1]) ** 2 + 10 * (x[1:] - x[:-1] ** 2) ** 2).sum()
    found, success = optimize.minimize(objective, x, method=method)
    f = jaxprgen.compile([x, a], [found, success])
    value, ok = f(np.zeros(2), 1.5)
    assert ok
    np.testing.assert_allclose(value, [1.5, 2.25], rtol=1e-4)
    slopes = jax.jacobian(lambda a: f(np.zeros(2), a)[0])(1.5)
    np.testing.assert_allclose(slopes, [1, 3], rtol=1e-3)
    ours = jaxprgen.compile([x, a], pytensor.grad(found[1], a))
    np.testing.assert_allclose(ours(np.zeros(2), 1.5), 3, rtol=1e-3)


def problem(name):
    """An objective, and its minimum."""
    x = pt.dvector("x")
    if name == "rosenbrock":  # Line searches of some libraries fail here.
        return x, ((x[1:] - x[:-1] ** 2) ** 2 / 2 + (1 - x[:-1]) ** 2).sum() + 1, np.ones(5)
    if name == "ill-conditioned":
        return x, (10.0 ** np.arange(5) * (x - 2) ** 2).sum() + 100, np.full(5, 2.0)
    if name == "zero at the minimum":
        matrix = np.random.default_rng(0).normal(size=(20, 5))
        return x, ((matrix @ np.arange(5.0) - pt.dot(matrix, x)) ** 2).sum(), np.arange(5.0)
    return x, pt.logsumexp(pt.concatenate([x, -x])) * 1e-3 + 50, np.zeros(5)


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
@pytest.mark.parametrize("tolerance", [None, 1e-16])
@pytest.mark.parametrize(
    "name", ["rosenbrock", "ill-conditioned", "zero at the minimum", "flat and far from zero"]
)
def test_minima_are_exact_but_for_rounding(name, tolerance):
    """However small the tolerance is."""
    x, objective, minimum = problem(name)
    options = {} if tolerance is None else {"tol": tolerance}
    found, success = optimize.minimize(objective, x, optimizer_kwargs=options)
    value, ok = jaxprgen.compile([x], [found, success])(np.full(5, 0.25))
    assert ok
    np.testing.assert_allclose(value, minimum, rtol=1e-11, atol=1e-11)


def test_no_minimum_is_reported_where_there_is_none_or_steps_run_out():
    x = pt.dvector("x")
    _, unbounded = optimize.minimize(pt.exp(x).sum() - 2 * pt.exp(2 * x).sum(), x)
    x2, objective, _ = problem("rosenbrock")
    options = {"options": {"maxiter": 3}}
    _, few = optimize.minimize(objective, x2, optimizer_kwargs=options)
    assert not jaxprgen.compile([x], unbounded)(np.zeros(2))
    assert not jaxprgen.compile([x2], few)(np.zeros(5))
    rosenbrock = jaxprgen.compile([x2], objective)
    by_scipy = scipy.optimize.minimize(rosenbrock, np.zeros(5), **options)
    assert not by_scipy.success


def test_checks_inside_of_a_solver_hold_at_the_solution():
    """Not on the way there: the search starts below zero."""
    x, a = pt.dscalar("x"), pt.dscalar("a")
    positive = pytensor.raise_op.Assert("x is negative")(x, x >= 0)
    found, _ = optimize.root_scalar(positive**3 - a, x, method="newton", jac=True)
    f = jaxprgen.compile([x, a], found, checks=True)
    np.testing.assert_allclose(f(-1.0, 8.0), 2, rtol=1e-9)
    with pytest.raises(AssertionError, match="x is negative"):
        f(1.0, -8.0)


def test_a_minimum_of_a_number():
    x, a = pt.dscalar("x"), pt.dscalar("a")
    found, success = optimize.minimize_scalar(pt.exp(x) - a * x, x)
    f = jaxprgen.compile([x, a], [found, success])
    value, ok = f(0.0, 20.0)
    assert ok
    np.testing.assert_allclose(value, np.log(20), rtol=1e-14)
    np.testing.assert_allclose(jax.grad(lambda a: f(0.0, a)[0])(20.0), 1 / 20, rtol=1e-5)


METHODS = {"secant": {}, "newton": {"jac": True}, "halley": {"jac": True, "hess": True}}


@pytest.mark.parametrize("method", METHODS)
def test_a_root_of_a_number(method):
    x, a = pt.dscalar("x"), pt.dscalar("a")
    options = {**METHODS[method], "optimizer_kwargs": {"xtol": 1e-16}}
    found, success = optimize.root_scalar(x**3 - a, x, method=method, **options)
    f = jaxprgen.compile([x, a], [found, success])
    value, ok = f(1.0, 8.0)
    assert ok
    np.testing.assert_allclose(value, 2, rtol=1e-9)
    np.testing.assert_allclose(jax.grad(lambda a: f(1.0, a)[0])(8.0), 1 / 12, rtol=1e-8)


@pytest.mark.parametrize("low", [0.0, 3.0])
def test_a_root_in_a_bracket(low):
    """Without a change of sign there is no root."""
    x, a, b = pt.dscalar("x"), pt.dscalar("a"), pt.dscalar("b")
    try:
        found, success = optimize.root_scalar(x**3 - a, x, method="brentq", bracket=[b, 5.0])
    except TypeError:
        pytest.skip("This PyTensor takes no symbolic bracket.")
    value, ok = jaxprgen.compile([x, a, b], [found, success])(1.0, 8.0, low)
    assert ok == (low == 0)
    np.testing.assert_allclose(value, 2 if ok else np.nan, rtol=1e-9)


def test_a_root_of_a_system():
    x, a = pt.dvector("x"), pt.dvector("a")
    equations = pt.stack([x[0] * x[1] - a[0], x[0] + x[1] - a[1]])
    found, success = optimize.root(equations, x, optimizer_kwargs={"tol": 1e-16})
    f = jaxprgen.compile([x, a], [found, success])
    value, ok = f(np.array([0.5, 5.0]), np.array([6.0, 5.0]))
    assert ok
    np.testing.assert_allclose(value, [2, 3], rtol=1e-9)
    slopes = jax.jacobian(lambda a: f(np.array([0.5, 5.0]), a)[0])(np.array([6.0, 5.0]))
    np.testing.assert_allclose(slopes, np.linalg.inv([[3, 2], [1, 1]]), rtol=1e-8)


def test_what_the_methods_do_not_take_is_refused():
    x = pt.dvector("x")
    found, _ = optimize.minimize((x**2).sum(), x, optimizer_kwargs={"bounds": [(0, 1)]})
    with pytest.raises(jaxprgen.errors.UnsupportedOpError, match="do not take bounds"):
        jaxprgen.compile([x], found)(np.ones(1))
