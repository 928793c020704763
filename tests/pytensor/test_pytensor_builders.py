"""`OpFromGraph` and its subclasses: JAX uses the derivatives that replace those of the graph."""

import jax
import numpy as np
import pytest

import jaxprgen

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")

from pytensor.compile.builders import OpFromGraph  # noqa: E402

X = np.array([0.5, -1.0, 2.0])
NEW = hasattr(OpFromGraph, "pullback")


def scaled(**overrides):
    """Return the sum of ``x * y`` by an Op with these derivatives, as a JAX function."""
    x, y = pt.dvectors("x", "y")
    op = OpFromGraph([x, y], [x * y, x + y], **overrides)
    return jaxprgen.function([x, y], op(x, y)[0].sum())


def pullback(inputs, outputs, grads):
    x, y = inputs
    return [3 * grads[0] * y, x.zeros_like()]


def test_reverse_mode_uses_the_pullback():
    f = scaled(**{"pullback" if NEW else "lop_overrides": pullback})
    np.testing.assert_allclose(f(X, X), (X * X).sum())
    for compiled in (jax.grad(f, (0, 1)), jax.jit(jax.grad(f, (0, 1)))):
        by_x, by_y = compiled(X, 2 * X)
        np.testing.assert_allclose(by_x, 6 * X)
        np.testing.assert_array_equal(by_y, 0 * X)


def test_an_input_without_a_pullback_of_its_own_has_the_derivative_of_the_graph():
    f = scaled(**{"pullback" if NEW else "lop_overrides": [None, lambda xs, ys, gs: 7 * gs[0]]})
    by_x, by_y = jax.grad(f, (0, 1))(X, 2 * X)
    np.testing.assert_allclose(by_x, 2 * X)
    np.testing.assert_allclose(by_y, 7 * np.ones(3))


def test_forward_mode_uses_the_pushforward():
    def pushforward(inputs, moves):
        return [5 * moves[0], moves[0] + moves[1]]

    f = scaled(**{"pushforward" if NEW else "rop_overrides": pushforward})
    _, moved = jax.jvp(f, (X, X), (np.ones(3), np.ones(3)))
    np.testing.assert_allclose(moved, 15)


def test_an_undefined_derivative_is_an_error():
    def undefined(inputs, outputs, grads):
        return [pytensor.gradient.grad_undefined(None, 0, inputs[0], "why"), grads[0]]

    f = scaled(**{"pullback" if NEW else "lop_overrides": undefined})
    np.testing.assert_allclose(jax.grad(f, 1)(X, X), np.ones(3))
    with pytest.raises(jaxprgen.errors.UndefinedGradientError):
        jax.grad(f, 0)(X, X)


def test_an_op_registered_with_the_jax_backend_of_pytensor_compiles():
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op
    from pytensor.link.jax.dispatch import jax_funcify

    class Increment(Op):
        __props__ = ()

        def make_node(self, x):
            return Apply(self, [x], [x.type()])

        def perform(self, node, inputs, outputs):
            raise NotImplementedError

    x = pt.dvector("x")
    with pytest.raises(jaxprgen.errors.UnsupportedOpError):
        jaxprgen.compile([x], Increment()(x))(X)
    jax_funcify.register(Increment, lambda op, **_: lambda x: x + 1)
    np.testing.assert_array_equal(jaxprgen.compile([x], Increment()(x))(X), X + 1)
