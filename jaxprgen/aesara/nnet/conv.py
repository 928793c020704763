"""Rules for `aesara.tensor.nnet.conv`, which `aesara.tensor.signal.conv` builds upon."""

from __future__ import annotations

import math
from collections.abc import Sequence

from aesara.tensor.nnet.conv import ConvOp

from jaxprgen.aesara.nnet.abstract_conv import in_common_dtype
from jaxprgen.emit import convolution
from jaxprgen.emit import index as ix
from jaxprgen.emit.convolution import Layout
from jaxprgen.emit.values import Shape, Value, full
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(ConvOp, folds=False)
def lower_conv(ctx: RuleContext, x: Value, w: Value) -> Value:
    """Images and filters are spread to their logical sizes, by zeros, and then convolved."""
    op = ctx.op
    x, w = in_common_dtype(ctx, x, w)
    _check(x.shape, op.bsize, op.imshp)
    _check(w.shape, op.nkern, op.kshp)
    x = _spread(x, op.imshp_logical[1:], first=True)
    w = _spread(w, op.kshp_logical, first=op.kshp_logical_top_aligned)
    around = [0, 0] if op.out_mode == "valid" else [k - 1 for k in w.shape[2:]]
    layout = Layout([(n, n) for n in around], (op.dx, op.dy), (1, 1), flipped=True)
    return convolution.correlate(x, w, layout)


def _check(shape: Shape, count: int | None, others: Sequence[int | None]) -> None:
    """A shape is what the Op was made for, if it was told; the last sizes count if all are."""
    told = (count, *((None,) * len(others) if None in others else others))
    own = shape[:1] + shape[4 - len(others) :]
    if any(n not in (None, m) for n, m in zip(told, own, strict=True)):
        raise ShapeMismatchError(f"The Op was made for sizes {told}, not for {own}.")


def _spread(x: Value, logical: Sequence[int | None], *, first: bool) -> Value:
    """Zeros between the elements of the last two axes, which so get their logical sizes.

    The first element comes first, or else the last one last.
    """
    own = x.shape
    sizes = [n if want is None else want for n, want in zip(own[2:], logical, strict=True)]
    if tuple(sizes) == own[2:]:
        return x
    steps = [math.ceil(want / n) for want, n in zip(sizes, own[2:], strict=True)]
    starts = [
        0 if first else (want - n * step - 1 + step) % step
        for want, n, step in zip(sizes, own[2:], steps, strict=True)
    ]
    index = [slice(start, None, step) for start, step in zip(starts, steps, strict=True)]
    zeros = full((*own[:2], *sizes), 0, x.dtype)
    return ix.put(zeros, x, [slice(None), slice(None), *index], add=False)
