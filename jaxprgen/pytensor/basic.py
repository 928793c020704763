"""Rules for PyTensor's Ops on shapes, and for convolutions of signals."""

from __future__ import annotations

import math

from jaxprgen.emit import shape as sh
from jaxprgen.emit.convolution import ConvolutionGeometry, correlate
from jaxprgen.emit.shape import expand_dims, squeeze
from jaxprgen.emit.sizes import is_at_most
from jaxprgen.emit.values import Value
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.identity import lower_identity

_MARKS = (
    *("tensor.SpecifyAssumptions", "assumptions.SpecifyAssumptions"),
    *("xtensor.XTensorFromTensor", "xtensor.TensorFromXTensor"),
)
lowers(*_MARKS, folds=False)(lower_identity)


@lowers("tensor.JoinDims")
def lower_join_dims(ctx: RuleContext, x: Value) -> Value:
    """Return the elements with adjacent axes joined to one."""
    start, count = ctx.op.start_axis, ctx.op.n_axes
    shape = x.shape
    joined = math.prod(shape[start : start + count])
    return sh.reshape(x, (*shape[:start], joined, *shape[start + count :]))


@lowers("tensor.SplitDims")
def lower_split_dims(ctx: RuleContext, x: Value, sizes: Value) -> Value:
    """Return the elements with one axis split into several."""
    axis = ctx.op.axis
    new = tuple(ctx.static(1).tolist())
    if -1 not in new and math.prod(new) != x.shape[axis]:
        raise ShapeMismatchError(f"An axis of size {x.shape[axis]} cannot be split into {new}.")
    return sh.reshape(x, (*x.shape[:axis], *new, *x.shape[axis + 1 :]))


@lowers("tensor.Convolve1d", "tensor.Convolve2d")
def lower_convolve(ctx: RuleContext, x: Value, w: Value, *_: Value) -> Value:
    """Return the convolution of two arrays, whole or where the smaller one is inside the other."""
    rank = x.ndim
    if 0 in (*x.shape, *w.shape):
        raise ShapeMismatchError(f"Cannot convolve empty arrays, of shapes {x.shape}, {w.shape}.")
    if not all(is_at_most([k], n) for n, k in zip(x.shape, w.shape, strict=True)):
        x, w = w, x
    whole = ctx.static(2).item()
    geometry = ConvolutionGeometry(
        padding=[(k - 1, k - 1) if whole else (0, 0) for k in w.shape],
        strides=(1,) * rank,
        dilation=(1,) * rank,
        flipped=True,
    )
    image, kernel = (expand_dims(v.astype(ctx.dtype), [0, 1]) for v in (x, w))
    return squeeze(correlate(image, kernel, geometry), [0, 1])
