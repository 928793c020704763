"""``custom_jvp_call`` as JAX makes it, and as it differentiates."""

import functools

import jax
import numpy as np
import pytest

from jaxprgen._jax import ShapedArray, check_jaxpr, eval_jaxpr
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.custom_derivatives import forward_only, with_derivatives
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


def test_a_value_with_forward_mode_only():
    """Reverse mode raises; nothing else changes, and integers are left alone."""
    refusal = ValueError("No reverse mode.")
    types = [ShapedArray((2,), np.dtype(name)) for name in ("float64", "int64")]
    with Builder(types) as b:
        real, whole = (forward_only(Value(v), lambda: refusal) for v in b.inputs)
        closed = b.build([(ew.sin(real) * 2).atom(), whole.atom()])
    check_jaxpr(closed.jaxpr)
    assert [eqn.primitive.name for eqn in closed.jaxpr.eqns].count("custom_jvp_call") == 1
    x, k = np.array([0.5, 1.0]), np.array([3, 4])

    def f(x):
        return _run(closed, x, k)[0]

    np.testing.assert_allclose(jax.jit(f)(x), np.sin(x) * 2)
    slope = np.diag(np.cos(x) * 2)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(f))(x), slope)
    np.testing.assert_allclose(jax.jacfwd(jax.jacfwd(f))(x)[0, 0], [-np.sin(x[0]) * 2, 0])
    np.testing.assert_allclose(jax.vmap(jax.linearize(f, x)[1])(np.eye(2)), slope)
    for reverse in (jax.jacrev(f), jax.jit(jax.jacrev(f)), jax.grad(lambda x: f(x).sum())):
        with pytest.raises(ValueError, match="No reverse mode"):
            reverse(x)
