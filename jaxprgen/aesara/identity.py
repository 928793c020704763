"""Ops that return their input: copies, views, and marks for differentiation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aesara.compile.ops import DeepCopyOp, UpdatePlaceholder, ViewOp
from aesara.gradient import (
    ConsiderConstant,
    DisconnectedGrad,
    GradClip,
    GradScale,
    UndefinedGrad,
    ZeroGrad,
)
from aesara.tensor.basic import Default
from aesara.tensor.extra_ops import CpuContiguous

from jaxprgen._jax import Var
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.derivatives import undefined, with_derivatives, with_pullback
from jaxprgen.emit.values import Broadcast, Value, dtype_of, like
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(ViewOp, DeepCopyOp, UpdatePlaceholder, CpuContiguous, folds=False)
def lower_identity(ctx: RuleContext, x: Value) -> Value:
    """The value itself: programs have no memory to share or not to share."""
    return x


@lowers(Default, folds=False)
def lower_default(ctx: RuleContext, x: Value | None, default: Value | None) -> Value | None:
    """The value, or another one in place of None: see `jaxprgen.aesara.optional`."""
    return default if x is None else x


def _mark(x: Value, mark: Callable[[Var], Var]) -> Value:
    """The value, marked where it is a variable; differentiation does not see known values."""
    if type(x) is Broadcast:
        return Broadcast(_mark(x.operand, mark), x.shape)  # type: ignore[arg-type]
    return mark(x) if type(x) is Var else x


@lowers(ConsiderConstant, DisconnectedGrad, ZeroGrad, folds=False)
def lower_constant_to_gradients(ctx: RuleContext, x: Value) -> Value:
    """The value, constant to JAX's differentiation as it is to Aesara's."""
    return _mark(x, lambda v: lax.stop_gradient(ctx.builder, v))


@lowers(GradClip, folds=False)
def lower_grad_clip(ctx: RuleContext, x: Value) -> Value:
    """The value; gradients through it are clipped, in reverse mode, as by `GradClip.grad`."""
    low, high = float(ctx.op.clip_lower_bound), float(ctx.op.clip_upper_bound)

    def clip(b: Builder, g: Value) -> Value:
        return ew.clip(b, g, like(g, low), like(g, high))

    return _of_floats(x, lambda v: with_pullback(ctx.builder, v, clip, "grad_clip"))


@lowers(GradScale, folds=False)
def lower_grad_scale(ctx: RuleContext, x: Value) -> Value:
    """The value; derivatives through it are multiplied, as by `GradScale.grad`."""
    factor = float(ctx.op.multiplier)
    scaled = with_derivatives(lambda b, v: v, lambda b, v: like(v, factor))
    return _of_floats(x, lambda v: scaled(ctx.builder, v))


@lowers(UndefinedGrad, folds=False)
def lower_undefined_grad(ctx: RuleContext, x: Value) -> Value:
    """The value; differentiating through it is an error, as in Aesara."""
    return _of_floats(x, lambda v: _without_gradient(ctx.builder, v))


_without_gradient = with_derivatives(
    lambda b, v: v,
    undefined(
        "The graph marks a value with undefined_grad: it has no gradient. Differentiate with "
        "respect to something else, or stop the gradient with disconnected_grad."
    ),
)


def _of_floats(x: Value, mark: Callable[[Var], Any]) -> Value:
    """`_mark` of numbers that can be differentiated."""
    return _mark(x, mark) if dtype_of(x).kind in "fc" else x
