"""`jaxprgen.transform`: passes on any JAX function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from laws import all_equations, in_one_program

import jaxprgen
from jaxprgen.passes import DEFAULT, DistributeScan, MapToVmap

xs = np.random.default_rng(0).normal(size=(4, 3))


def model(parameters, x, *, scale=1.0, start=None):
    """Map pytrees to a pytree, with keyword arguments."""
    start = jnp.zeros(3) if start is None else start

    def step(h, row):
        h = jnp.tanh(parameters["W"] @ row + h) * scale
        return h, (jnp.sin(h), row * 2)

    last, (whole, _) = lax.scan(step, start, x)
    return {"last": last, "sum": whole.sum(), "none": None}


parameters = {"W": np.eye(3) / 2, "unused": np.ones(2)}


def total(f):
    return lambda p, x: f(p, x, scale=0.5)["sum"]


@pytest.mark.parametrize("passes", [(), DEFAULT, (DistributeScan(), MapToVmap())])
def test_transformed_functions_agree_under_jax_transformations(passes):
    f = jaxprgen.transform(model, *passes)
    assert f.__name__ == "model" and "pytrees" in f.__doc__
    for keywords in ({}, {"scale": 0.5}, {"start": xs[0], "scale": np.float32(2)}):
        wanted = model(parameters, xs, **keywords)
        for got in (f(parameters, xs, **keywords), jax.jit(f)(parameters, xs, **keywords)):
            assert jax.tree.structure(got) == jax.tree.structure(wanted)
            for x, y in zip(*map(jax.tree.leaves, (got, wanted)), strict=True):
                assert x.dtype == y.dtype and x.weak_type == y.weak_type
                np.testing.assert_allclose(x, y, rtol=1e-12)
    for change in (jax.grad, jax.hessian, lambda g: jax.vmap(g, (None, 0))):
        x = np.stack([xs, xs]) if change not in (jax.grad, jax.hessian) else xs
        ours, theirs = in_one_program([change(total(g)) for g in (f, model)], parameters, x)
        for got, wanted in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)
    slopes = jax.grad(total(model))
    ours, theirs = in_one_program([jaxprgen.transform(slopes, *passes), slopes], parameters, xs)
    for got, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10)


def test_passes_run_in_order():
    seen = []

    def noting(closed):
        seen.append(sum(e.primitive.name == "scan" for e in all_equations(closed.jaxpr)))
        return closed

    jaxprgen.transform(lambda x: lax.map(jnp.sin, x), noting, MapToVmap(), noting)(xs)
    assert seen == [1, 0]


def test_effects_and_errors_propagate(capsys):
    def f(x):
        jax.debug.print("x is {}", x)
        return lax.map(jnp.sin, x)

    jaxprgen.transform(f, *DEFAULT)(xs[:1, :1])
    jax.effects_barrier()
    assert capsys.readouterr().out.startswith("x is ")
    with pytest.raises(TypeError):
        jaxprgen.transform(f, *DEFAULT)("text")


def test_composite_primitives():
    """Newer versions of JAX trace these functions to primitives that are expanded later."""

    def f(x):
        edges = jnp.sort(x, axis=None)
        counts = lax.map(lambda row: jnp.searchsorted(edges, jnp.negative(-row)), x)
        return counts, jnp.histogram(x * 1, bins=3)[0]

    ours, theirs = jax.jit(jaxprgen.transform(f, *DEFAULT))(xs), f(xs)
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("passes", [(), DEFAULT])
def test_composite_primitives_beside_constants(passes):
    """Arrays that a function closes over become inputs of the program that is called."""
    c = jnp.linspace(0.0, 1.0, 5)

    def f(x):
        root = lax.custom_root(
            lambda y: y - c * x[0, 0],
            c,
            lambda g, y: lax.fori_loop(0, 9, lambda i, y: y - g(y) / 2, y),
            lambda g, y: y,
        )
        found = jnp.nonzero(x[0] > c[: len(x[0])], size=2, fill_value=0)
        copies = [jnp.searchsorted(c, x[i % len(x)]) for i in range(8)]
        return root, found, jnp.frexp(x * c[3]), copies, lax.map(lambda r: jnp.digitize(r, c), x)

    ours, theirs = jax.jit(jaxprgen.transform(f, *passes))(xs), jax.jit(f)(xs)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12), ours, theirs)
