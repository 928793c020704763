"""Batch normalization: over any axes, in training with running averages or none, and not."""

import warnings

import aesara.tensor as at
import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st
from laws import assert_agrees, assert_derivatives, assert_same, reference, refusal
from profiles import examples

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import ShapeMismatchError, UnsupportedOpError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # `aesara.tensor.nnet` is deprecated.
    from aesara.tensor.nnet import batchnorm as bn

TOLERANCE = {"float16": 1e-1, "float32": 1e-4, "float64": 1e-12}


def tensor(dtype, rank, name=None):
    return at.tensor(dtype, shape=[None] * rank, name=name)


@st.composite
def cases(draw):
    """A dtype, a shape, the axes to normalize along, and the shape of what is there for each."""
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3, 4]), min_size=1, max_size=4))
    axes = draw(st.lists(st.sampled_from(range(len(shape))), min_size=1, unique=True))
    shape[axes[0]] = max(shape[axes[0]], 2)  # Of one element there is no variance.
    if all(n for d, n in enumerate(shape) if d not in axes):
        for d in axes:
            shape[d] = max(shape[d], 1)
    kept = tuple(1 if d in axes else n for d, n in enumerate(shape))
    return draw(st.sampled_from(list(TOLERANCE))), tuple(shape), tuple(axes), kept


def operands(dtype, shape, kept):
    rng = np.random.default_rng(0)
    x, dy = (rng.normal(1, 2, shape).astype(dtype) for _ in range(2))
    scale, bias, mean = (rng.normal(size=kept).astype(dtype) for _ in range(3))
    return [x, scale, bias, mean, rng.uniform(0.5, 2, kept).astype(dtype), dy]


@pytest.mark.filterwarnings("ignore:Mean of empty slice|Degrees of freedom:RuntimeWarning")
@examples(0.3)
@given(cases())
def test_values(case):
    """Those of Python mode in the declared dtypes: with NumPy 2, its own are wider."""
    dtype, shape, axes, kept = case
    args = operands(dtype, shape, kept)
    x, scale, bias, mean, variance, dy = inputs = [tensor(dtype, len(shape)) for _ in args]
    share = np.asarray(0.25, "float32")
    outputs = [
        *bn.AbstractBatchNormTrain(axes)(x, scale, bias),
        *bn.AbstractBatchNormTrain(axes)(x, scale, bias, 1e-2, share, mean, variance),
        bn.AbstractBatchNormInference(axes)(x, scale, bias, mean, variance, 1e-3),
        *bn.AbstractBatchNormTrainGrad(axes)(x, dy, scale, mean, variance),
        bn.batch_normalization(x, scale, bias, mean, variance),
    ]
    f = jaxprgen.compile(inputs, outputs)
    check_jaxpr(f.jaxpr(*args).jaxpr)
    theirs = reference(inputs, outputs, args)
    for variable, mine, yours in zip(outputs, jax.jit(f)(*args), theirs, strict=True):
        assert_same(mine, yours.astype(dtype), TOLERANCE[dtype], where=str(variable.owner))


def test_nan_and_infinities():
    x, scale, bias = at.dmatrix(), at.dmatrix(), at.dmatrix()
    a = np.array([[1, np.nan, np.inf, 4], [2, 3, 1, 4]])
    ones = np.ones((1, 4))
    outputs = bn.AbstractBatchNormTrain((0,))(x, scale, bias)
    assert_agrees([x, scale, bias], outputs, [a, ones, ones])


def test_gradients_are_those_of_aesara():
    x, w = at.dtensor4("x"), at.dtensor4("w")
    axes, shape, kept = "spatial", (3, 2, 2, 4), (1, 2, 1, 1)
    narrow = [at.tensor("float64", shape=[n if n == 1 else None for n in kept]) for _ in range(4)]
    inputs, args = [x, *narrow, w], operands("float64", shape, kept)
    costs = [
        at.sum(at.sin(z) * w)
        for z in (
            bn.batch_normalization_train(x, *narrow[:2], axes)[0],
            bn.batch_normalization_test(x, *narrow, axes),
            bn.batch_normalization(x, *narrow, mode="low_mem"),
        )
    ]
    assert_derivatives(inputs, costs[:1], args, inputs[:3])
    assert_derivatives(inputs, costs[1:], args, inputs[:5])


def test_second_derivatives_are_those_of_aesara():
    inputs = [at.dmatrix(name) for name in ("x", "dy", "scale", "mean", "inverse")]
    cost = sum(at.sum(at.sin(v)) for v in bn.AbstractBatchNormTrainGrad((0,))(*inputs))
    a, s, _, m, i, d = operands("float64", (3, 4), (1, 4))
    assert_derivatives(inputs, cost, [a, d, s, m, i])


def test_what_cannot_be_normalized():
    x, row = at.dmatrix("x"), at.drow("row")
    train = bn.AbstractBatchNormTrain
    running = train((0,))(x, row, row, 1e-4, 0.1, row, row)[4]
    for z, message in [
        (train((2,))(x, row, row)[0], "Axes must be distinct and below 2, got (2,)."),
        (train((0, 0))(x, row, row)[0], "Axes must be distinct and below 2, got (0, 0)."),
        (running, "Cannot estimate a running variance from one element."),
    ]:
        f = jaxprgen.compile([x, row], z)
        assert refusal(ShapeMismatchError, f, np.ones((1, 3)), np.ones((1, 3)))[0] == message
    z = at.zmatrix("z")
    f = jaxprgen.compile([z], train((0,))(z, z[:1], z[:1])[0])
    with pytest.raises(UnsupportedOpError, match="takes real numbers, not complex ones"):
        f(np.ones((2, 2), complex))
