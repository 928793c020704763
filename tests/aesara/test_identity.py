"""Ops that return their input: values pass through, differentiation sees the marks."""

import aesara
import aesara.gradient as marks
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.compile.ops import deep_copy_op, view_op
from aesara.raise_op import Assert, CheckAndRaise
from jax.experimental import checkify
from laws import assert_agrees, assert_same, equations

import jaxprgen
from jaxprgen.errors import FailedAssertionError, RuntimeCheckWarning, UndefinedGradientError

x = at.dvector("x")
VALUE = np.array([0.1, 2.0, -3.0])


@pytest.mark.parametrize("op", [deep_copy_op, view_op], ids=str)
def test_copies_and_views_cost_nothing(op):
    f = assert_agrees([x], [op(x)], [VALUE])
    assert equations(f, VALUE) == []


def test_a_default_is_not_needed():
    f = assert_agrees([x], [at.default(x, x + 1)], [VALUE])
    assert equations(f, VALUE) == []


MARKS = {
    "zero_grad": marks.zero_grad,
    "disconnected_grad": marks.disconnected_grad,
    "consider_constant": marks.consider_constant_,  # The function of that name is deprecated.
    "grad_clip": lambda v: marks.grad_clip(v, -1.0, 1.5),
    "grad_scale": lambda v: marks.grad_scale(v, 0.5),
}


@pytest.mark.parametrize("mark", list(MARKS.values()), ids=list(MARKS))
def test_gradients_see_marks_as_aesara_does(mark):
    # The marked value is computed from x, and x is used beside it too.
    cost = at.sum(mark(x**2) * 3.0 + at.sin(x))
    f = assert_agrees([x], cost, [VALUE])
    by_aesara = jaxprgen.compile([x], aesara.grad(cost, x))(VALUE)
    assert_same(jax.grad(f)(VALUE), by_aesara)
    assert_same(jax.jit(jax.vmap(jax.grad(f)))(VALUE[None]), by_aesara[None])


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
    f = jaxprgen.compile([x], at.sum(positive(x)), checks=True)
    for run in (checkify.checkify(f), jax.jit(checkify.checkify(f))):
        error, value = run(np.abs(VALUE))
        assert error.get() is None
        assert_same(value, np.sum(np.abs(VALUE)))
        error, _ = run(VALUE)
        assert "must be positive" in error.get()


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
