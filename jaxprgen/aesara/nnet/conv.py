"""Rules for convolutions and for windows of images, from `aesara.tensor.nnet`.

The abstract convolutions mean what Aesara's ``perform`` computes, with four exceptions:

- A gradient for image sizes that do not fit the other operand is an error. ``perform`` uses the
  sizes of the other operand.
- Zeros between the elements of a dilated filter are not multiplied. The difference shows where
  they would meet an infinity (see `jaxprgen.emit.convolution`).
- Volumes are never convolved by Fourier transforms, through which SciPy spreads NaN and rounding
  errors.
- Half precision, for which SciPy has no convolution, is computed.

The Ops by products of matrices, which Aesara implements in C alone, mean the same.
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

from jaxprgen._jax import Size, max_size
from jaxprgen.emit import convolution, diagonal, elementwise as ew, index as ix
from jaxprgen.emit.convolution import ConvolutionGeometry
from jaxprgen.emit.pooling import SlidingWindow, unfold
from jaxprgen.emit.shape import concatenate, reshape, slice_axis, transpose
from jaxprgen.emit.sizes import as_size, require_at_least, require_equal, with_size
from jaxprgen.emit.values import BOOL, Value, full
from jaxprgen.emit.windows import span
from jaxprgen.errors import ShapeMismatchError, UnsupportedOpError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

# --- Convolutions -------------------------------------------------------------------------


_OF_FILTER = {"valid": lambda n: 0, "half": lambda n: n // 2, "full": lambda n: n - 1}


def _geometry(op: Any, filter_sizes: Sequence[int]) -> ConvolutionGeometry:
    """Return the padding, strides, dilation and groups of an Op for filters of these sizes."""
    mode, dilation = op.border_mode, [int(n) for n in op.filter_dilation]
    if isinstance(mode, str):
        mode = [_OF_FILTER[mode](span(k, d)) for k, d in zip(filter_sizes, dilation, strict=True)]
    padding = [sides if isinstance(sides, tuple) else (sides, sides) for sides in mode]
    shared, flipped = not getattr(op, "unshared", False), getattr(op, "filter_flip", False)
    strides = [int(n) for n in op.subsample]
    return ConvolutionGeometry(padding, strides, dilation, op.num_groups, shared, flipped)


def _in_common_dtype(ctx: RuleContext, x: Value, y: Value) -> tuple[Value, Value]:
    """Return both operands in their common dtype, in which the convolution is computed."""
    common = ew.canonical(np.promote_types(x.dtype, y.dtype))
    if common == BOOL or not np.can_cast(common, ctx.dtype, "same_kind"):
        raise UnsupportedOpError(
            f"Aesara has no {ctx.dtype} convolution of {x.dtype} and {y.dtype}; convert both to "
            "one dtype of numbers."
        )
    return x.astype(common), y.astype(common)


@lowers(AbstractConv, CorrMM, Corr3dMM, folds=False)
def lower_convolution(ctx: RuleContext, x: Value, w: Value) -> Value:
    """Return the convolution or correlation of images with filters."""
    x, w = _in_common_dtype(ctx, x, w)
    geometry = _geometry(ctx.op, w.shape[2 - x.ndim :])
    return convolution.correlate(x, w, geometry).astype(ctx.dtype)


def _given_sizes(ctx: RuleContext) -> list[Size]:
    """Return the sizes that a gradient takes: a vector, scalars, or none."""
    rest = range(2, len(ctx.node.inputs))
    return [as_size(n) for i in rest for n in np.atleast_1d(ctx.static(i))]


@lowers(AbstractConv_gradWeights, CorrMM_gradWeights, Corr3dMMGradWeights, folds=False)
def lower_filter_gradient(ctx: RuleContext, x: Value, y: Value, *_: Value) -> Value:
    """Return the gradient with respect to filters of given sizes, or of the largest that fit."""
    x, y = _in_common_dtype(ctx, x, y)
    op = ctx.op
    sizes = _given_sizes(ctx) or _filter_sizes(op, x.shape[2:], y.shape[2:])
    return convolution.filter_gradient(x, y, sizes, _geometry(op, sizes)).astype(ctx.dtype)


def _filter_sizes(op: Any, sizes: Sequence[int], places: Sequence[int]) -> list[int]:
    """Return the sizes of the largest filters that fit; a "half" border must have sizes given."""
    steps = op.subsample, op.filter_dilation, _geometry(op, [1] * len(sizes)).padding
    found: list[int] = []
    for n, m, s, d, (low, high) in zip(sizes, places, *steps, strict=True):
        last = span(m, s) - n if op.border_mode == "full" else low + n + high - span(m, s)
        found.append(last // d + 1)
    return found


@lowers(AbstractConv_gradInputs, CorrMM_gradInputs, Corr3dMMGradInputs, folds=False)
def lower_image_gradient(ctx: RuleContext, w: Value, y: Value, *_: Value) -> Value:
    """Return the gradient with respect to images of given sizes, or of the smallest that fit."""
    w, y = _in_common_dtype(ctx, w, y)
    _, _, *places = y.shape
    own = w.shape[-len(places) :]
    geometry = _geometry(ctx.op, own)
    sizes = _given_sizes(ctx) or [
        span(m, s) + span(k, d) - 1 - low - high
        for m, s, k, d, (low, high) in zip(
            places, geometry.strides, own, geometry.dilation, geometry.padding, strict=True
        )
    ]
    return convolution.image_gradient(w, y, sizes, geometry).astype(ctx.dtype)


# --- Convolutions of one size -------------------------------------------------------------


@lowers(ConvOp, folds=False)
def lower_conv_op(ctx: RuleContext, x: Value, w: Value) -> Value:
    """Convolve images and filters, after zeros spread them to their logical sizes."""
    op = ctx.op
    x, w = _in_common_dtype(ctx, x, w)
    x = _of_sizes(x, op.bsize, op.imshp)
    w = _of_sizes(w, op.nkern, op.kshp)
    x = _spread(x, op.imshp_logical[1:], first=True)
    w = _spread(w, op.kshp_logical, first=op.kshp_logical_top_aligned)
    around = [0, 0] if op.out_mode == "valid" else [k - 1 for k in w.shape[2:]]
    geometry = ConvolutionGeometry([(n, n) for n in around], (op.dx, op.dy), (1, 1), flipped=True)
    return convolution.correlate(x, w, geometry)


def _of_sizes(x: Value, count: int | None, others: Sequence[int | None]) -> Value:
    """Check the sizes for which the Op was built; the ``others`` count if all are given."""
    expected = (count, *((None,) * len(others) if None in others else others))
    axes = (0, *range(4 - len(others), 4))
    text = f"The Op was built for sizes {expected}, got {tuple(x.shape[d] for d in axes)}."
    for axis, n in zip(axes, expected, strict=True):
        x = x if n is None else with_size(x, axis, n, text)
    return x


def _spread(x: Value, logical: Sequence[int | None], *, first: bool) -> Value:
    """Insert zeros between the elements of the last two axes, up to their logical sizes.

    The first element stays first; without ``first``, the last one stays last.
    """
    own = x.shape
    sizes = [n if want is None else want for n, want in zip(own[2:], logical, strict=True)]
    if tuple(sizes) == own[2:]:
        return x
    steps = [-(-want // n) for want, n in zip(sizes, own[2:], strict=True)]
    ends = zip(sizes, steps, strict=True)
    index = [slice(0 if first else (want - 1) % step, None, step) for want, step in ends]
    zeros = full((*own[:2], *sizes), 0, x.dtype)
    return ix.put(zeros, x, [slice(None), slice(None), *index], add=False)


# --- Stripes between diagonals ------------------------------------------------------------


@lowers(DiagonalSubtensor)
def lower_diagonal_subtensor(ctx: RuleContext, x: Value, axis1: Value, axis2: Value) -> Value:
    """Return the stripe between the long diagonals of two static axes."""
    return diagonal.stripe(x, *_stripe_axes(ctx, x))


@lowers(IncDiagonalSubtensor)
def lower_inc_diagonal_subtensor(
    ctx: RuleContext, x: Value, axis1: Value, axis2: Value, y: Value
) -> Value:
    """Return ``x`` with ``y`` added to that stripe."""
    return diagonal.add_to_stripe(x, y.astype(ctx.dtype), *_stripe_axes(ctx, x))


def _stripe_axes(ctx: RuleContext, x: Value) -> tuple[int, int]:
    return ctx.static_int(1) % x.ndim, ctx.static_int(2) % x.ndim


# --- Neighbourhoods of pixels -------------------------------------------------------------


def _grid(mode: str, length: Size, size: int, step: int) -> SlidingWindow:
    """Return the neighbourhoods along an axis; for "wrap_centered", of the `_wrapped` axis."""
    if mode == "wrap_centered":
        text = (
            "wrap_centered: the size of neighbourhoods must be odd and at most that of the axis, "
            f"got {size} for an axis of size {length}."
        )
        require_equal(size % 2, 1, text)
        require_at_least(length, size, text)
        return SlidingWindow(size, step, 0, -(-length // step))
    margin = {"half": size // 2, "full": size - 1}.get(mode, 0)
    room = length + 2 * margin - size
    text = (
        f"Neighbourhoods of size {size} with step {step} and margin {margin} do not fill an axis "
        f"of size {length}."
    )
    if mode != "ignore_borders":
        require_at_least(length, size, text)
        require_equal(room % step, 0, text)
    return SlidingWindow(size, step, -margin, max_size(0, 1 + room // step))


def _wrapped(x: Value, axis: int, margin: int) -> Value:
    """Return ``x`` with an axis extended periodically at both ends."""
    length = x.shape[axis]
    last = slice_axis(x, axis, length - margin, length)
    return concatenate([last, x, slice_axis(x, axis, 0, margin)], axis)


@lowers(Images2Neibs)
def lower_images_to_neighbours(ctx: RuleContext, x: Value, *_: Value) -> Value:
    """Return each neighbourhood of images of shape (list, list, row, column) as one row."""
    shape = x.shape
    sizes, steps = (ctx.static(i).tolist() for i in (1, 2))
    if len(sizes) != 2 or len(steps) != 2 or any(n < 1 for n in (*sizes, *steps)):
        raise ShapeMismatchError(
            "Neighbourhoods need two sizes and two steps, each at least 1, got sizes "
            f"{sizes} and steps {steps}."
        )
    grid = [_grid(ctx.op.mode, *each) for each in zip(shape[2:], sizes, steps, strict=True)]
    if ctx.op.mode == "wrap_centered":
        for axis, size in enumerate(sizes, 2):
            x = _wrapped(x, axis, size // 2)
    apart = transpose(unfold(x, grid), (0, 1, 2, 4, 3, 5))
    return reshape(apart, (math.prod(apart.shape[:4]), math.prod(sizes)))
