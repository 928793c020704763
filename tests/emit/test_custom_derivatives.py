"""``custom_jvp_call`` as JAX makes it, and as it differentiates."""

import functools

import jax
import numpy as np

from jaxprgen._jax import ShapedArray, check_jaxpr, eval_jaxpr
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.custom_derivatives import with_derivatives
from jaxprgen.emit.values import Value
from jaxprgen.ir import Builder

table = np.array([2.0, 3.0])


def product(x, y):
    return x * y * table


# Derivatives that are not those of the function, so that one sees whose they are.
shift = with_derivatives(lambda x, y: ew.exp(x), product, product)
wave = with_derivatives(lambda x, y: ew.sin(x) * y, product, shift)


def _run(closed, *args):
    return eval_jaxpr(closed, args)


def program():
    with Builder([ShapedArray((2,), np.dtype("float64"))] * 2) as b:
        return b.build([wave(*map(Value, b.inputs)).atom()])


def test_parameters_are_those_of_jax():
    @jax.custom_jvp
    def f(x):
        return x

    f.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    (theirs,) = jax.make_jaxpr(f)(1.0).jaxpr.eqns
    (ours,) = program().jaxpr.eqns
    assert ours.primitive is theirs.primitive
    types = [{name: type(value) for name, value in eqn.params.items()} for eqn in (ours, theirs)]
    assert types[0] == types[1]


def test_derivatives_are_those_given():
    closed = program()
    check_jaxpr(closed.jaxpr)
    f = functools.partial(_run, closed)
    x, y = np.array([0.5, 1.0]), np.array([2.0, -1.0])
    np.testing.assert_allclose(f(x, y)[0], np.sin(x) * y)
    total = jax.jit(jax.grad(lambda x, y: f(x, y)[0].sum(), (0, 1)))
    found = total(x, y)
    np.testing.assert_allclose(found[0], x * y * table)
    np.testing.assert_allclose(found[1], np.exp(x))
    tangent = jax.jvp(lambda y: f(x, y)[0], (y,), (table,))[1]
    np.testing.assert_allclose(tangent, np.exp(x) * table)
    second = jax.grad(lambda x: jax.grad(lambda y: f(x, y)[0].sum())(y).sum())(x)
    np.testing.assert_allclose(second, x * y * table)
    rows = jax.vmap(jax.grad(lambda x: f(x, y)[0].sum()))(np.stack([x, 2 * x]))
    np.testing.assert_allclose(rows[1], 2 * x * y * table)
