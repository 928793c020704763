"""Shapes: asked for, asserted, changed, and deciding other shapes."""

import aesara.tensor as at
import numpy as np
import pytest
from aesara.tensor.extra_ops import broadcast_to
from aesara.tensor.shape import Shape_i, specify_shape, unbroadcast
from hypothesis import given
from hypothesis import strategies as st
from laws import assert_agrees, equations

import jaxprgen
from jaxprgen.errors import ShapeMismatchError

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def filled(shape):
    return np.arange(np.prod(shape, dtype=float)).reshape(shape)


def variable(shape, static=None):
    return at.tensor("float64", shape=(None,) * len(shape) if static is None else static)


@given(shapes, st.data())
def test_dimshuffle(shape, data):
    """Any order of the axes, new ones anywhere, and axes of size one dropped."""
    static = tuple(1 if n == 1 else None for n in shape)
    droppable = [d for d, n in enumerate(shape) if n == 1]
    dropped = data.draw(st.sets(st.sampled_from(droppable))) if droppable else set()
    kept = [d for d in range(len(shape)) if d not in dropped]
    order = data.draw(st.permutations([*kept, *["x"] * data.draw(st.integers(0, 2))]))
    x = variable(shape, static)
    y = x.dimshuffle(*order)
    assert_agrees([x], [y, y + 1.0], [filled(shape)])


@given(shapes, st.data())
def test_reshape(shape, data):
    """To a shape that is known, is that of another input, or is left open in one axis."""
    size = int(np.prod(shape))
    factors = [n for n in range(1, size + 1) if size % n == 0] or [0]
    rows = data.draw(st.sampled_from(factors))
    target = (rows, size // rows if rows else data.draw(st.integers(0, 3)))
    x, y = variable(shape), variable(target)
    outputs = [x.reshape(target), x.reshape((y.shape[0], y.shape[1])), x.reshape(y.shape, ndim=2)]
    if size:
        outputs += [x.reshape((y.shape[0], -1)), x.flatten()]
    assert_agrees([x, y], outputs, [filled(shape), filled(target)])


@given(shapes)
def test_shapes_are_known_and_cost_nothing(shape):
    x = variable(shape)
    outputs = [x.shape, x.size, *(Shape_i(d)(x) for d in range(len(shape)))]
    f = assert_agrees([x], outputs, [filled(shape)])
    assert equations(f, filled(shape)) == []


def test_the_shape_of_an_expression_does_not_compute_it():
    x = at.dmatrix("x")
    f = assert_agrees([x], [at.exp(at.dot(x, x.T)).shape], [np.ones((2, 3))])
    assert equations(f, np.ones((2, 3))) == []


def test_asserted_shapes():
    x = at.dmatrix("x")
    f = assert_agrees([x], [specify_shape(x, (2, None)) * 2.0], [np.ones((2, 3))])
    with pytest.raises(ShapeMismatchError, match=r"got shape \(3, 3\), expected \(2, any\)"):
        f(np.ones((3, 3)))


def test_unbroadcast_is_the_value():
    x = at.tensor("float64", shape=(1, None))
    assert_agrees([x], [unbroadcast(x, 0) + 1.0], [np.ones((1, 3))])


@given(shapes, st.integers(0, 3), st.integers(0, 3))
def test_broadcast_to(shape, rows, ones):
    own = tuple(1 if d < ones else n for d, n in enumerate(shape))
    x = variable(own)
    y = broadcast_to(x, (rows, *shape))
    assert_agrees([x], [y, y * 2.0, at.sum(y)], [filled(own)])


def test_values_that_shapes_decide():
    """What contract 1 of the design promises to just work."""
    x, y = at.dvector("x"), at.dmatrix("y")
    n = x.shape[0]
    one_hot = at.eq(at.arange(3)[:, None], np.array([0, 2, 1])) * 1.0
    outputs = [
        at.arange(n) * x,
        x.reshape((y.shape[0], -1)),
        x[: n // 2],
        at.mean(y, axis=0),
        at.switch(np.array([True, False, True]), y[0], -y[1]),
        at.dot(one_hot, y[0]),
        at.zeros((n, 2)) + at.ones_like(y)[0, 0],
        at.linspace(0, 1, n) + x if hasattr(at, "linspace") else x,
    ]
    assert_agrees([x, y], outputs, [np.arange(6.0), np.arange(6.0).reshape(2, 3)])


def test_ones_that_only_fill_shapes_cost_nothing():
    x = at.dmatrix("x")
    ones = at.second(x, 1.0)
    f = assert_agrees([x], [at.sum(at.second(ones, x) * ones * at.ones_like(x))], [np.ones((2, 3))])
    assert equations(f, np.ones((2, 3))) == ["reduce_sum"]


@pytest.mark.parametrize("target", [(4, 2), (-1, 4), (-1, -1)])
def test_impossible_reshapes_are_errors_that_tell_the_shapes(target):
    x = at.dmatrix("x")
    f = jaxprgen.compile([x], x.reshape(target))
    with pytest.raises(ShapeMismatchError, match=r"Cannot reshape \(2, 3\) \(6 elements\)"):
        f(np.ones((2, 3)))
