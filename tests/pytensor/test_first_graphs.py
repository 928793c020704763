"""Graphs of PyTensor: values agree with PyTensor's Python mode, and one mode runs them by JAX."""

import numpy as np
import pytest

import jaxprgen

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")

X = np.array([0.5, -1.0, 2.0, 3.5])


CASES = {
    "sum": lambda x: pt.exp(x).sum(),
    "gradient": lambda x: pytensor.grad((pt.sigmoid(x) * x[1:3].sum()).sum(), x),
    "index": lambda x: x[[0, 2]],
    "row": lambda x: x[pt.as_tensor([0, 1])[1]],
    "mask": lambda x: x[x > 0],
    "write": lambda x: x[1:].set(0.0)[:2],
    "join": lambda x: pt.concatenate([x, x]),
    "split": lambda x: pt.split(x, [1, 3], n_splits=2)[1],
    "sort": lambda x: pt.sort(x),
    "largest": lambda x: pt.argmax(x),
    "diagonal": lambda x: pt.einsum("ii->i", pt.outer(x, x)),
    "softmax": lambda x: pt.special.softmax(x),
    "arange": lambda x: pt.arange(x.shape[0]) * x,
    "scan": lambda x: pytensor.scan(lambda a, b: a + b, x, [np.float64(0.0)], return_updates=False),
}


def test_sizes_that_rewrites_for_jax_make_a_tuple_of():
    """The Op's own ``perform`` fails, so NumPy is the reference."""
    module = pytest.importorskip("pytensor.link.jax.dispatch.shape")
    x, n = pt.dvector("x"), pt.iscalar("n")
    f = jaxprgen.compile([x, n], pt.reshape(x, module.JAXShapeTuple()(n, n)))
    np.testing.assert_array_equal(f(X, 2), X.reshape(2, 2))


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    x = pt.dvector("x")
    y = CASES[case](x)
    mode = pytensor.compile.mode.Mode("py", None)
    expected = pytensor.function([x], y, mode=mode)(X)
    np.testing.assert_allclose(jaxprgen.compile([x], y)(X), expected, rtol=1e-12)


def test_a_size_of_one_is_repeated_only_if_its_type_declares_it():
    x, y = pt.dvectors("x", "y")
    f = jaxprgen.compile([x, y], x + y)
    with pytest.raises(jaxprgen.errors.ShapeMismatchError, match=r"^Runtime broadcasting not"):
        f(X, X[:1])


def test_the_mode_updates_shared_variables_and_returns_numpy_arrays():
    import jaxprgen.pytensor  # noqa: F401

    x, state = pt.dvector("x"), pytensor.shared(np.zeros(4))
    f = pytensor.function([x], state + x, updates=[(state, state + 1)], mode="JAXPR")
    assert isinstance(f(X), np.ndarray)
    np.testing.assert_array_equal(f(X), X + 1)
    np.testing.assert_array_equal(state.get_value(), np.full(4, 2.0))
