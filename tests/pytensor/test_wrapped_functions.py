"""JAX functions that PyTensor wraps are parts of the program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprgen

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")
wrap_jax = pytest.importorskip("pytensor.link.jax.ops").wrap_jax


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_wrapped_function_and_its_gradients():
    @wrap_jax
    def function(x, y):
        return jnp.sum(jnp.sin(x) * y)

    x, y = (pt.tensor(name, dtype="float64", shape=(2,)) for name in "xy")
    value = function(x, y) ** 2
    args = np.array([0.1, 0.2]), np.array([1.0, -2.0])
    total = np.sum(np.sin(args[0]) * args[1])
    wanted = 2 * total * np.cos(args[0]) * args[1]
    f = jaxprgen.compile([x, y], [value, pytensor.grad(value, x)])
    found, slopes = f(*args)
    np.testing.assert_allclose(found, total**2, rtol=1e-12)
    np.testing.assert_allclose(slopes, wanted, rtol=1e-12)
    np.testing.assert_allclose(jax.grad(lambda x: f(x, args[1])[0])(args[0]), wanted, rtol=1e-12)
