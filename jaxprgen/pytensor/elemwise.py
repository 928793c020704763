"""Rules for PyTensor's `Elemwise` and `Alloc`, which broadcast only what types say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprgen.emit.values import Value
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.basic import lower_alloc
from jaxprgen.ops.elemwise import elemwise_shape_only, lower_elemwise


@lowers("pytensor.tensor.Elemwise", folds=False, shape_only=elemwise_shape_only)
def lower_strict_elemwise(ctx: RuleContext, *xs: Value) -> Any:
    """Apply a scalar Op to arrays; a size of 1 is repeated only if its type declares it."""
    rank = max((x.ndim for x in xs), default=0)
    for axis in range(rank):
        sizes = [x.shape[axis] for x in xs]
        if all(n == 1 for n in sizes):
            continue
        require_declared(ctx, axis, [(i, n) for i, n in enumerate(sizes) if n == 1])
    return lower_elemwise(ctx, *xs)


lower_strict_elemwise.supports = lower_elemwise.supports  # type: ignore[attr-defined]


@lowers("pytensor.tensor.Alloc", folds=False)
def lower_strict_alloc(ctx: RuleContext, x: Value, *sizes: Value) -> Any:
    """Return the operand, repeated along new axes and those whose type declares a size of 1."""
    found = lower_alloc(ctx, x, *sizes)
    if isinstance(found, Value):
        new = found.ndim - x.ndim
        ones = [d for d, n in enumerate(x.shape) if n == 1 and found.shape[new + d] != 1]
        for axis in ones:
            require_declared(ctx, axis, [(0, 1)])
    return found


def require_declared(ctx: RuleContext, axis: int, ones: Sequence[tuple[int, Any]]) -> None:
    """Require that the types of inputs declare their size of 1 along an axis.

    ``ones`` are the positions of these inputs, each with its size.
    """
    for position, _ in ones:
        if not ctx.node.inputs[position].type.broadcastable[axis]:
            raise ShapeMismatchError(
                f"Runtime broadcasting not allowed: {ctx.label(position)} has size 1 along axis "
                f"{axis}, which its type does not declare. If it is to be repeated, use "
                "pytensor.tensor.specify_broadcastable."
            )
