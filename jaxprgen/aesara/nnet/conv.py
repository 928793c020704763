"""Rules for convolutions and for windows of images, from `aesara.tensor.nnet`.

The abstract convolutions mean what Aesara's ``perform`` computes, with four exceptions:

- A gradient for image sizes that do not fit the other operand is an error. ``perform`` uses the
  sizes of the other operand.
- Zeros between the elements of a dilated filter are not multiplied. The difference shows where
  they would meet an infinity (see `jaxprgen.emit.convolution`).
- Volumes are never convolved by Fourier transforms, through which SciPy spreads NaN and rounding
  errors.
- Half precision, for which SciPy has no convolution, is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from aesara.tensor.nnet.abstract_conv import (
    AbstractConv,
    AbstractConv_gradInputs,
    AbstractConv_gradWeights,
)
from aesara.tensor.nnet.conv import ConvOp
from aesara.tensor.nnet.conv3d2d import DiagonalSubtensor, IncDiagonalSubtensor
from aesara.tensor.nnet.corr import CorrMM, CorrMM_gradInputs, CorrMM_gradWeights
from aesara.tensor.nnet.corr3d import Corr3dMM, Corr3dMMGradInputs, Corr3dMMGradWeights
from aesara.tensor.nnet.neighbours import Images2Neibs

from jaxprgen.emit import convolution, diagonal
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit.convolution import ConvolutionGeometry, span
from jaxprgen.emit.pooling import SlidingWindow, unfold
from jaxprgen.emit.shape import concatenate, reshape, slice_axis, transpose
from jaxprgen.emit.values import BOOL, Shape, Value, full
from jaxprgen.errors import ShapeMismatchError, UnsupportedOpError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

# --- Convolutions for any back end --------------------------------------------------------


_OF_FILTER = {"valid": lambda n: 0, "half": lambda n: n // 2, "full": lambda n: n - 1}


def _geometry(op: Any, filter_sizes: Sequence[int]) -> ConvolutionGeometry:
    """What an Op's attributes say of filters of these sizes."""
    mode, dilation = op.border_mode, [int(n) for n in op.filter_dilation]
    if isinstance(mode, str):
        mode = [_OF_FILTER[mode](span(k, d)) for k, d in zip(filter_sizes, dilation, strict=True)]
    padding = [sides if isinstance(sides, tuple) else (sides, sides) for sides in mode]
    shared, flipped = not getattr(op, "unshared", False), getattr(op, "filter_flip", False)
    strides = [int(n) for n in op.subsample]
    return ConvolutionGeometry(padding, strides, dilation, op.num_groups, shared, flipped)


def _in_common_dtype(ctx: RuleContext, x: Value, y: Value) -> tuple[Value, Value]:
    """Both operands in the dtype to compute in; the result is rounded to the declared one."""
    common = ew.canonical(np.promote_types(x.dtype, y.dtype))
    if common == BOOL or not np.can_cast(common, ctx.dtype, "same_kind"):
        raise UnsupportedOpError(
            f"In Aesara there is no {ctx.dtype} convolution of {x.dtype} and {y.dtype}; "
            "convert them to one dtype of numbers."
        )
    return x.astype(common), y.astype(common)


@lowers(AbstractConv, folds=False)
def lower_abstract_conv(ctx: RuleContext, x: Value, w: Value) -> Value:
    """What comes out where filters slide along images."""
    x, w = _in_common_dtype(ctx, x, w)
    geometry = _geometry(ctx.op, w.shape[-ctx.op.convdim :])
    out = convolution.correlate(x, w, geometry)
    return out.astype(ctx.dtype)


@lowers(AbstractConv_gradWeights, folds=False, static=(2,))
def lower_abstract_filter_gradient(ctx: RuleContext, x: Value, y: Value, sizes: Value) -> Value:
    """The gradient with respect to filters, whose sizes are known while emitting."""
    x, y = _in_common_dtype(ctx, x, y)
    known = [int(n) for n in ctx.static(2)]
    gradient = convolution.filter_gradient(x, y, known, _geometry(ctx.op, known))
    return gradient.astype(ctx.dtype)


@lowers(AbstractConv_gradInputs, folds=False, static=(2,))
def lower_abstract_image_gradient(ctx: RuleContext, w: Value, y: Value, sizes: Value) -> Value:
    """The gradient with respect to images, whose sizes are known while emitting."""
    w, y = _in_common_dtype(ctx, w, y)
    known = [int(n) for n in ctx.static(2)]
    geometry = _geometry(ctx.op, w.shape[-ctx.op.convdim :])
    gradient = convolution.image_gradient(w, y, known, geometry)
    return gradient.astype(ctx.dtype)


# --- Convolutions of one size -------------------------------------------------------------


@lowers(ConvOp, folds=False)
def lower_conv_op(ctx: RuleContext, x: Value, w: Value) -> Value:
    """Images and filters are spread to their logical sizes, by zeros, and then convolved."""
    op = ctx.op
    x, w = _in_common_dtype(ctx, x, w)
    _require_sizes(x.shape, op.bsize, op.imshp)
    _require_sizes(w.shape, op.nkern, op.kshp)
    x = _spread(x, op.imshp_logical[1:], first=True)
    w = _spread(w, op.kshp_logical, first=op.kshp_logical_top_aligned)
    around = [0, 0] if op.out_mode == "valid" else [k - 1 for k in w.shape[2:]]
    geometry = ConvolutionGeometry([(n, n) for n in around], (op.dx, op.dy), (1, 1), flipped=True)
    return convolution.correlate(x, w, geometry)


def _require_sizes(shape: Shape, count: int | None, others: Sequence[int | None]) -> None:
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


# --- Correlations -------------------------------------------------------------------------


