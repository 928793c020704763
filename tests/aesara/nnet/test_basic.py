"""What classifiers end in: softmax with a bias, and losses of one target in each row."""

import warnings

import aesara.tensor as at
import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st
from laws import (
    assert_agrees,
    assert_derivatives,
    assert_same,
    equations,
    failures,
    refusal,
)
from profiles import examples

import jaxprgen
from jaxprgen.errors import IndexOutOfBoundsError, RuntimeCheckWarning, ShapeMismatchError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # `aesara.tensor.nnet` is deprecated.
    from aesara.tensor.nnet import basic as nn

FLOATS = ["float16", "float32", "float64"]
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
ignore_checks = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")


def numbers(seed):
    return np.random.default_rng(seed)


def vector(dtype, name=None):
    return at.tensor(dtype, shape=[None], name=name)


def matrix(dtype, name=None):
    return at.tensor(dtype, shape=[None, None], name=name)


@st.composite
def rows(draw):
    """A dtype, scores with some that are infinite or NaN, and a target for each row."""
    dtype, rng = draw(st.sampled_from(FLOATS)), numbers(draw(st.integers(0, 999)))
    shape = draw(st.integers(0, 4)), draw(st.integers(1, 4))
    scores = (rng.normal(size=shape) * draw(st.sampled_from([1, 30]))).astype(dtype)
    if draw(st.booleans()) and scores.size:
        scores.flat[:: draw(st.integers(2, 5))] = draw(st.sampled_from([np.inf, -np.inf, np.nan]))
    integer = draw(st.sampled_from(INTEGERS))
    return dtype, scores, rng.integers(0, shape[1], shape[0]).astype(integer)


@ignore_checks
@examples(0.3)
@given(rows(), st.sampled_from(FLOATS), st.booleans())
def test_losses_and_what_is_computed_with_them(case, other, one):
    dtype, scores, targets = case
    x, t = matrix(dtype), vector(targets.dtype.name)
    bias, y = vector(other), vector(other)
    p = matrix(dtype)
    outputs = [
        nn.SoftmaxWithBias()(x, bias),
        *nn.CrossentropySoftmaxArgmax1HotWithBias()(x, bias, t),
        nn.CrossentropySoftmax1HotWithBiasDx()(y[:1] if one else y, p, t),
        nn.CrossentropySoftmax1HotWithBiasDx()(at.constant(0.5, dtype=other), p, t),
    ]
    if targets.dtype.kind == "i":
        outputs += [
            nn.CrossentropyCategorical1Hot()(p, t),
            nn.CrossentropyCategorical1HotGrad()(y, p, t),
        ]
    rng = numbers(0)
    share = rng.uniform(0.1, 1, scores.shape).astype(dtype)
    weights = [rng.normal(size=n).astype(other) for n in scores.shape]
    args = [scores, weights[1], targets, weights[0], share]
    assert_agrees(
        [x, bias, t, y, p], outputs, args, rtol=5e-3 if "float16" in (dtype, other) else None
    )


@ignore_checks
def test_targets_that_are_counted_from_the_end_integers_and_no_columns():
    """Targets of a distribution only: as an index of it has them."""
    p, t, q, x, bias = at.dmatrix(), at.lvector(), at.lmatrix(), at.dmatrix(), at.dvector()
    z = nn.CrossentropyCategorical1Hot()(p, t)
    outputs = [
        *(z, nn.CrossentropyCategorical1HotGrad()(z, p, t)),
        nn.CrossentropyCategorical1Hot()(q, at.constant([1, 0])),
        nn.SoftmaxWithBias()(x, bias),
    ]
    args = [numbers(0).uniform(0.1, 1, (3, 4)), np.array([-1, 0, -4]), np.array([[100, 1], [1, 3]])]
    assert_agrees([p, t, q, x, bias], outputs, [*args, np.ones((2, 0)), np.ones(0)])


@ignore_checks
@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_operands_of_more_rows_than_there_are(rows):
    """Aesara reads as many as it needs; a gradient for fewer rows is zero in the others."""
    y, p, t = at.dvector("y"), at.dmatrix("p"), at.lvector("t")
    args = [np.array([0.5, 2, 3]), np.full((rows, 3), 0.25), np.array([2, 0, 1, 9])]
    outputs = [
        nn.CrossentropyCategorical1Hot()(p, t),
        nn.CrossentropyCategorical1HotGrad()(y[: at.minimum(1, p.shape[0])], p, t),
        nn.CrossentropySoftmax1HotWithBiasDx()(y, p, t),
    ]
    assert_agrees([y, p, t], outputs, args)


