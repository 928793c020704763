"""Rules for PyTensor's convolutions of signals."""

from __future__ import annotations

from jaxprgen.emit.convolution import ConvolutionGeometry, correlate
from jaxprgen.emit.shape import expand_dims, squeeze
from jaxprgen.emit.sizes import is_at_most
from jaxprgen.emit.values import Value
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


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
