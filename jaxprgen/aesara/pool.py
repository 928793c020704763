"""Rules for `aesara.tensor.signal.pool`, imported with the first graph that holds one of its Ops.

Importing that package warns of its deprecation, which only those who use it should see.
"""

from __future__ import annotations

from aesara.tensor.signal.pool import (
    AveragePoolGrad,
    DownsampleFactorMaxGradGrad,
    MaxPoolGrad,
    MaxPoolRop,
    Pool,
)

from jaxprgen.emit import pooling
from jaxprgen.emit.pooling import SlidingWindow
from jaxprgen.emit.sizes import with_shape
from jaxprgen.emit.values import Shape, Value
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


def _geometry(ctx: RuleContext, first: int) -> list[tuple[int, ...]]:
    """Return the sizes and strides of windows, and the padding, for each pooled axis."""
    rows = [tuple(ctx.static(first + i).tolist()) for i in range(3)]
    if any(len(row) != ctx.op.ndim for row in rows):
        raise ShapeMismatchError(
            f"Pooling over {ctx.op.ndim} axes needs as many sizes, strides and paddings, got "
            f"{rows}."
        )
    if any(n < 1 for n in (*rows[0], *rows[1])) or any(n < 0 for n in rows[2]):
        raise ShapeMismatchError(
            "Invalid pooling window: sizes and strides must be >= 1 and padding >= 0, got sizes "
            f"{rows[0]}, strides {rows[1]} and padding {rows[2]}."
        )
    return rows


def _windows(ctx: RuleContext, x: Value, first: int) -> tuple[list[SlidingWindow], Shape]:
    """Return the windows of the last axes of ``x``, and their padding."""
    sizes, strides, pads = _geometry(ctx, first)
    border = ctx.op.ignore_border
    windows = [
        SlidingWindow(size, stride, -pad, pooling.window_count(n + 2 * pad, size, stride, border))
        for n, size, stride, pad in zip(x.shape[-len(sizes) :], sizes, strides, pads, strict=True)
    ]
    return windows, pads


def _windows_of(ctx: RuleContext, pooled: Value, first: int) -> list[SlidingWindow]:
    """Return the windows that gave the last axes of ``pooled``."""
    sizes, strides, pads = _geometry(ctx, first)
    counts = pooled.shape[-len(sizes) :]
    return [
        SlidingWindow(n, s, -p, c) for n, s, p, c in zip(sizes, strides, pads, counts, strict=True)
    ]


def _of_shape(x: Value, shape: Shape, what: str) -> Value:
    return with_shape(x, shape, f"{what} must have shape {shape}, got {x.shape}.")


@lowers(Pool)
def lower_pool(ctx: RuleContext, x: Value, *_: Value) -> Value:
    """Return the maximum, sum or average of windows of the last axes.

    If elements tie for a maximum, `jax.grad` gives the gradient to one of them, and the graph that
    `aesara.grad` builds gives it to each.
    """
    mode = ctx.op.mode
    windows, pads = _windows(ctx, x, 1)
    if mode == "max":
        return pooling.pool_max(x, windows)
    if mode == "sum":
        return pooling.pool_sum(x, windows)
    return pooling.pool_mean(x, windows, _counted(mode, pads))


def _counted(mode: str, pads: Shape) -> Shape:
    return pads if mode == "average_inc_pad" else (0,) * len(pads)


@lowers(AveragePoolGrad, folds=False, shape_only=(0,))
def lower_average_pool_grad(ctx: RuleContext, x: Value, y: Value, *_: Value) -> Value:
    """Return the gradient of a sum or average as built by `aesara.grad`.

    Padding that is not counted is supported; Aesara's Python mode fails on it.
    """
    mode = ctx.op.mode
    windows, pads = _windows(ctx, x, 2)
    sizes = x.shape
    first = len(sizes) - len(windows)
    pooled = (*sizes[:first], *(w.number for w in windows))
    y = _of_shape(y, pooled, "The gradient of a pool")
    if mode == "sum":
        y = y.astype(ctx.dtype)
        return pooling.spread_sum(y, windows, sizes[first:])
    spread = pooling.spread_mean(y, windows, sizes[first:], _counted(mode, pads))
    return spread.astype(ctx.dtype)


@lowers(MaxPoolGrad, folds=False)
def lower_max_pool_grad(ctx: RuleContext, x: Value, maxima: Value, y: Value, *_: Value) -> Value:
    """Return the gradient of a maximum as built by `aesara.grad`, for every element that ties.

    Windows are those of Aesara's C code; its Python mode extends windows that begin in the padding.
    """
    y = _of_shape(y, maxima.shape, "The gradient of a pool").astype(ctx.dtype)
    return pooling.spread_to_maxima(x, maxima, y, _windows_of(ctx, maxima, 3))


@lowers(DownsampleFactorMaxGradGrad)
def lower_max_pool_grad_grad(
    ctx: RuleContext, x: Value, maxima: Value, y: Value, *_: Value
) -> Value:
    """Return the sums of ``y`` over the elements of each window that equal its maximum."""
    y = _of_shape(y, x.shape, "The array to sum at maxima").astype(ctx.dtype)
    return pooling.sum_at_maxima(x, maxima, y, _windows_of(ctx, maxima, 3))


@lowers(MaxPoolRop, folds=False)
def lower_max_pool_rop(ctx: RuleContext, x: Value, y: Value, *_: Value) -> Value:
    """Return ``y`` at the first maximum of each window, as Aesara documents.

    Aesara's Python mode fails with NumPy >= 1.23, because it indexes with a list of slices.
    """
    y = _of_shape(y, x.shape, "The array to read at maxima")
    return pooling.take_at_maxima(x, y, _windows(ctx, x, 2)[0])
