"""Reductions over axes, in every dtype that Aesara accumulates and returns."""

import itertools

import aesara.scalar as aes
import aesara.tensor as at
import numpy as np
import pytest
from aesara.tensor import math as atm
from aesara.tensor.elemwise import CAReduce
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from laws import DTYPES, assert_agrees, equations
from operands import values

import jaxprgen
from jaxprgen.errors import ShapeMismatchError

REAL = [d for d in DTYPES if not d.startswith("complex")]
REDUCTIONS = {
    "sum": at.sum,
    "prod": at.prod,
    "max": at.max,
    "min": at.min,
    "any": at.any,
    "all": at.all,
    "mean": at.mean,
    "argmax": at.argmax,
    "max_and_argmax": at.max_and_argmax,
    "prod_without_zeros": lambda x, axis: atm.ProdWithoutZeros(axis=axis)(x),
    "mean as an Op": lambda x, axis: atm.Mean(axis=axis)(x),
}
AXES = [None, 0, -1, (0, 1), (1, 0), (0, 2), ()]


def variable(array):
    return at.tensor(array.dtype.name, shape=(None,) * array.ndim)


def as_list(outputs):
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_axes(name):
    array = np.arange(1.0, 25.0).reshape(2, 3, 4) % 7 - 3
    x = variable(array)
    axes = AXES
    if name == "mean as an Op":
        axes = [None, (0,), (1,)]  # Its ``perform`` looks at the first axis only.
    elif name == "prod_without_zeros":
        axes = [None, (0,), (0, 2), ()]
    elif "arg" in name:
        axes = AXES[:-1]
    outputs = [y for axis in axes for y in as_list(REDUCTIONS[name](x, axis=axis))]
    assert_agrees([x], outputs, [array])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_dtypes(name):
    """Every dtype, with infinities and NaN in half of the rows."""
    inputs, outputs, args = [], [], []
    for dtype in DTYPES:
        if dtype.startswith("complex") and name in ("mean", "mean as an Op"):
            continue  # Declared complex128, or refused.
        rows = np.stack([values(dtype), np.ones(14, dtype)])
        x = variable(rows)
        try:
            results = as_list(REDUCTIONS[name](x, axis=(1,)))
        except (TypeError, NotImplementedError):
            continue
        inputs.append(x)
        args.append(rows)
        outputs += results
    assert len(inputs) >= 10
    assert_agrees(inputs, outputs, args, rtol=4e-3)


@pytest.mark.parametrize("op", [at.sum, at.prod], ids=["sum", "prod"])
def test_accumulator_and_output_dtypes(op):
    """Whatever dtypes are asked for: overflow and rounding happen where Aesara has them."""
    inputs, outputs, args = [], [], []
    for source in ("bool", "int8", "uint8", "int32", "float16", "float32", "float64"):
        # Small: what a float beyond an integer's range becomes, C leaves open.
        array = np.full((2, 5), 1 if source == "bool" else 2).astype(source)
        x = variable(array)
        inputs.append(x)
        args.append(array)
        for dtype, acc_dtype in itertools.product([None, *REAL], [None, *REAL]):
            try:
                outputs.append(op(x, axis=1, dtype=dtype, acc_dtype=acc_dtype))
            except TypeError:  # Precision would be lost.
                continue
    assert len(outputs) > 300
    assert_agrees(inputs, outputs, args, rtol=4e-3)


@pytest.mark.parametrize(
    "scalar_op",
    [aes.add, aes.mul, aes.scalar_maximum, aes.scalar_minimum, aes.xor, aes.and_, aes.or_],
    ids=str,
)
def test_careduce_of_scalar_ops(scalar_op):
    inputs, outputs, args = [], [], []
    for dtype in DTYPES:
        array = np.stack([values(dtype)[:6], values(dtype)[6:12]])
        x = variable(array)
        try:
            results = [CAReduce(scalar_op, axis=axis)(x) for axis in (None, 0, (1,))]
        except TypeError:
            continue
        if scalar_op in (aes.xor, aes.and_, aes.or_) and array.dtype.kind in "fc":
            continue  # NumPy has no bits of floats.
        inputs.append(x)
        args.append(array)
        outputs += results
    assert_agrees(inputs, outputs, args, rtol=4e-3)


# XLA flushes subnormal numbers to zero on the CPU.
numbers = st.floats(-10, 10, allow_subnormal=False)
shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)


@given(hnp.arrays("float64", shapes, elements=numbers))
def test_empty_arrays(array):
    x = variable(array)
    axis = (array.ndim - 1,)
    assert_agrees([x], [at.sum(x, axis=axis), at.prod(x, axis=axis), at.any(x, axis=axis)], [array])


@pytest.mark.parametrize("op", [at.max, at.min, at.argmax], ids=["max", "min", "argmax"])
def test_nothing_to_choose_from_is_a_value_error(op):
    x = at.dmatrix("x")
    f = jaxprgen.compile([x], op(x, axis=1))
    assert f(np.ones((0, 3))).shape == (0,)
    with pytest.raises(ShapeMismatchError, match=r"of shape \(3, 0\) has no elements") as raised:
        f(np.ones((3, 0)))
    assert isinstance(raised.value, ValueError)


@given(st.lists(st.sampled_from([0.0, 1.0, -1.0, np.nan, np.inf]), min_size=1, max_size=6))
def test_nan_counts_as_largest_and_comes_first(row):
    x = at.dvector("x")
    assert_agrees([x], [at.argmax(x), at.max(x), at.min(x), at.argmin(x)], [np.array(row)])


def test_a_sum_of_float64_is_one_equation_and_of_float32_three():
    # Aesara accumulates float32 in float64.
    for dtype, expected in (
        ("float64", ["reduce_sum"]),
        ("float32", ["convert_element_type", "reduce_sum", "convert_element_type"]),
    ):
        x = at.vector(dtype=dtype)
        assert equations(jaxprgen.compile([x], at.sum(x)), np.ones(3, dtype)) == expected
