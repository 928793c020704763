"""Ops that return their input: copies, views, and marks for differentiation."""

from __future__ import annotations

from aesara.compile.ops import DeepCopyOp, UpdatePlaceholder, ViewOp
from aesara.gradient import ConsiderConstant, DisconnectedGrad, ZeroGrad
from aesara.tensor.extra_ops import CpuContiguous

from jaxprgen._jax import Var
from jaxprgen.emit.values import Broadcast, Value
from jaxprgen.frontend.context import RuleContext
from jaxprgen.frontend.registry import lowers
from jaxprgen.ir import primitives as lax


@lowers(ViewOp, DeepCopyOp, UpdatePlaceholder, CpuContiguous, folds=False)
def lower_identity(ctx: RuleContext, x: Value) -> Value:
    """The value itself: programs have no memory to share or not to share."""
    return x


@lowers(ConsiderConstant, DisconnectedGrad, ZeroGrad, folds=False)
def lower_constant_to_gradients(ctx: RuleContext, x: Value) -> Value:
    """The value, constant to JAX's differentiation as it is to Aesara's."""
    if type(x) is Broadcast:
        return Broadcast(lower_constant_to_gradients(ctx, x.operand), x.shape)  # type: ignore[arg-type]
    return lax.stop_gradient(ctx.builder, x) if type(x) is Var else x
