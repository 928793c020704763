"""Rules for PyTensor's writes at indices, which broadcast only what types say."""

from __future__ import annotations

from typing import Any

from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.advanced_subtensor import lower_advanced_inc_subtensor
from jaxprgen.pytensor.elemwise import require_declared


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
                require_declared(ctx, axis, [(1, n)])
    return lower_advanced_inc_subtensor(ctx, x, y, *index)


def _is_vector(ctx: RuleContext) -> bool:
    """Return whether the only index is a vector of integers, for which the Op is strict.

    Before PyTensor 3.3, AdvancedIncSubtensor1 alone is.
    """
    op, kind = ctx.op, ctx.node.inputs[2].type
    is_strict = hasattr(op, "_runtime_broadcast_error_msg") and op.idx_list == (0,)
    return is_strict and kind.ndim == 1 and kind.dtype != "bool"
