"""Ops that return their input: values pass through, differentiation sees the marks."""

import aesara.gradient as marks
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.compile.ops import deep_copy_op, view_op
from aesara.raise_op import Assert, CheckAndRaise
from jax.experimental import checkify
from laws import assert_agrees, assert_derivatives, assert_same, equations, failures

import jaxprgen
from jaxprgen.errors import FailedAssertionError, RuntimeCheckWarning, UndefinedGradientError

x = at.dvector("x")
VALUE = np.array([0.1, 2.0, -3.0])


def test_copies_views_and_defaults_cost_nothing():
    f = assert_agrees([x], [deep_copy_op(x), view_op(x), at.default(x, x + 1)], [VALUE])
    assert equations(f, VALUE) == []


MARKS = [
    *(marks.zero_grad, marks.disconnected_grad),
    marks.consider_constant_,  # The function of that name is deprecated.
    lambda v: marks.grad_clip(v, -1.0, 1.5),
    lambda v: marks.grad_scale(v, 0.5),
]


def test_gradients_see_marks_as_aesara_does():
    # The marked value is computed from x, and x is used beside it too.
    costs = [at.sum(mark(x**2) * 3.0 + at.sin(x)) for mark in MARKS]
    assert_derivatives([x], costs, [VALUE])


def test_forward_mode_sees_scaled_gradients():
    f = jaxprgen.compile([x], marks.grad_scale(x, 0.5) * 3.0)
    assert_same(jax.jacfwd(f)(VALUE), np.eye(3) * 1.5)


def test_an_undefined_gradient_is_an_error_of_differentiation_only():
    f = assert_agrees([x], [at.sum(marks.undefined_grad(x) * x)], [VALUE])
    with pytest.raises(UndefinedGradientError, match="marks a value with undefined_grad"):
        jax.grad(f)(VALUE)


def test_marks_on_known_values_stay_known():
    n = marks.zero_grad(at.constant(3))
    f = jaxprgen.compile([x], at.arange(n) + x)
    assert equations(f, VALUE) == ["add"]


def positive(v):
    return Assert("must be positive")(v, at.all(at.gt(v, 0)), at.gt(v.shape[0], 1))


def test_an_assertion_left_out_is_announced_once_by_name():
    f = jaxprgen.compile([x], at.sum(positive(x)))
    with pytest.warns(RuntimeCheckWarning, match="Assert.*must be positive") as caught:
        f(VALUE)
        f(np.ones(4))
    assert len(caught) == 1


def test_an_assertion_is_checked_through_checkify():
    right, wrong = failures([x], at.sum(positive(x)), [np.abs(VALUE)], [VALUE])
    assert right is None and "must be positive" in wrong
    f = jaxprgen.compile([x], at.sum(positive(x)), checks=True)
    assert_same(checkify.checkify(f)(np.abs(VALUE))[1], np.sum(np.abs(VALUE)))


def test_an_assertion_known_to_fail_fails_while_emitting():
    f = jaxprgen.compile([x], positive(x), checks=True)
    with pytest.raises(FailedAssertionError, match="must be positive"):
        f.jaxpr(np.ones(1))
    f.jaxpr(np.ones(2))


def test_a_known_condition_may_be_a_number():
    checked = CheckAndRaise(ValueError, "need more than three")(x, x.shape[0] - 3, at.constant(1))
    f = jaxprgen.compile([x], checked * 2)
    assert equations(f, np.ones(4)) == ["mul"]
    with pytest.raises(FailedAssertionError, match="need more than three"):
        f(np.ones(3))
