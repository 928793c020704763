"""Diagonals and triangles."""

import warnings

import aesara
import aesara.tensor as at
import numpy as np
import pytest
from aesara.tensor.basic import AllocDiag, ExtractDiag
from aesara.tensor.extra_ops import fill_diagonal, fill_diagonal_offset
from hypothesis import given, strategies as st
from laws import (
    DTYPES,
    assert_agrees,
    assert_agrees_of_every_dtype,
    assert_derivatives,
    equations,
)
from profiles import examples

import jaxprgen
from jaxprgen.errors import ShapeMismatchError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # Of the module as a whole.
    from aesara.tensor.nnet.conv3d2d import DiagonalSubtensor, IncDiagonalSubtensor

SIZES = st.sampled_from([0, 1, 2, 3, 5])


def ramp(*shape):
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape)


def tensor(rank, dtype="float64"):
    return at.tensor(dtype, shape=[None] * rank)


@given(st.lists(SIZES, min_size=2, max_size=4), st.integers(-6, 6), st.data())
def test_diagonals(shape, offset, data):
    rank = len(shape)
    axis1, axis2 = data.draw(st.permutations(range(rank)))[:2]
    axis1 -= data.draw(st.sampled_from([0, rank]))
    x = tensor(rank)
    assert_agrees([x], [ExtractDiag(offset, axis1, axis2)(x)], [ramp(*shape)])


@given(st.lists(SIZES, min_size=1, max_size=3), st.integers(-3, 3), st.data())
def test_matrices_of_diagonals(shape, offset, data):
    axis1, axis2 = data.draw(st.permutations(range(len(shape) + 1)))[:2]
    x = tensor(len(shape))
    assert_agrees([x], [AllocDiag(offset, axis1, axis2)(x)], [ramp(*shape)])


@given(st.tuples(SIZES, SIZES), st.data())
def test_filled_diagonals(shape, data):
    x, value, offset = at.matrix("x"), at.scalar("value"), at.iscalar("offset")
    # Beyond the last one Aesara's own writes at places that are on no diagonal.
    number = data.draw(st.integers(-shape[0], shape[1]))
    outputs = [
        fill_diagonal(x, value),
        fill_diagonal_offset(x, value, offset),
        fill_diagonal_offset(x, 2.0, number),
    ]
    assert_agrees([x, value, offset], outputs, [ramp(*shape), 7.0, np.int32(number)])


@pytest.mark.parametrize("n", [0, 1, 3])
def test_filled_diagonals_of_more_axes(n):
    x = at.tensor3("x")
    f = assert_agrees([x], [fill_diagonal(x, 2.0)], [ramp(n, n, n)])
    with pytest.raises(ShapeMismatchError, match=r"main diagonal of shape \(2, 3, 3\)"):
        f(ramp(2, 3, 3))


@given(SIZES, SIZES, st.integers(-6, 6), st.sampled_from(DTYPES))
def test_triangles(rows, columns, offset, dtype):
    n, m, k = at.lscalars("n", "m", "k")
    outputs = [at.tri(n, m, k, dtype), at.tri(n, m, offset, dtype), at.tri(n, dtype=dtype)]
    assert_agrees([n, m, k], outputs, [rows, columns, offset])


def test_large_triangles_are_computed():
    x = at.matrix("x")
    f = assert_agrees([x], [at.tril(x), at.triu(x, 1), at.tri(*x.shape)], [ramp(50, 40)])
    assert not f.jaxpr(ramp(50, 40)).consts


def test_every_dtype():
    def build(x, _):
        one = at.constant(np.array(1, x.dtype))
        filled = [fill_diagonal(x, one), fill_diagonal_offset(x, one, -1)]
        return [ExtractDiag(1)(x), AllocDiag(-1)(x), *filled]

    assert_agrees_of_every_dtype(build, (4, 3))


def test_equations():
    x, v = at.matrix("x"), at.vector("v")
    args = [ramp(3, 4), ramp(3)]
    for out, expected in [
        (at.diagonal(x, 1), ["gather"]),
        (at.diag(v), [*"1 iota iota eq 1 1 select_n".replace("1", "broadcast_in_dim").split()]),
        (fill_diagonal(x, v[0]), ["slice", "squeeze", "broadcast_in_dim", "scatter"]),
    ]:
        f = assert_agrees([x, v], [out], args)
        assert equations(f, *args) == expected


def test_gradients():
    x, v, k = at.matrix("x"), at.vector("v"), at.lscalar("k")
    costs = [
        (at.diagonal(x, 1) ** 2).sum(),
        (at.diagonal(x.T, -1) ** 3).sum(),
        (at.diag(v) ** 2 * x).sum(),
        (AllocDiag(-2)(v) ** 2).sum(),
        (fill_diagonal(x, v[1]) ** 2 * x).sum(),
        (fill_diagonal_offset(x, v[1], k) ** 2 * x).sum(),
        (at.tril(x) ** 2).sum(),
    ]
    assert_derivatives([x, v, k], costs, [ramp(3, 3), np.array([0.5, -1, 2]), 1], [x, v])


# --- The stripes of 3D convolution --------------------------------------------------------


@examples(0.6, quick=0.3)
@given(st.data())
def test_stripes(data):
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3]), min_size=2, max_size=4))
    axis1, axis2 = data.draw(st.permutations(range(len(shape))))[:2]
    shape[axis1] = shape[axis2] + data.draw(st.integers(0, 2))
    region = list(shape)
    region[axis1] -= shape[axis2] - 1
    x, y = tensor(len(shape)), tensor(len(shape))
    outputs = [
        DiagonalSubtensor()(x, axis1, axis2),
        IncDiagonalSubtensor()(x, axis1, axis2, y),
        aesara.grad((DiagonalSubtensor()(x, axis1, axis2) ** 2).sum(), x),
    ]
    assert_agrees([x, y], outputs, [ramp(*shape), 0.5 + ramp(*region)])


def test_a_boolean_stripe_is_increased_by_or():
    x, y = tensor(2, "bool"), tensor(2, "bool")
    args = [np.eye(3, 2, dtype=bool), np.array([[True, False], [False, False]])]
    assert_agrees([x, y], [IncDiagonalSubtensor()(x, 0, 1, y)], args)


def test_a_stripe_that_does_not_fit():
    x = at.matrix("x")
    f = jaxprgen.compile([x], DiagonalSubtensor()(x, 0, 1))
    with pytest.raises(ShapeMismatchError, match=r"Axis 0 of shape .* is shorter than axis 1"):
        f(ramp(2, 3))
