"""Rules for `aesara.tensor.nnet.abstract_conv`.

Their meaning is that of Aesara's ``perform``, with these exceptions. A gradient for sizes with
which the images do not give what it is the gradient of is an error, where ``perform`` goes by the
images. Zeros between the elements of a dilated filter are no elements of it, which shows where
they meet an infinite number (`jaxprgen.emit.convolution` says more of these). Volumes are never
convolved by way of Fourier transforms, by which SciPy spreads NaN and rounding errors. Half
precision, of which SciPy has no convolution, is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from aesara.tensor.nnet.abstract_conv import (
    AbstractConv,
    AbstractConv_gradInputs,
    AbstractConv_gradWeights,
)

from jaxprgen.emit import convolution
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.convolution import Layout, span
from jaxprgen.emit.values import BOOL, Value
from jaxprgen.errors import UnsupportedOpError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

_OF_FILTER = {"valid": lambda n: 0, "half": lambda n: n // 2, "full": lambda n: n - 1}


def layout_of(op: Any, filter_sizes: Sequence[int]) -> Layout:
    """What an Op's attributes say of filters of these sizes."""
    mode, dilation = op.border_mode, [int(n) for n in op.filter_dilation]
    if isinstance(mode, str):
        mode = [_OF_FILTER[mode](span(k, d)) for k, d in zip(filter_sizes, dilation, strict=True)]
    padding = [sides if isinstance(sides, tuple) else (sides, sides) for sides in mode]
    shared, flipped = not getattr(op, "unshared", False), getattr(op, "filter_flip", False)
    strides = [int(n) for n in op.subsample]
    return Layout(padding, strides, dilation, op.num_groups, shared, flipped)


def in_common_dtype(ctx: RuleContext, x: Value, y: Value) -> tuple[Value, Value]:
    """Both operands in the dtype to compute in; the result is rounded to the declared one."""
    common = ew.canonical(np.promote_types(x.dtype, y.dtype))
    if common == BOOL or not np.can_cast(common, ctx.dtype, "same_kind"):
        raise UnsupportedOpError(
            f"In Aesara there is no {ctx.dtype} convolution of {x.dtype} and {y.dtype}; "
            "convert them to one dtype of numbers."
        )
    return x.astype(common), y.astype(common)


@lowers(AbstractConv, folds=False)
def lower_conv(ctx: RuleContext, x: Value, w: Value) -> Value:
    """What comes out where filters slide along images."""
    x, w = in_common_dtype(ctx, x, w)
    layout = layout_of(ctx.op, w.shape[-ctx.op.convdim :])
    out = convolution.correlate(x, w, layout)
    return out.astype(ctx.dtype)


@lowers(AbstractConv_gradWeights, folds=False, static=(2,))
def lower_conv_filter_gradient(ctx: RuleContext, x: Value, y: Value, sizes: Value) -> Value:
    """The gradient with respect to filters, whose sizes are known while emitting."""
    x, y = in_common_dtype(ctx, x, y)
    known = [int(n) for n in ctx.static(2)]
    gradient = convolution.filter_gradient(x, y, known, layout_of(ctx.op, known))
    return gradient.astype(ctx.dtype)


@lowers(AbstractConv_gradInputs, folds=False, static=(2,))
def lower_conv_image_gradient(ctx: RuleContext, w: Value, y: Value, sizes: Value) -> Value:
    """The gradient with respect to images, whose sizes are known while emitting."""
    w, y = in_common_dtype(ctx, w, y)
    known = [int(n) for n in ctx.static(2)]
    layout = layout_of(ctx.op, w.shape[-ctx.op.convdim :])
    gradient = convolution.image_gradient(w, y, known, layout)
    return gradient.astype(ctx.dtype)
