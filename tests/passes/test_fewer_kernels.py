"""`FewerKernels`: joined rows and lgamma: JAX's values and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from profiles import in_turn, sample

import jaxprgen
from jaxprgen.passes import FewerKernels

N = 12
EVERY = tuple(range(N))


def theirs(*xs):
    return jnp.concatenate([x[None] for x in xs])


ours = jaxprgen.transform(theirs, FewerKernels())


TRANSFORMATIONS = {
    "value": lambda f: f,
    "grad": lambda f: jax.grad(f, EVERY),
    "grad of some": lambda f: jax.grad(f, (1, 4, N - 1)),
    "jacfwd of one": lambda f: jax.jacfwd(f, 3),
    "hessian": lambda f: jax.hessian(f, (0, N - 1)),
    "reverse over reverse": lambda f: jax.jacrev(jax.grad(f, EVERY), 2),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f, EVERY)),
    "vmap of grad along the last axis": lambda f: jax.vmap(jax.grad(f, EVERY), -1),
    "vmap of hessian over one": lambda f: (
        lambda x, *xs: jax.vmap(jax.hessian(f, (0, 1)), (0, *[None] * (N - 1)))(
            x, *(y[0] for y in xs)
        )
    ),
    "jit of grad": lambda f: jax.jit(jax.grad(f, EVERY)),
}


EMPTY = [(name, (2, 0)) for name in sample(TRANSFORMATIONS, 4)]


@pytest.mark.parametrize(("name", "shape"), [*in_turn(TRANSFORMATIONS, [(2,), (3, 2)]), *EMPTY])
def test_stacked_values(name, shape):
    def loss(stack):
        def f(*xs):
            y = stack(*xs)
            return jnp.sum(jnp.sin(y).T * jnp.arange(1.0, N + 1))

        return f

    xs = np.random.default_rng(0).normal(size=(N, *shape))
    found, expected = (TRANSFORMATIONS[name](loss(stack))(*xs) for stack in (ours, theirs))
    for x, y in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


def test_scalars_and_other_dtypes_are_stacked():
    np.testing.assert_array_equal(ours(*np.arange(N)), np.arange(N))
    scalars = tuple(np.linspace(0.1, 1, N))
    found = jax.grad(lambda *xs: jnp.prod(ours(*xs)), EVERY)(*scalars)
    np.testing.assert_allclose(found, np.prod(scalars) / scalars, rtol=1e-12)


def test_positions_of_cotangents_are_hidden_from_xla():
    scalars = tuple(np.linspace(0.1, 1, N))
    text = jax.jit(jax.grad(lambda *xs: jnp.prod(ours(*xs)), EVERY)).lower(*scalars).as_text()
    assert text.count("stablehlo.dynamic_slice") == N
    assert text.count("stablehlo.optimization_barrier") == 1


def test_lgamma_of_a_number_stays():
    program = jax.make_jaxpr(lambda: jax.lax.lgamma(3.5))()
    assert FewerKernels()(program) is program


@pytest.mark.parametrize("shape", [(), (5,)])
def test_lgamma_apart_from_its_derivative(shape):
    def f(x):
        return jnp.sum(jax.lax.lgamma(jnp.exp(x)) * 2.0)

    found = jaxprgen.transform(f, FewerKernels())
    x = np.random.default_rng(0).normal(size=shape)
    for of in (lambda f: f, jax.grad, jax.hessian, lambda f: lambda x: jax.vmap(f)(x[None])):
        np.testing.assert_allclose(of(found)(x), of(f)(x), rtol=1e-12)
    text = str(jax.make_jaxpr(jax.grad(found))(x))
    assert ("optimization_barrier" in text) == (shape == ())
