"""Rules for PyTensor's `Elemwise`, `Alloc` and indexing, which broadcast only what types say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprgen.emit.values import Value
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.advanced_subtensor import lower_advanced_inc_subtensor
from jaxprgen.ops.basic import lower_alloc
from jaxprgen.ops.elemwise import elemwise_shape_only, lower_elemwise


@lowers("pytensor.tensor.Elemwise", folds=False, shape_only=elemwise_shape_only)
def lower_strict_elemwise(ctx: RuleContext, *xs: Value) -> Any:
    """Apply a scalar Op to arrays; a size of 1 is repeated only if its type declares it."""
    for axis in range(max((x.ndim for x in xs), default=0)):
        ones = [i for i, x in enumerate(xs) if x.shape[axis] == 1]
        if len(ones) < len(xs):
            require_declared(ctx, axis, ones)
    return lower_elemwise(ctx, *xs)


lower_strict_elemwise.supports = lower_elemwise.supports  # type: ignore[attr-defined]


@lowers("pytensor.tensor.Alloc", folds=False)
def lower_strict_alloc(ctx: RuleContext, x: Value, *sizes: Value) -> Any:
    """Return the operand, repeated along new axes and those whose type declares a size of 1."""
    found = lower_alloc(ctx, x, *sizes)
    if isinstance(found, Value):
        new = found.ndim - x.ndim
        for axis, n in enumerate(x.shape):
            if n == 1 and found.shape[new + axis] != 1:
                require_declared(ctx, axis, [0])
    return found


def require_declared(ctx: RuleContext, axis: int, ones: Sequence[int]) -> None:
    """Require that the types of inputs declare their size of 1 along an axis.

    ``ones`` are the positions of these inputs, each with its size.
    """
    for position in ones:
        if not ctx.node.inputs[position].type.broadcastable[axis]:
            raise ShapeMismatchError(
                f"Runtime broadcasting not allowed: {ctx.label(position)} has size 1 along axis "
                f"{axis}, which its type does not declare. If it is to be repeated, use "
                "pytensor.tensor.specify_broadcastable."
            )


@lowers("pytensor.tensor.AdvancedIncSubtensor", "pytensor.tensor.AdvancedIncSubtensor1")
def lower_strict_inc_subtensor(ctx: RuleContext, x: Value, y: Value, *index: Any) -> Value:
    """Write at a vector of indices only what has its size, or declares a size of 1.

    Other indices broadcast as in NumPy.
    """
    if _is_vector(ctx):
        written = (*index[0].shape, *x.shape[1:])
        for axis, (n, size) in enumerate(
            zip(y.shape, written[len(written) - y.ndim :], strict=True)
        ):
            if n == 1 and size != 1:
                require_declared(ctx, axis, [1])
    return lower_advanced_inc_subtensor(ctx, x, y, *index)


def _is_vector(ctx: RuleContext) -> bool:
    """Return whether the only index is a vector of integers, for which the Op is strict.

    Before PyTensor 3.3, AdvancedIncSubtensor1 alone is.
    """
    op, kind = ctx.op, ctx.node.inputs[2].type
    is_strict = hasattr(op, "_runtime_broadcast_error_msg") and op.idx_list == (0,)
    return is_strict and kind.ndim == 1 and kind.dtype != "bool"
