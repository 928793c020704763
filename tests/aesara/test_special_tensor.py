"""The softmax family of `aesara.tensor.special`."""

import aesara.tensor as at
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from aesara.tensor.special import LogSoftmax, Softmax, SoftmaxGrad
from hypothesis import given
from laws import assert_agrees, assert_derivatives, equations
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


def test_of_what_are_no_floats():
    """Aesara declares the operand's dtype, and computes floats of integers."""
    inputs, args, outputs = [], [], []
    for dtype in ("int64", "complex64", "complex128"):
        x, value = at.matrix(dtype=dtype), np.array([[1, 9, 3], [0, 20, 2]], dtype)
        inputs.append(x)
        args.append(value + np.array([0, 0.5j, 1j], dtype) if dtype[0] == "c" else value)
        outputs += [op(axis)(x) for op in (Softmax, LogSoftmax) for axis in (None, 1)]
    assert_agrees(inputs, outputs, args)


def test_softmax_grad_of_several_dtypes():
    for dtypes in [("bool", "bool"), ("float32", "float64"), ("int8", "float32")]:
        x, y = (at.matrix(dtype=dtype) for dtype in dtypes)
        args = [np.array([[1, 0, 3], [2, 1, 1]]).astype(dtype) for dtype in dtypes]
        assert_agrees([x, y], [SoftmaxGrad(1)(x, y)], args)


def test_derivatives_are_those_of_aesara():
    x, w = at.dmatrices("x", "w")
    costs = [at.sum(op(axis=axis)(x) * w) for op in (Softmax, LogSoftmax) for axis in (None, 0, 1)]
    rng = np.random.default_rng(0)
    assert_derivatives([x, w], costs, [rng.normal(size=(3, 4)) * 30, rng.normal(size=(3, 4))])


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
