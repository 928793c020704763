"""`Blockwise`: results on blocks are those of PyTensor's Python mode, without tracing."""

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st

import jaxprgen

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")
from pytensor.compile.mode import Mode  # noqa: E402
from pytensor.tensor.blockwise import Blockwise  # noqa: E402

SIZES = st.integers(1, 3)


def array(*shape, seed=0):
    x = np.random.default_rng(seed).normal(size=shape)
    return x + 4 * np.eye(*shape[-2:]) if len(shape) > 1 else x


def variables(*arrays):
    """Return variables whose types declare sizes of 1."""
    return [
        pt.tensor(dtype=x.dtype, shape=[1 if n == 1 else None for n in x.shape]) for x in arrays
    ]


def assert_agrees(inputs, y, *arrays):
    expected = pytensor.function(inputs, y, mode=Mode("py", None))(*arrays)
    found = jaxprgen.compile(inputs, y)(*arrays)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), SIZES), max_size=3), SIZES, SIZES)
def test_leading_axes_broadcast(axes, rows, columns):
    left = [n if a else 1 for a, _, n in axes]
    right = [n if b else 1 for _, b, n in axes]
    arrays = array(*left, rows, rows), array(*right, rows, columns)
    a, b = variables(*arrays)
    assert_agrees([a, b], pt.linalg.solve(a, b, b_ndim=2), *arrays)


def test_what_blocks_share_is_computed_once():
    arrays = array(1, 3, 3), array(5, 3, 2)
    a, b = variables(*arrays)
    program = jaxprgen.compile([a, b], pt.linalg.solve(a, b, b_ndim=2)).jaxpr(*arrays)
    (factors,) = [eqn for eqn in program.jaxpr.eqns if eqn.primitive.name == "lu"]
    assert factors.invars[0].aval.shape == (3, 3)


def test_a_size_of_one_is_repeated_only_if_its_type_declares_it():
    a, b = pt.dtensor3s("a", "b")
    f = jaxprgen.compile([a, b], pt.matmul(a, b))
    with pytest.raises(jaxprgen.errors.ShapeMismatchError, match=r"^Runtime broadcasting not"):
        f(array(1, 2, 2), array(3, 2, 2))
    with pytest.raises(jaxprgen.errors.ShapeMismatchError, match=r"^Leading axes"):
        f(array(2, 2, 2), array(3, 2, 2))


def test_an_operation_without_a_batched_form_becomes_a_loop():
    x = pt.dvector("x")
    steps = pytensor.scan(lambda a: a / 2, outputs_info=[x], n_steps=3, return_updates=False)
    core = pytensor.compile.builders.OpFromGraph([x], [steps[-1]])
    y = pt.dtensor3("y")
    found = jaxprgen.compile([y], Blockwise(core, signature="(n)->(n)")(y))(array(2, 4, 3))
    np.testing.assert_allclose(found, array(2, 4, 3) / 8)


def test_gradients_agree():
    x = pt.dtensor3("x")
    y = pt.log(pt.abs(pt.linalg.det(pt.linalg.inv(x)))).sum()
    value = array(4, 3, 3)
    expected = pytensor.function([x], pytensor.grad(y, x), mode=Mode("py", None))(value)
    np.testing.assert_allclose(jax.grad(jaxprgen.compile([x], y))(value), expected, rtol=1e-8)
    np.testing.assert_allclose(jaxprgen.compile([x], pytensor.grad(y, x))(value), expected)


def test_an_error_names_the_node_of_the_graph():
    x = pt.dtensor3("x")
    with pytest.raises(jaxprgen.errors.LinearAlgebraError, match=r"in Blockwise.*\n.*x: float64"):
        jaxprgen.compile([x], pt.linalg.inv(x))(np.ones((4, 3, 2)))
