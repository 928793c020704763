"""The softmax family of `aesara.tensor.special`."""

import aesara
import aesara.tensor as at
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from aesara.tensor.special import LogSoftmax, Softmax, SoftmaxGrad
from hypothesis import given
from laws import assert_agrees, assert_same, equations, in_one_program, reference
from profiles import amount, examples

import jaxprgen
from jaxprgen import errors

ELEMENTS = st.floats(-50, 50, width=32) | st.sampled_from(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**100, -745.0]
)


@st.composite
def operands(draw, dtype=np.float64):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=3))
    axis = draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    return axis, draw(hnp.arrays(dtype, shape, elements=ELEMENTS))


@examples(amount(quick=1, deep=3))
@given(operands() | operands(np.float32))
@pytest.mark.parametrize("op", [Softmax, LogSoftmax])
def test_softmax(op, case):
    axis, value = case
    x = at.TensorType(value.dtype, (None,) * value.ndim)("x")
    assert_agrees([x], [op(axis=axis)(x)], [value])


@examples(amount(quick=1, deep=3))
@given(operands())
def test_softmax_grad(case):
    axis, value = case
    x = at.TensorType(value.dtype, (None,) * value.ndim)("x")
    y = at.TensorType(value.dtype, (None,) * value.ndim)("y")
    assert_agrees([x, y], [SoftmaxGrad(axis=axis)(x, y)], [value, value[::-1].copy()])


@pytest.mark.parametrize("dtype", ["int64", "complex64", "complex128"])
def test_of_what_are_no_floats(dtype):
    """Aesara declares the operand's dtype, and computes floats of integers."""
    x = at.matrix("x", dtype=dtype)
    value = np.array([[1, 9, 3], [0, 20, 2]], dtype)
    value = value + np.array([0, 0.5j, 1j], dtype) if dtype.startswith("complex") else value
    outputs = [op(axis)(x) for op in (Softmax, LogSoftmax) for axis in (None, 1)]
    ours = jaxprgen.compile([x], outputs)(value)
    for mine, yours in zip(ours, reference([x], outputs, [value]), strict=True):
        assert_same(mine, yours.astype(dtype))


@pytest.mark.parametrize("dtypes", [("bool", "bool"), ("float32", "float64"), ("int8", "float32")])
def test_softmax_grad_of_several_dtypes(dtypes):
    x, y = (at.matrix(dtype=dtype) for dtype in dtypes)
    args = [np.array([[1, 0, 3], [2, 1, 1]]).astype(dtype) for dtype in dtypes]
    out = SoftmaxGrad(1)(x, y)
    ours, (theirs,) = jaxprgen.compile([x, y], out)(*args), reference([x, y], [out], args)
    assert_same(ours, theirs.astype(out.dtype))


@pytest.mark.parametrize("op", [Softmax, LogSoftmax])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_derivatives_are_those_of_aesara(op, axis):
    x, w = at.dmatrices("x", "w")
    loss = at.sum(op(axis=axis)(x) * w)
    f, g = (jaxprgen.compile([x, w], y) for y in (loss, aesara.grad(loss, x)))
    rng = np.random.default_rng(0)
    args = rng.normal(size=(3, 4)) * 30, rng.normal(size=(3, 4))
    slope = jax.grad(f)

    def mapped(x, w):
        return jax.vmap(slope, in_axes=(0, None))(np.ones((2, 1, 1)) * x, w)[1]

    (theirs,), *ours = in_one_program([g, slope, mapped], *args)
    for (found,) in ours:
        np.testing.assert_allclose(found, theirs, rtol=1e-10, atol=1e-14)


def test_it_is_a_few_equations():
    x = at.dmatrix("x")
    names = equations(jaxprgen.compile([x], at.special.softmax(x, axis=1)), np.ones((2, 3)))
    assert len(names) <= 8
    assert names.count("exp") == 1


def test_no_rows_and_no_columns():
    x = at.dmatrix("x")
    f = assert_agrees([x], [at.special.softmax(x, axis=1)], [np.ones((0, 3))])
    with pytest.raises(errors.ShapeMismatchError, match="no elements to choose from"):
        f(np.ones((3, 0)))
