"""Rules for `aesara.tensor.special`."""

from __future__ import annotations

from typing import Any

from aesara.tensor.special import LogSoftmax, Softmax, SoftmaxGrad

from jaxprgen.emit import softmax as sm
from jaxprgen.emit.values import Value, shape_of
from jaxprgen.frontend.context import RuleContext
from jaxprgen.frontend.registry import lowers


def _axes(op: Any, x: Value) -> tuple[int, ...]:
    rank = len(shape_of(x))
    return tuple(range(rank)) if op.axis is None else (op.axis % rank,)


@lowers(Softmax)
def lower_softmax(ctx: RuleContext, x: Value) -> Value:
    """``exp(x)``, scaled to the sum 1."""
    return sm.softmax(ctx.builder, x, _axes(ctx.op, x))


@lowers(LogSoftmax)
def lower_log_softmax(ctx: RuleContext, x: Value) -> Value:
    """The logarithm of the softmax."""
    return sm.log_softmax(ctx.builder, x, _axes(ctx.op, x))


@lowers(SoftmaxGrad)
def lower_softmax_grad(ctx: RuleContext, cotangent: Value, y: Value) -> Value:
    """What `aesara.grad` makes of a softmax."""
    return sm.softmax_vjp(ctx.builder, cotangent, y, _axes(ctx.op, y))
