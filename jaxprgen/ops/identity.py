"""Rules for Ops that return their input: copies, marks for gradients, assertions, printing."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from jaxprgen.emit import elementwise as ew, primitives as lax
from jaxprgen.emit.callback import call_for_effect
from jaxprgen.emit.custom_derivatives import undefined, with_derivatives, with_pullback
from jaxprgen.emit.deferred import Deferred
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.values import Value
from jaxprgen.errors import FailedAssertionError, assertion_error
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

# --- Copies, and marks for gradients ------------------------------------------------------


@lowers("compile.ViewOp", "compile.DeepCopyOp", lazy=Selected)
@lowers("compile.ViewOp", "compile.DeepCopyOp", "tensor.Unbroadcast", lazy=Deferred)
@lowers("compile.ViewOp", "compile.DeepCopyOp", "tensor.Unbroadcast", folds=False)
@lowers("compile.UpdatePlaceholder", "tensor.CpuContiguous", folds=False)
@lowers("tensor.TensorFromScalar", "tensor.ScalarFromTensor", folds=False)
def lower_identity(ctx: RuleContext, x: Any, *_: Any) -> Any:
    """Return the first operand.

    Programs have no memory to share, sizes decide how an array broadcasts, and a scalar is an array
    without axes.
    """
    return x


@lowers("tensor.Default", folds=False)
def lower_default(ctx: RuleContext, x: Value | None, default: Value | None) -> Value | None:
    """Return the operand, or the default in place of None."""
    return default if x is None else x


def _mark(x: Value, mark: Callable[[Value], Value]) -> Value:
    """Apply ``mark`` to a variable; a known value has no derivatives."""
    return x if x.static is not None else Value(mark(Value(x.source)).source, x.shape)


@lowers("gradient.ConsiderConstant", "gradient.DisconnectedGrad", "gradient.ZeroGrad", folds=False)
def lower_constant_to_gradients(ctx: RuleContext, x: Value) -> Value:
    """Return the operand; JAX, like Aesara, treats it as a constant when it differentiates."""
    return _mark(x, lax.stop_gradient)


@lowers("gradient.GradClip", folds=False)
def lower_grad_clip(ctx: RuleContext, x: Value) -> Value:
    """Return the operand; in reverse mode, gradients are clipped as by `GradClip.grad`."""
    low, high = float(ctx.op.clip_lower_bound), float(ctx.op.clip_upper_bound)

    def clip(g: Value) -> Value:
        return ew.clip(g, low, high)

    return _of_floats(x, lambda v: with_pullback(v, clip, "grad_clip"))


@lowers("gradient.GradScale", folds=False)
def lower_grad_scale(ctx: RuleContext, x: Value) -> Value:
    """Return the operand; derivatives are scaled as by `GradScale.grad`."""
    factor = float(ctx.op.multiplier)
    scaled = with_derivatives(lambda v: v, lambda v: v.like(factor))
    return _of_floats(x, scaled)


@lowers("gradient.UndefinedGrad", folds=False)
def lower_undefined_grad(ctx: RuleContext, x: Value) -> Value:
    """Return the operand; differentiation with respect to it is an error, as in Aesara."""
    return _of_floats(x, _without_gradient)


_without_gradient = with_derivatives(
    lambda v: v,
    undefined(
        "The graph marks a value with undefined_grad: it has no gradient. Differentiate with "
        "respect to something else, or stop the gradient with disconnected_grad."
    ),
)


def _of_floats(x: Value, mark: Callable[[Value], Value]) -> Value:
    """Apply ``mark`` to a variable of a dtype that has derivatives."""
    return _mark(x, mark) if x.dtype.kind in "fc" else x


# --- Assertions ---------------------------------------------------------------------------


@lowers("raise_op.CheckAndRaise", lazy=Selected)
@lowers("raise_op.CheckAndRaise", folds=False, shape_only=lambda node: range(1, len(node.inputs)))
def lower_check(ctx: RuleContext, x: Value, *conditions: Value) -> Value:
    """Return the operand; check known conditions now, and others at run time if checks are on."""
    truths = [ew.truth(c) for c in conditions]
    if any(t.static is not None and not t.static for t in truths):
        raise failed_check(ctx.op)
    unknown = [t for t in truths if t.static is None]
    if unknown:
        holds = functools.reduce(operator.and_, unknown)
        op, raised = ctx.op, ctx.op.exc_type.__name__
        unchecked = f"whether the condition of {op} is true. If not, the Op raises {raised}, and "
        unchecked += "this program goes on"
        ctx.require(lambda: holds, error_of(op), message_of(op), unchecked)
    return x


def error_of(op: Any) -> type[FailedAssertionError]:
    """Return the class of a failed check's error, which is also what the Op raises in Aesara."""
    return assertion_error(op.exc_type)


def message_of(op: Any) -> str:
    """Return the message of a failed check."""
    return f"{op.msg.removesuffix('.')}. The condition is false."


def failed_check(op: Any) -> FailedAssertionError:
    """Return the error of an assertion whose condition is known to be false."""
    return error_of(op)(message_of(op))


# --- Printing and debugging ---------------------------------------------------------------


@lowers("printing.Print", folds=False)
def lower_print(ctx: RuleContext, x: Value) -> Value:
    """Return the operand; the Op's own function prints it when the program runs."""
    op = ctx.op
    call_for_effect(lambda value: op.global_fn(op, value), x)
    return x


@lowers("breakpoint.PdbBreakpoint", folds=False)
def lower_breakpoint(ctx: RuleContext, condition: Value, *monitored: Value) -> list[Value]:
    """Return the monitored values; if the condition holds, stop in Python's debugger.

    Values that the user changes in the debugger do not change in the program, unlike in Aesara.
    """
    name = ctx.op.name

    def stop(condition: Any, *monitored: Any) -> None:
        if condition:
            print(f"Conditional breakpoint '{name}' activated: see the list variable 'monitored'.")
            breakpoint()

    call_for_effect(stop, condition, *monitored)
    return list(monitored)
