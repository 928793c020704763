"""Rules for `aesara.tensor.special`: the softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import softmax as sm
from jaxprgen.emit.values import BOOL, Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


def _axes(op: Any, x: Value) -> tuple[int, ...]:
    if op.axis is None:
        return tuple(range(x.ndim))
    axes = op.axis if isinstance(op.axis, tuple) else (op.axis,)
    return tuple(axis % x.ndim for axis in axes)


def _in_floats(function: Callable[..., Value], ctx: RuleContext, x: Value) -> Value:
    """Compute in floats; for integers, Aesara declares an integer result, which is truncated."""
    working = ctx.dtype if ctx.dtype.kind in "fc" else ew.canonical(np.float64)
    return function(x.astype(working), _axes(ctx.op, x)).astype(ctx.dtype)


@lowers("tensor.Softmax")
def lower_softmax(ctx: RuleContext, x: Value) -> Value:
    """Return the softmax: ``exp(x)``, scaled to sum to 1."""
    return _in_floats(sm.softmax, ctx, x)


@lowers("tensor.LogSoftmax")
def lower_log_softmax(ctx: RuleContext, x: Value) -> Value:
    """Return the logarithm of the softmax."""
    return _in_floats(sm.log_softmax, ctx, x)


@lowers("tensor.SoftmaxGrad")
def lower_softmax_grad(ctx: RuleContext, cotangent: Value, y: Value) -> Value:
    """Return the gradient of the softmax ``y`` as built by `aesara.grad`."""
    working = np.result_type(cotangent.dtype, y.dtype)
    if working == BOOL:  # NumPy sums booleans in int64.
        working = ew.canonical(np.int64)
    cotangent, y = cotangent.astype(working), y.astype(working)
    return sm.softmax_vjp(cotangent, y, _axes(ctx.op, y)).astype(ctx.dtype)
