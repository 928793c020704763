"""Products with blocks of a matrix that are chosen by indices."""

import warnings

import aesara.tensor as at
import numpy as np
import pytest
from hypothesis import given, strategies as st
from laws import assert_agrees, assert_derivatives, assert_same, failures, refusal
from profiles import examples

import jaxprgen
from jaxprgen.errors import RuntimeCheckWarning, ShapeMismatchError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # `aesara.tensor.nnet` is deprecated.
    from aesara.tensor.nnet.blocksparse import (
        SparseBlockGemv,
        SparseBlockOuter,
        sparse_block_dot,
    )

pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
SIZES = st.integers(1, 3)


def tensor(dtype, rank, name=None):
    return at.tensor(dtype, shape=[None] * rank, name=name)


def operands(dtype, index, batch, here, there, height, width, rows=2, columns=3):
    """``y``, a matrix and ``x``, then the rows and columns of these, some of them the same."""
    rng = np.random.default_rng(0)
    shapes = [(batch, there, width), (rows, columns, height, width), (batch, here, height)]
    chosen = [(rows, (batch, here)), (columns, (batch, there))]
    return [
        *(rng.normal(size=shape).astype(dtype) for shape in shapes),
        *(rng.integers(0, n, shape).astype(index) for n, shape in chosen),
    ]


@examples(0.3)
@given(
    st.sampled_from(["float16", "float32", "float64", "complex64"]),
    st.sampled_from(["int8", "uint16", "int32", "int64"]),
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(SIZES, SIZES),
)
def test_values(dtype, index, counts, sizes):
    y, w, x = inputs = [tensor(dtype, rank) for rank in (3, 4, 3)]
    rows, columns = (tensor(index, 2) for _ in range(2))
    outputs = [
        SparseBlockGemv()(y, w, x, rows, columns),
        SparseBlockOuter()(w, x, y, rows, columns),
    ]
    args = operands(dtype, index, *counts, *sizes)
    assert_agrees(
        [*inputs, rows, columns], outputs, args, rtol=2e-2 if dtype == "float16" else None
    )


def test_outer_products_are_scaled_as_is_documented():
    """Python mode passes over the scale."""
    y, w, x = at.dtensor3(), at.dtensor4(), at.dtensor3()
    rows, columns = at.lmatrices(2)
    outer = [SparseBlockOuter()(w, x, y, rows, columns, at.constant(n)) for n in (1.0, 3.0)]
    args = operands("float64", "int64", 2, 2, 2, 2, 3)
    known = SparseBlockOuter()(*map(at.constant, [args[1], args[2], args[0], *args[3:], 3.0]))
    once, thrice = jaxprgen.compile([y, w, x, rows, columns], outer)(*args)
    assert_same(thrice, args[1] + 3 * (once - args[1]))
    assert_same(jaxprgen.compile([], known)(), thrice)


def test_in_place_or_not_is_all_one():
    y, w, x = inputs = [at.dtensor3(), at.dtensor4(), at.dtensor3()]
    rows, columns = at.lmatrices(2)
    args = operands("float64", "int64", 2, 2, 2, 2, 3)
    cases = [(SparseBlockGemv, (y, w, x)), (SparseBlockOuter, (w, x, y))]
    outputs = [op(here)(*xs, rows, columns) for op, xs in cases for here in (False, True)]
    found = jaxprgen.compile([*inputs, rows, columns], outputs)(*args)
    assert_same(found[0], found[1])
    assert_same(found[2], found[3])


def test_gradients_are_those_of_aesara():
    w, x, bias = at.dtensor4("w"), at.dtensor3("x"), at.dmatrix("bias")
    rows, columns = at.lmatrix("rows"), at.lmatrix("columns")
    inputs = [w, x, bias, rows, columns]
    loss = at.sum(at.sin(sparse_block_dot(w, x, rows, bias, columns)))
    _, matrix, vectors, *where = operands("float64", "int64", 3, 2, 2, 2, 4)
    args = [matrix, vectors, np.random.default_rng(1).normal(size=(3, 4)), *where]
    assert_derivatives(inputs, loss, args, inputs[:3])


def test_indices_are_checked_on_request_and_shapes_always():
    y, w, x = at.dtensor3(), at.dtensor4(), at.dtensor3()
    rows, columns = at.lmatrix("rows"), at.lmatrix("columns")
    z = SparseBlockGemv()(y, w, x, rows, columns)
    inputs = [y, w, x, rows, columns]
    args = operands("float64", "int64", 2, 2, 2, 2, 3)
    f = jaxprgen.compile(inputs, z)
    with pytest.warns(RuntimeCheckWarning, match="within axis 0 of size 2"):
        f(*args)
    right, wrong = failures(inputs, z, args, [*args[:3], np.full((2, 2), 2), args[4]])
    assert right is None and "out of bounds for axis 0 of size 2" in wrong
    assert refusal(ShapeMismatchError, f, *args[:4], args[4][:1])[0] == (
        "Vectors of shapes (2, 2, 2) and (2, 2, 3), at indices of shapes (2, 2) and (1, 2), do not "
        "fit blocks of (2, 3, 2, 3)."
    )
