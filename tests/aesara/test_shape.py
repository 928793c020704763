"""Shapes: changing them, asking for them, and computing with what they are."""

import math

import aesara
import aesara.tensor as at
import numpy as np
import pytest
from aesara.tensor.extra_ops import BroadcastTo
from aesara.tensor.shape import Reshape, Shape_i, SpecifyShape, unbroadcast
from hypothesis import given, strategies as st
from laws import DTYPES, assert_agrees, equations, refusal
from profiles import examples

import jaxprgen
from jaxprgen.errors import FailedAssertionError, ShapeMismatchError

SHAPES = [(), (0,), (3,), (1, 1), (2, 3), (0, 2), (2, 1, 3), (2, 0, 1), (1, 2, 1, 2)]


def ramp(shape, dtype="float64"):
    return np.arange(math.prod(shape)).reshape(shape).astype(dtype)


def sizes_of(shape, draw):
    """A static shape: each size declared or not; one that must be dropped is declared."""
    return [n if n == 1 or draw(st.booleans()) else None for n in shape]


# --- Changing shapes ---------------------------------------------------------------------


@examples(2, quick=1)
@given(st.data())
def test_dimshuffle(data):
    shape = data.draw(st.sampled_from(SHAPES))
    kept = [d for d, n in enumerate(shape) if n != 1 or data.draw(st.booleans())]
    order = list(data.draw(st.permutations(kept)))
    for _ in range(data.draw(st.integers(0, 2))):
        order.insert(data.draw(st.integers(0, len(order))), "x")
    x = at.tensor("float64", shape=sizes_of(shape, data.draw))
    constant, filled = at.constant(ramp(shape)), at.zeros(shape)
    outputs = [v.dimshuffle(order) for v in (x, constant, filled)]
    assert_agrees([x], [*outputs, at.exp(outputs[0]) + outputs[1]], [ramp(shape)])


def divisions(size, draw):
    """Sizes whose product is ``size``."""
    sizes = []
    while draw(st.booleans()) and len(sizes) < 3:
        factor = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0] or [1, 2]))
        sizes.append(factor)
        size //= factor
    sizes.insert(draw(st.integers(0, len(sizes))), size)
    return sizes


@examples(2, quick=1)
@given(st.data())
def test_reshape(data):
    shape = data.draw(st.sampled_from(SHAPES))
    target = divisions(math.prod(shape), data.draw)
    x, y = (
        at.tensor("float64", shape=sizes_of(shape, data.draw)),
        at.tensor("int8", shape=[None] * len(target)),
    )
    open_ = list(target)
    # Which size it is cannot be told where the others multiply to zero.
    if math.prod(target):
        open_[data.draw(st.integers(0, len(target) - 1))] = -1
    outputs = [
        x.reshape(target),
        x.reshape(open_),
        x.reshape(y.shape, ndim=len(target)),
        x.reshape([n if i % 2 else y.shape[i] for i, n in enumerate(open_)]),
        at.constant(ramp(shape)).reshape(open_),
        at.ones(shape).reshape(y.shape, ndim=len(target)) + 1,
    ]
    assert_agrees([x, y], outputs, [ramp(shape), np.zeros(target, "int8")])


def test_reshape_to_a_scalar_and_to_the_same_shape():
    x, y = at.matrix("x"), at.matrix("y")
    outputs = [
        x.reshape((), ndim=0),
        y.reshape(y.shape),
        x.flatten(),
        y.flatten(1),
        at.atleast_3d(y),
    ]
    f = assert_agrees([x, y], outputs, [np.ones((1, 1)), ramp((2, 3))])
    assert len(equations(f, np.ones((1, 1)), ramp((2, 3)))) == 4


def test_reshape_to_what_does_not_hold_the_elements():
    x, shape = at.matrix("x"), at.lvector("shape")
    for target in [(4,), (-1, 4), (-1, -1), (0, -1), (-2, 3)]:
        f = jaxprgen.compile([x], Reshape(len(target))(x, at.as_tensor(np.array(target))))
        with pytest.raises(ShapeMismatchError, match="Cannot reshape"):
            f(np.ones((2, 3)))
    with pytest.raises(ShapeMismatchError, match="incorrect length: 1, should be 2"):
        jaxprgen.compile([x, shape], Reshape(2)(x, shape))(np.ones((2, 3)), np.array([6]))


def test_reshape_of_nothing_and_unbroadcast():
    x, row = at.matrix("x"), at.tensor("float64", shape=(1, None))
    # NumPy finds the size that is left open where the other sizes are not zero.
    outputs = [x.reshape((-1, 5)), x.reshape((0, 7)), x.reshape((3, -1, 2))]
    outputs += [unbroadcast(row, 0), unbroadcast(row, 0) + 1]
    assert_agrees([x, row], outputs, [np.ones((0, 4)), ramp((1, 3))])