def _size_inputs(node: Any) -> Sequence[int]:
    """The inputs of a gradient that are sizes."""
    return range(2, len(node.inputs))


@lowers(CorrMM, Corr3dMM, folds=False)
def lower_correlation(ctx: RuleContext, x: Value, w: Value) -> Value:
    """What comes out where filters slide along images; Aesara gave both one dtype."""
    x, w = _in_common_dtype(ctx, x, w)
    geometry = _geometry(ctx.op, w.shape[2 - x.ndim :])
    return convolution.correlate(x, w, geometry)


@lowers(CorrMM_gradWeights, Corr3dMMGradWeights, folds=False, static=_size_inputs)
def lower_filter_gradient(ctx: RuleContext, x: Value, y: Value, *sizes: Value) -> Value:
    """The gradient with respect to filters of the given sizes, or of those there can be."""
    x, y = _in_common_dtype(ctx, x, y)
    op, known = ctx.op, [ctx.static_int(i) for i in _size_inputs(ctx.node)]
    known = known or _filter_sizes(op, x.shape[2:], y.shape[2:])
    return convolution.filter_gradient(x, y, known, _geometry(op, known))


def _filter_sizes(op: Any, sizes: Sequence[int], places: Sequence[int]) -> list[int]:
    """The largest filters that fit. Aesara asks for sizes where the border is "half"."""
    steps = op.subsample, op.filter_dilation, _geometry(op, [1] * len(sizes)).padding
    found: list[int] = []
    for n, m, s, d, (low, high) in zip(sizes, places, *steps, strict=True):
        last = span(m, s) - n if op.border_mode == "full" else low + n + high - span(m, s)
        found.append(last // d + 1)
    return found


@lowers(CorrMM_gradInputs, Corr3dMMGradInputs, folds=False, static=_size_inputs)
def lower_image_gradient(ctx: RuleContext, w: Value, y: Value, *sizes: Value) -> Value:
    """The gradient with respect to images of the given sizes, or of the least there can be."""
    w, y = _in_common_dtype(ctx, w, y)
    _, _, *places = y.shape
    own = w.shape[-len(places) :]
    geometry = _geometry(ctx.op, own)
    known = [ctx.static_int(i) for i in _size_inputs(ctx.node)] or [
        span(m, s) + span(k, d) - 1 - low - high
        for m, s, k, d, (low, high) in zip(
            places, geometry.strides, own, geometry.dilation, geometry.padding, strict=True
        )
    ]
    return convolution.image_gradient(w, y, known, geometry)


# --- Stripes between diagonals ------------------------------------------------------------


@lowers(DiagonalSubtensor, static=(1, 2))
def lower_diagonal_subtensor(ctx: RuleContext, x: Value, axis1: Value, axis2: Value) -> Value:
    """The stripe between the long diagonals of two axes, which are known while emitting."""
    return diagonal.stripe(x, *_stripe_axes(ctx, x))


@lowers(IncDiagonalSubtensor, static=(1, 2))
def lower_inc_diagonal_subtensor(
    ctx: RuleContext, x: Value, axis1: Value, axis2: Value, y: Value
) -> Value:
    """That stripe increased; in place or not is all one here."""
    y = y.astype(ctx.dtype)
    return diagonal.add_to_stripe(x, y, *_stripe_axes(ctx, x))


def _stripe_axes(ctx: RuleContext, x: Value) -> tuple[int, int]:
    rank = x.ndim
    return ctx.static_int(1) % rank, ctx.static_int(2) % rank


# --- Neighbourhoods of pixels -------------------------------------------------------------


def _grid(mode: str, length: int, size: int, step: int) -> SlidingWindow:
    """The neighbourhoods of an axis; those that wrap around are of a wrapped axis."""
    if mode == "wrap_centered":
        if size % 2 == 0 or length < size:
            raise ShapeMismatchError(
                f"Neighbourhoods of size {size} do not wrap around an axis of size {length}: "
                "their size is odd and at most that of the axis."
            )
        return SlidingWindow(size, step, 0, -(-length // step))
    margin = {"half": size // 2, "full": size - 1}.get(mode, 0)
    room = length + 2 * margin - size
    if mode != "ignore_borders" and (length < size or room % step):
        raise ShapeMismatchError(
            f"Neighbourhoods of size {size}, one every {step}, with a margin of {margin} do not "
            f"fill an axis of size {length}."
        )
    return SlidingWindow(size, step, -margin, max(0, 1 + room // step))


def _wrapped(x: Value, axis: int, margin: int) -> Value:
    """``x`` with what is at either end of an axis put at the other as well."""
    length = x.shape[axis]
    last = slice_axis(x, axis, length - margin, length)
    return concatenate([last, x, slice_axis(x, axis, 0, margin)], axis)


@lowers(Images2Neibs, static=(1, 2))
def lower_images_to_neighbours(ctx: RuleContext, x: Value, *_: Value) -> Value:
    """Each neighbourhood of images of shape (list, list, row, column) as one row."""
    shape = x.shape
    sizes, steps = (ctx.static(i).tolist() for i in (1, 2))
    if len(sizes) != 2 or len(steps) != 2 or min(*sizes, *steps) < 1:
        raise ShapeMismatchError(
            f"Neighbourhoods of sizes {sizes}, one every {steps}, are none: images have two axes, "
            "and all are at least 1."
        )
    grid = [_grid(ctx.op.mode, *each) for each in zip(shape[2:], sizes, steps, strict=True)]
    if ctx.op.mode == "wrap_centered":
        for axis, size in enumerate(sizes, 2):
            x = _wrapped(x, axis, size // 2)
    apart = transpose(unfold(x, grid), (0, 1, 2, 4, 3, 5))
    return reshape(apart, (math.prod(apart.shape[:4]), math.prod(sizes)))