@ignore_checks
def test_gradients_are_those_of_aesara():
    """Those by scores, bias, and by what the derivatives themselves are taken of."""
    x, bias, w, t = at.dmatrix("x"), at.dvector("bias"), at.dvector("w"), at.lvector("t")
    loss, softmax, _ = nn.CrossentropySoftmaxArgmax1HotWithBias()(x, bias, t)
    p = nn.softmax(x, axis=1)
    slope = nn.CrossentropySoftmax1HotWithBiasDx()(w, p, t)
    costs = [
        (loss * w).sum(),
        (at.square(softmax) * w[:, None]).sum(),
        (at.square(nn.softmax_with_bias(x, bias)) * w[:, None]).sum(),
        (nn.CrossentropyCategorical1Hot()(p, t) * w).sum() + bias.sum(),
        at.sin(slope).sum() + bias.sum(),
    ]
    args = [numbers(0).normal(size=shape) for shape in ((3, 4), 4, 3)]
    inputs, args = [x, bias, w, t], [*args, np.array([0, 3, 1])]
    assert_derivatives(inputs, costs, args, [x, bias])


def test_a_column_more():
    value = at.dscalar()
    inputs, args, outputs = [value], [np.float64(3.5)], []
    for dtype in ("int8", "float32", "complex64"):
        x, none = matrix(dtype), matrix(dtype)
        inputs += [x, none]
        args += [(numbers(0).normal(size=(3, 2)) * 9).astype(dtype), np.zeros((0, 2), dtype)]
        outputs += [nn.prepend_1_to_each_row(x), nn.Prepend_scalar_constant_to_each_row(2.5)(x)]
        outputs += [nn.prepend_scalar_to_each_row(value, x), nn.prepend_0_to_each_row(none)]
    assert_agrees(inputs, outputs, args)
    # Python mode has no such thing: an integer has no ``data``.
    x, a = at.dmatrix("x"), np.ones((2, 3))
    seven, wanted = nn.Prepend_scalar_constant_to_each_row(7), np.insert(a, 0, 7, 1)
    assert_same(jaxprgen.compile([x], seven(x))(a), wanted)
    assert_same(jaxprgen.compile([], seven(at.constant(a)))(), wanted)
    loss = at.sum(at.sin(nn.prepend_scalar_to_each_row(value, x)))
    assert_derivatives([value, x], loss, [2.0, a], [x])
    slope = jax.grad(jaxprgen.compile([value, x], loss))(2.0, a)
    assert_same(slope, 2 * np.cos(np.float64(2)))


CLASSES = [
    (nn.CrossentropySoftmax1HotWithBiasDx(), "is one of 3 classes", "out of range for 3 classes"),
    (nn.CrossentropyCategorical1HotGrad(), "within axis 1 of", "out of bounds for axis 1 of size"),
]


@pytest.mark.parametrize(("op", "unchecked", "message"), CLASSES)
def test_targets_are_checked_on_request(op, unchecked, message):
    inputs = y, p, t = at.dvector("y"), at.dmatrix("p"), at.lvector("t")
    args, least = [np.ones(2), np.full((2, 3), 0.5)], -1 if op is CLASSES[0][0] else -4
    with pytest.warns(RuntimeCheckWarning, match=unchecked):
        jaxprgen.compile(inputs, op(y, p, t))(*args, np.array([0, 7]))
    targets = np.array([[0, 2], [0, 3], [least, 0]])
    right, *wrong = failures(inputs, op(y, p, t), *([*args, row] for row in targets))
    assert right is None and all(message in text for text in wrong)


@pytest.mark.parametrize(
    ("targets", "size", "kind", "message"),
    [
        (None, 1, ShapeMismatchError, "A bias of shape (1,) does not fit rows of 3 elements."),
        ([0], 3, ShapeMismatchError, "Expected one target for each of 2 rows, got shape (1,)."),
        ([0, -1], 3, IndexOutOfBoundsError, "Targets must be from 0 to 2, got [0, -1]."),
    ],
)
def test_shapes_and_known_targets_must_fit(targets, size, kind, message):
    x, bias, t = at.dmatrix("x"), at.dvector("bias"), at.lvector("t")
    known = t if targets is None else at.constant(targets)
    out = nn.CrossentropySoftmaxArgmax1HotWithBias()(x, bias, known)[0]
    f = jaxprgen.compile([x, bias, t], out)
    assert refusal(kind, f, np.ones((2, 3)), np.ones(size), np.array([0, 1]))[0] == message


def test_known_targets_need_no_check():
    x, bias = at.dmatrix("x"), at.dvector("bias")
    z = nn.crossentropy_softmax_argmax_1hot_with_bias(x, bias, at.constant([0, 1]))[0]
    names = equations(jaxprgen.compile([x, bias], z), np.ones((2, 3)), np.ones(3))
    assert names.count("exp") == 1
    assert len(names) <= 12
