"""Draws by inversion of given uniform numbers, of `aesara.sandbox.multinomial`."""

import aesara.tensor as at
import numpy as np
import pytest
from aesara.sandbox.multinomial import ChoiceFromUniform, MultinomialFromUniform
from hypothesis import given, strategies as st
from laws import DTYPES, assert_agrees, assert_same, refusal
from profiles import sample

import jaxprgen
from jaxprgen.errors import ShapeMismatchError

REAL = [dtype for dtype in DTYPES if "complex" not in dtype]
FLOATS = [dtype for dtype in DTYPES if dtype.startswith("float")]
MESSAGE = "2 draws from 3 distributions need 6 uniform numbers, got 5."


def operands(rows, outcomes, count, seed=0):
    """Weights in sixteenths, which every float adds exactly, and numbers between their sums."""
    draw = np.random.default_rng(seed)
    p = draw.multinomial(16, np.ones(outcomes) / outcomes, rows) / 16 if outcomes else 0
    return np.broadcast_to(p, (rows, outcomes)), draw.integers(0, 16, rows * count) / 16 + 1 / 32


def graph(op, dtypes=("float64", "float64"), count=None):
    p, u = at.matrix(dtype=dtypes[0]), at.vector(dtype=dtypes[1])
    return [p, u], op(p, u, count)


sizes = st.sampled_from([0, 1, 2, 5])


@given(sizes, st.sampled_from([1, 2, 5]), sizes, st.integers(0, 99))
def test_counts(rows, outcomes, count, seed):
    inputs, out = graph(MultinomialFromUniform("auto"), count=count)
    assert_agrees(inputs, [out], operands(rows, outcomes, count, seed))


@given(sizes, st.sampled_from([1, 2, 5]), st.data(), st.booleans())
def test_choices(rows, outcomes, data, replace):
    count = data.draw(st.integers(0, outcomes))
    inputs, out = graph(ChoiceFromUniform("auto", replace), count=count)
    args = operands(rows, outcomes, count, data.draw(st.integers(0, 99)))
    assert_agrees(inputs, [out], args)


def test_every_dtype():
    p, u = operands(3, 4, 2)
    ops = [MultinomialFromUniform("auto"), ChoiceFromUniform("auto", True)]
    ops += [MultinomialFromUniform(dtype) for dtype in DTYPES]
    ops += [ChoiceFromUniform(dtype, True) for dtype in ["int8", "int64", "float32", "complex64"]]
    for dtype, other in sample(zip(REAL, REAL[5:] + REAL[:5], strict=True), 4):
        args = [(16 * p if "int" in dtype else p).astype(dtype), (3 * u).astype(other)]
        args[1] = np.minimum(args[1], args[0].sum(1).min().astype(other))
        inputs = graph(ops[0], [dtype, other], 2)[0]
        assert_agrees(inputs, [op(*inputs, 2) for op in ops], args)
    without = [graph(ChoiceFromUniform("auto"), [dtype] * 2, 3) for dtype in FLOATS]
    p, u = np.full((2, 4), 0.25), np.array([0.3, 0.6, 0.4, 0.1, 0.8, 0.2])
    args = [each.astype(dtype) for dtype in FLOATS for each in (p, u)]
    assert_agrees([v for inputs, _ in without for v in inputs], [out for _, out in without], args)


def test_nan_and_infinities():
    p = np.array([[0.5, np.nan, 0.5], [0.25, 0.25, 0.5], [0.5, np.inf, 0]])
    inputs, out = graph(MultinomialFromUniform("auto"), count=1)
    assert_agrees(inputs, [out], [p, np.array([np.nan, -np.inf, np.inf])])
    inputs, out = graph(ChoiceFromUniform("auto"), count=1)
    assert_agrees(inputs, [out], [p, np.array([np.nan, np.inf, 0.7])])


def test_a_number_above_all_sums_draws_nothing():
    """As in Aesara's C code; its Python mode raises an IndexError."""
    inputs, out = graph(MultinomialFromUniform("auto"), count=1)
    ours = jaxprgen.compile(inputs, out)(np.array([[0.5, 0.25]]), np.array([0.9]))
    assert_same(ours, np.zeros((1, 2)))


def test_the_number_of_draws_may_be_an_argument():
    p, u, n = at.matrix(), at.vector(), at.lscalar("n")
    outputs = [op(p, u, n) for op in (MultinomialFromUniform("auto"), ChoiceFromUniform("auto"))]
    assert_agrees([p, u, n], outputs, [*operands(3, 4, 2), 2])


def test_draws_that_cannot_be():
    for op in (MultinomialFromUniform("auto"), ChoiceFromUniform("auto")):
        inputs, out = graph(op, count=2)
        f = jaxprgen.compile(inputs, out)
        assert refusal(ShapeMismatchError, f, np.ones((3, 4)), np.ones(5))[0] == MESSAGE
    inputs, out = graph(ChoiceFromUniform("auto"), count=3)
    with pytest.raises(ShapeMismatchError, match="Cannot draw 3 times from only 2 outcomes"):
        jaxprgen.compile(inputs, out)(np.ones((1, 2)), np.ones(3))
