"""Minima and roots, and their implicit derivatives."""

import jax
import numpy as np
import pytest

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


def test_a_minimum_of_a_number():
    x, a = pt.dscalar("x"), pt.dscalar("a")
    found, success = optimize.minimize_scalar(pt.exp(x) - a * x, x)
    f = jaxprgen.compile([x, a], [found, success])
    value, ok = f(0.0, 20.0)
    assert ok
    np.testing.assert_allclose(value, np.log(20), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda a: f(0.0, a)[0])(20.0), 1 / 20, rtol=1e-5)


METHODS = {"secant": {}, "newton": {"jac": True}, "halley": {"jac": True, "hess": True}}


@pytest.mark.parametrize("method", METHODS)
def test_a_root_of_a_number(method):
    x, a = pt.dscalar("x"), pt.dscalar("a")
    found, success = optimize.root_scalar(x**3 - a, x, method=method, **METHODS[method])
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
    found, success = optimize.root(pt.stack([x[0] * x[1] - a[0], x[0] + x[1] - a[1]]), x)
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
