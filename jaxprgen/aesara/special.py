"""Rules for `aesara.tensor.special`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from aesara.tensor.special import LogSoftmax, Softmax, SoftmaxGrad

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import softmax as sm
from jaxprgen.emit.values import BOOL, Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


def _axes(op: Any, x: Value) -> tuple[int, ...]:
    rank = x.ndim
    return tuple(range(rank)) if op.axis is None else (op.axis % rank,)


def _in_floats(function: Callable[..., Value], ctx: RuleContext, x: Value) -> Value:
    """Of integers the result is declared as whole, and what is behind the point cut off."""
    working = ctx.dtype if ctx.dtype.kind in "fc" else ew.canonical(np.float64)
    y = function(x.astype(working), _axes(ctx.op, x))
    return y.astype(ctx.dtype)


@lowers(Softmax)
def lower_softmax(ctx: RuleContext, x: Value) -> Value:
    """``exp(x)``, scaled to the sum 1."""
    return _in_floats(sm.softmax, ctx, x)


@lowers(LogSoftmax)
def lower_log_softmax(ctx: RuleContext, x: Value) -> Value:
    """The logarithm of the softmax."""
    return _in_floats(sm.log_softmax, ctx, x)


@lowers(SoftmaxGrad)
def lower_softmax_grad(ctx: RuleContext, cotangent: Value, y: Value) -> Value:
    """What `aesara.grad` makes of a softmax."""
    working = np.result_type(cotangent.dtype, y.dtype)
    working = ew.canonical(np.int64) if working == BOOL else working  # As sums of booleans are.
    cotangent, y = cotangent.astype(working), y.astype(working)
    return sm.softmax_vjp(cotangent, y, _axes(ctx.op, y)).astype(ctx.dtype)
