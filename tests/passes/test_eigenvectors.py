"""Derivatives of eigenvectors where eigenvalues are equal, or differ by rounding alone."""

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from aesara.tensor import nlinalg
from hypothesis import given, strategies as st
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxprgen
from jaxprgen.passes import Stabilize

LINE = np.linspace(0, 3, 24)
APART = LINE[:, None] - LINE
Y = np.random.default_rng(0).normal(size=24)


def around(n):
    """Return distances on a circle."""
    return scipy.linalg.toeplitz(np.minimum(np.arange(n), n - np.arange(n)))


KERNELS = {
    "exchangeable": lambda t: t * jnp.eye(10) + 0.5,
    "on a circle": lambda t: jnp.exp(-around(16) / t),
    "smooth": lambda t: jnp.exp(-((APART / t) ** 2)),
    "almost constant": lambda t: jnp.exp(-((APART / (100 + t)) ** 2)),
    "complex": lambda t: jnp.exp(-around(10) / t + 1j * APART[:10, :10]),
    "all different": lambda t: jnp.diag(t * jnp.arange(1.0, 9)) + 0.1,
}


def by_eigenvectors(kernel):
    w, v = jnp.linalg.eigh(kernel)
    w = w + 0.1
    return (jnp.abs(v.conj().T @ Y[: len(kernel)]) ** 2 / w).sum() + jnp.log(w).sum()


def by_elimination(kernel):
    kernel = kernel + 0.1 * jnp.eye(len(kernel))
    y = Y[: len(kernel)]
    return (y @ jnp.linalg.solve(kernel, y)).real + jnp.linalg.slogdet(kernel)[1]


@pytest.mark.parametrize("name", KERNELS)
def test_functions_that_do_not_depend_on_the_basis(name):
    """A normal density has all derivatives, in both modes, however close eigenvalues are."""
    kernel = KERNELS[name]
    f = jaxprgen.transform(lambda t: by_eigenvectors(kernel(t)), Stabilize())
    pairs = [
        (jax.jit(d(f)), jax.jit(d(lambda t: by_elimination(kernel(t)))))
        for d in (jax.grad, jax.jacfwd, jax.hessian)
    ]

    @given(st.floats(0.3, 3))
    def check(t):
        for found, right in pairs:
            np.testing.assert_allclose(found(t), right(t), rtol=1e-7, atol=1e-7)

    check()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_other_functions(dtype):
    """Functions that depend on basis or phase keep JAX's derivatives, where eigenvalues differ."""
    random = np.random.default_rng(1)
    x, dx, weights = random.normal(size=(3, 2, 4, 4)) + 1j * random.normal(size=(3, 2, 4, 4))
    x, dx, weights = (np.asarray(y if dtype[0] == "c" else y.real, dtype) for y in (x, dx, weights))

    def f(x):
        w, v = jnp.linalg.eigh(x)
        return (weights * v).real.sum() + (w**2).sum()

    stable = jaxprgen.transform(f, Stabilize())
    rtol = 1e-4 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(jax.grad(stable)(x), jax.grad(f)(x), rtol)
    found, right = (jax.jvp(g, (x,), (dx,))[1] for g in (stable, f))
    np.testing.assert_allclose(found, right, rtol)


def test_equal_elements_of_diagonal_matrices():
    """Off the diagonal, the derivative of a square root is not what eigenvectors say."""

    def root(x):
        w, v = jnp.linalg.eigh(x)
        return ((v * jnp.sqrt(w)) @ v.T)[1, 2]

    slopes = jax.vmap(jax.grad(jaxprgen.transform(root, Stabilize())))
    found = slopes(np.array([np.eye(3), np.diag([1.0, 4, 9]), np.eye(3) + 1]))
    assert np.isnan(found[0, 1, 2])
    np.testing.assert_allclose(found[1, 1, 2], 1 / (2 + 3) / 2, rtol=1e-14)
    assert np.isfinite(found[2]).all()


@pytest.mark.parametrize("lower", [True, False])
def test_a_triangle_alone(lower):
    """Without JAX's symmetrization, a derivative is that of the triangle which is read."""
    x = np.array([[3.0, 0.7], [0.2, 1.0]])
    kept = np.tril if lower else np.triu

    def f(x):
        v, w = jax.lax.linalg.eigh(x, lower=lower, symmetrize_input=False)
        return (w**3 * v[0] ** 2).sum()

    def whole(x):
        return f(jnp.where(kept(np.ones((2, 2))) > 0, x, x.T))

    stable = jaxprgen.transform(f, Stabilize())
    np.testing.assert_allclose(jax.grad(stable)(x), jax.grad(whole)(x), rtol=1e-12)


def test_some_eigenvectors_alone():
    """JAX has no derivative of these; the pass leaves them alone."""
    if "subset_by_index" not in jax.lax.linalg.eigh.__kwdefaults__:
        pytest.skip("This version of JAX computes all eigenvectors.")
    f = jax.make_jaxpr(lambda x: jax.lax.linalg.eigh(x, subset_by_index=(0, 1)))(np.eye(3))
    assert Stabilize()(f) is f


def test_matrices_split_over_a_mesh_keep_the_derivative_of_jax():
    def f(x):
        w, v = jnp.linalg.eigh(x)
        return (w**3).sum() + jnp.sin(v**2).sum()

    mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Explicit,))
    x = np.stack([np.diag([1.0, 3, 4]), np.diag([2.0, 7, 3])]) + 0.1
    with jax.set_mesh(mesh):
        placed = jax.device_put(x, NamedSharding(mesh, PartitionSpec("i")))
        found = jax.jit(jax.grad(jaxprgen.transform(f, Stabilize())))(placed)
    np.testing.assert_allclose(found, jax.grad(f)(x), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("name", ["exchangeable", "smooth"])
def test_the_gradient_of_a_graph(name, uplo):
    """Aesara's gradient of a normal density divides by zero, or by rounding errors."""
    t = at.dscalar("t")
    x = t * np.eye(10) + 0.5 if name == "exchangeable" else at.exp(-((APART / t) ** 2))
    w, v = nlinalg.eigh(x, uplo)
    y = Y[:10] if name == "exchangeable" else Y
    slope = aesara.grad((at.dot(v.T, y) ** 2 / (w + 0.1)).sum() + at.log(w + 0.1).sum(), t)
    right = jax.grad(lambda t: by_elimination(KERNELS[name](t)))(1.3)
    np.testing.assert_allclose(jaxprgen.compile([t], slope)(1.3), right, rtol=1e-9)
