"""`OpFromGraph` and its subclasses: JAX uses the derivatives that replace those of the graph."""

import jax
import numpy as np
import pytest

import jaxprgen

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")

from pytensor import scan  # noqa: E402
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_sampler_registered_with_the_jax_backend_of_pytensor_draws():
    from pytensor.link.jax.dispatch.random import jax_sample_fn
    from pytensor.tensor.random.op import RandomVariable

    class Shifted(RandomVariable):
        name, dtype, signature = "shifted", "floatX", "()->()"

    rng, x = pytensor.shared(np.random.default_rng(1)), pt.dvector("x")
    y = Shifted()(x, rng=rng, size=(2, 3))
    with pytest.raises(jaxprgen.errors.UnsupportedOpError):
        jaxprgen.compile([x], y)
    calls = []

    def register(op, node):
        def sample(key, size, dtype, x):
            calls.append((size, dtype))
            return x + jax.random.uniform(key, size, dtype)

        return sample

    jax_sample_fn.register(Shifted)(register)
    drawn = jaxprgen.compile([x], y)(jax.random.key(0), X)
    assert calls[-1] == ((2, 3), "float64") and drawn.shape == (2, 3)
    assert len(np.unique(drawn)) == 6 and (drawn >= X).all() and (drawn < X + 1).all()


def test_the_jax_function_of_a_compiled_function():
    """PyTensor's users read it from the virtual machine of a function."""
    x, state = pt.dvector("x"), pytensor.shared(2.0, "state")
    f = pytensor.function([x], (state * x**2).sum(), updates={state: state + 1}, mode="JAXPR")
    np.testing.assert_allclose(f.vm.jit_fn(X, 3.0), [3 * (X**2).sum(), 4.0])
    np.testing.assert_allclose(jax.grad(lambda x: f.vm.jit_fn(x, 3.0)[0])(X), 6 * X)
    assert state.get_value() == 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_loop_in_python_around_steps_in_this_mode():
    x = pt.dvector("x")
    ys = scan(lambda s: (s * 2, s.sum()), outputs_info=[x, None], n_steps=3, mode="JAXPR")[0]
    f = pytensor.function([x], ys, mode=pytensor.compile.mode.Mode("py", None))
    doubled, sums = f(X)
    np.testing.assert_allclose(doubled, [2 * X, 4 * X, 8 * X])
    np.testing.assert_allclose(sums, X.sum() * np.array([1, 2, 4]))
