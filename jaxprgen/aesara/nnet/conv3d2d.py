"""Rules for `aesara.tensor.nnet.conv3d2d`."""

from aesara.tensor.nnet.conv3d2d import DiagonalSubtensor, IncDiagonalSubtensor

from jaxprgen.emit import diagonal
from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(DiagonalSubtensor, static=(1, 2))
def lower_diagonal_subtensor(ctx: RuleContext, x: Value, axis1: Value, axis2: Value) -> Value:
    """The stripe between the long diagonals of two axes, which are known while emitting."""
    return diagonal.stripe(x, *_axes(ctx, x))


@lowers(IncDiagonalSubtensor, static=(1, 2))
def lower_inc_diagonal_subtensor(
    ctx: RuleContext, x: Value, axis1: Value, axis2: Value, y: Value
) -> Value:
    """That stripe increased; in place or not is all one here."""
    y = y.astype(ctx.dtype)
    return diagonal.add_to_stripe(x, y, *_axes(ctx, x))


def _axes(ctx: RuleContext, x: Value) -> tuple[int, int]:
    rank = x.ndim
    return ctx.static_int(1) % rank, ctx.static_int(2) % rank