def test_every_dtype_changes_shape():
    inputs = [at.tensor(d, shape=(None, 1)) for d in DTYPES]
    outputs = [v for x in inputs for v in (x.dimshuffle(0), x.T, x.reshape((3, -1)), x.shape)]
    assert_agrees(inputs, outputs, [ramp((6, 1), d) for d in DTYPES])


@given(st.data())
def test_broadcast_to(data):
    shape = data.draw(st.sampled_from(SHAPES))
    own = [n if data.draw(st.booleans()) else 1 for n in shape][
        data.draw(st.integers(0, len(shape))) :
    ]
    x = at.tensor("float64", shape=[1 if n == 1 else None for n in own])
    outputs = [BroadcastTo()(x, shape), at.exp(BroadcastTo()(x, shape)).sum(), at.alloc(x, *shape)]
    assert_agrees([x], outputs, [ramp(own)])


# --- Asking for shapes -------------------------------------------------------------------


def test_shapes_are_known():
    inputs = [at.tensor("float32", shape=[None] * len(shape)) for shape in SHAPES]
    args = [ramp(shape, "float32") for shape in SHAPES]
    outputs = [v for x in inputs for v in (x.shape, x.size, at.ones_like(x), x.shape.sum())]
    outputs += [Shape_i(i)(x) for x in inputs for i in range(x.ndim)]
    f = assert_agrees(inputs, outputs, args)
    assert set(equations(f, *args)) <= {"broadcast_in_dim"}


def test_the_shape_of_an_expression_does_not_compute_it():
    x = at.matrix("x")
    f = assert_agrees([x], [at.exp(at.dot(x, x.T)).shape], [ramp((2, 3))])
    assert equations(f, ramp((2, 3))) == []


def test_specify_shape():
    x, n = at.matrix("x"), at.lscalar("n")
    outputs = [SpecifyShape()(x, 2, None), at.specify_shape(x, (2, 3)), SpecifyShape()(x, n, 3)]
    f = assert_agrees([x, n], outputs, [ramp((2, 3)), 2])
    assert equations(f, ramp((2, 3)), 2) == []
    for rows, n, message in [
        (3, 2, "(3, 3), expected (2, any)"),
        (2, 4, "(2, 3), expected (4, 3)"),
    ]:
        first = refusal(FailedAssertionError, f, ramp((rows, 3)), n)[0]
        assert f"Got shape {message}" in first


# --- Computing with shapes ---------------------------------------------------------------

x, y = at.matrix("x"), at.vector("y")
n, m = x.shape[0], x.shape[1]
OF_SHAPES = {
    "arange": at.arange(n),
    "arange of a product": at.arange(0, n * m, 2) + x.size,
    "half": x[: n // 2],
    "back half": x[n // 2 :, -(m // 2) :],
    "computed index": x[n - 1, m - 2],
    "mask": at.where(at.arange(m) < m // 2, x, 0),
    "one-hot": at.eq(at.arange(m), m - 1) * x,
    "identity": at.eye(n, m) * x,
    "triangle": x * at.ge(at.arange(n)[:, None], at.arange(m)),
    "padded": at.concatenate([x, at.zeros((n, 2))], axis=1),
    "pairs": x.reshape((n * m // 2, 2)),
    "rest": x.reshape((-1, at.maximum(m // 2, 1))),
    "other's": at.zeros((y.shape[0], n)),
    "clipped": y[: at.minimum(n, y.shape[0])],
    "if": at.switch(at.gt(n, 1), x.sum(), y.sum()),
    "mean by hand": x.sum(axis=0) / n,
    "filled": at.alloc(y.sum(), n, m),
    "tiled": at.tile(y, (n, 2)),
    "repeated": at.repeat(y[None], n, axis=0),
    "stacked": at.stack([n, m, y.shape[0]]),
    "join of shapes": at.zeros(at.concatenate([x.shape, y.shape])),
    "float of a shape": at.ceil(m / 2.0) * x,
}


def test_what_depends_on_shapes():
    assert_agrees([x, y], [*OF_SHAPES.values()], [ramp((2, 4)), ramp((3,))])
    f = jaxprgen.compile([x, y], OF_SHAPES["half"])
    assert [f(ramp((n, 4)), ramp((3,))).shape for n in (2, 5)] == [(1, 4), (2, 4)]


def test_masks_and_ones_that_shapes_give_are_constants():
    """Nothing of them is computed at run time."""
    mask = at.switch(at.arange(m) < m // 2, 1.0, 2.0)
    f = jaxprgen.compile([x], x * mask)
    assert equations(f, ramp((2, 4))) == ["mul"]
    chain = at.second(x, at.second(x, 1.0) * 2) * at.ones_like(x) + at.zeros_like(x).sum()
    f = jaxprgen.compile([x], x * chain)
    assert equations(f, ramp((2, 4))) == ["mul"]


def test_the_gradient_of_a_sum_is_no_equation():
    gradient = aesara.grad(x.sum(axis=0).sum(), x)
    f = assert_agrees([x], [gradient], [ramp((2, 3))])
    assert equations(f, ramp((2, 3))) == ["broadcast_in_dim"]
