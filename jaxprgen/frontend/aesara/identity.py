"""Ops that return their input: copies, views, and marks for differentiation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
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
from jaxprgen.emit.staged import staged
from jaxprgen.emit.values import Broadcast, Value
from jaxprgen.errors import UndefinedGradientError
from jaxprgen.frontend.context import RuleContext
from jaxprgen.frontend.registry import lowers
from jaxprgen.ir import primitives as lax


@lowers(ViewOp, DeepCopyOp, UpdatePlaceholder, CpuContiguous, folds=False)
def lower_identity(ctx: RuleContext, x: Value) -> Value:
    """The value itself: programs have no memory to share or not to share."""
    return x


@lowers(Default, folds=False, shape_only=(1,))
def lower_default(ctx: RuleContext, x: Value, default: Value) -> Value:
    """The value: the default is for None, which no tensor of a graph is."""
    return x


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
def lower_grad_clip(ctx: RuleContext, x: Value) -> list[Var]:
    """The value; gradients through it are clipped, in reverse mode, as by `GradClip.grad`."""
    routine = _clip_gradient(float(ctx.op.clip_lower_bound), float(ctx.op.clip_upper_bound))
    return staged(ctx.builder, routine, x)


@lowers(GradScale, folds=False)
def lower_grad_scale(ctx: RuleContext, x: Value) -> list[Var]:
    """The value; derivatives through it are multiplied, as by `GradScale.grad`."""
    return staged(ctx.builder, _scale_gradient(float(ctx.op.multiplier)), x)


@lowers(UndefinedGrad, folds=False)
def lower_undefined_grad(ctx: RuleContext, x: Value) -> list[Var]:
    """The value; differentiating through it is an error, as in Aesara."""
    return staged(ctx.builder, _refuse_gradient, x)


@functools.lru_cache(maxsize=256)
def _clip_gradient(low: float, high: float) -> Any:
    @jax.custom_vjp
    def grad_clip(x: Any) -> Any:
        return x

    grad_clip.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, low, high),))
    return grad_clip


@functools.lru_cache(maxsize=256)
def _scale_gradient(factor: float) -> Any:
    @jax.custom_jvp
    def grad_scale(x: Any) -> Any:
        return x

    grad_scale.defjvp(lambda primals, tangents: (primals[0], factor * tangents[0]))
    return grad_scale


@jax.custom_jvp
def _refuse_gradient(x: Any) -> Any:
    return x


@_refuse_gradient.defjvp
def _refuse_gradient_jvp(primals: Any, tangents: Any) -> Any:
    raise UndefinedGradientError(
        "The graph marks a value with undefined_grad: it has no gradient. Differentiate with "
        "respect to something else, or stop the gradient with disconnected_grad."
    )
