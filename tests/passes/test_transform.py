"""`jaxprgen.transform`: passes on any JAX function."""

import inspect

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


def power(x, n, *, mode="same"):
    """Return a power."""
    assert type(n) is int
    return {"same": x, "double": 2 * x}[mode] ** n


@pytest.mark.parametrize("passes", [(), DEFAULT])
def test_arguments_that_are_not_arrays_stay_as_they_are(passes):
    f = jaxprgen.transform(power, *passes)
    assert (f.__name__, f.__doc__) == ("power", power.__doc__)
    assert inspect.signature(f) == inspect.signature(power)
    compiled = jax.jit(f, static_argnums=1, static_argnames="mode")
    np.testing.assert_allclose(compiled(xs, 3, mode="double"), 8 * xs**3)
    for g in (f, jax.jit(f, static_argnames=("n", "mode"))):
        np.testing.assert_allclose(g(xs, 3), xs**3)
        np.testing.assert_allclose(g(xs, n=2, mode="double"), 4 * xs**2)
    slopes = jax.grad(lambda x: f(x, 2, mode="double").sum())(xs)
    np.testing.assert_allclose(slopes, 8 * xs)


@jax.tree_util.register_pytree_with_keys_class
class Module:
    """A pytree with a function among its leaves, as modules of equinox are."""

    def __init__(self, weight, activation):
        self.weight, self.activation = weight, activation

    def __call__(self, x):
        return self.activation(self.weight @ x)

    def tree_flatten_with_keys(self):
        names = ("weight", "activation")
        return [(jax.tree_util.GetAttrKey(n), getattr(self, n)) for n in names], None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


def test_modules_have_functions_among_their_leaves():
    def step(module, x):
        slopes = jax.grad(lambda w: Module(w, module.activation)(x).sum())(module.weight)
        return Module(module.weight - slopes, module.activation), module(x), "done", None

    module = Module(np.eye(3), jnp.tanh)
    wanted, value, *_ = step(module, xs[0])
    for passes in ((), DEFAULT):
        found, result, *rest = jaxprgen.transform(step, *passes)(module, xs[0])
        assert rest == ["done", None]
        assert found.activation is jnp.tanh
        np.testing.assert_allclose(found.weight, wanted.weight)
        np.testing.assert_allclose(result, value)
        np.testing.assert_allclose(jaxprgen.transform(module, *passes)(xs[0]), value)


def test_messages_and_programs_name_the_user_s_function_and_arguments():
    def chosen(parameters, x):
        return x if parameters["block"]["bias"] > 0 else -x

    given = {"block": {"bias": np.ones(())}}
    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        jaxprgen.transform(chosen)(given, xs)
    assert "function chosen at" in str(caught.value)
    assert "the argument parameters['block']['bias']" in str(caught.value)

    def product(parameters, x):
        return parameters["block"]["bias"] * x["a key"][0]

    args = given, {"a key": (xs,)}
    text = jaxprgen.pretty(jax.make_jaxpr(product)(*args))
    assert "mul parameters.block.bias x.a_key.0" in text
    (call,) = jax.make_jaxpr(jaxprgen.transform(product))(*args).jaxpr.eqns
    assert call.params["name"] == "product"
    module = Module(np.eye(3), np.ones(3))
    text = jaxprgen.pretty(jax.make_jaxpr(lambda m: m.weight @ m.activation)(module))
    assert "m.weight m.activation" in text


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
    with pytest.raises((TypeError, ValueError)):  # JAX's own, which depends on its version.
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
