"""Rules for `aesara.tensor.signal.pool`, loaded with the first graph that has one of its Ops.

Importing that package warns of its deprecation, which only those who use it should see.
"""

from __future__ import annotations

from collections.abc import Sequence

from aesara.tensor.signal.pool import (
    AveragePoolGrad,
    DownsampleFactorMaxGradGrad,
    MaxPoolGrad,
    MaxPoolRop,
    Pool,
)

from jaxprgen.emit import pooling
from jaxprgen.emit.pooling import SlidingWindow
from jaxprgen.emit.values import Shape, Value
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


def _geometry(ctx: RuleContext, first: int) -> list[tuple[int, ...]]:
    """The size of windows, their stride and the padding of the pooled axes, in that order."""
    rows = [tuple(ctx.static(first + i).tolist()) for i in range(3)]
    if any(len(row) != ctx.op.ndim for row in rows):
        raise ShapeMismatchError(
            f"{ctx.op.ndim} axes are pooled, but sizes, strides and padding are {rows}."
        )
    if min((*rows[0], *rows[1]), default=1) < 1 or min(rows[2], default=0) < 0:
        raise ShapeMismatchError(
            f"Windows of sizes {rows[0]}, with strides {rows[1]} and padding {rows[2]}, are none: "
            "sizes and strides are at least 1, and padding is not negative."
        )
    return rows


def _windows(ctx: RuleContext, x: Value, first: int) -> tuple[list[SlidingWindow], Shape]:
    """The windows of the last axes of ``x``, and their padding."""
    sizes, strides, pads = _geometry(ctx, first)
    windows = [
        SlidingWindow(size, stride, -pad, pooling.window_count(n + 2 * pad, size, stride, border))
        for n, size, stride, pad, border in zip(
            x.shape[-len(sizes) :],
            sizes,
            strides,
            pads,
            [ctx.op.ignore_border] * len(sizes),
            strict=True,
        )
    ]
    return windows, pads


def _windows_of(ctx: RuleContext, pooled: Value, first: int) -> list[SlidingWindow]:
    """The windows that have made the last axes of ``pooled``."""
    sizes, strides, pads = _geometry(ctx, first)
    counts = pooled.shape[-len(sizes) :]
    return [
        SlidingWindow(n, s, -p, c) for n, s, p, c in zip(sizes, strides, pads, counts, strict=True)
    ]


def _require_shape(x: Value, shape: Sequence[int], what: str) -> None:
    if x.shape != tuple(shape):
        raise ShapeMismatchError(f"{what} has shape {x.shape}, not {tuple(shape)}.")


@lowers(Pool, static=(1, 2, 3))
def lower_pool(ctx: RuleContext, x: Value, *_: Value) -> Value:
    """The maximum, sum or average of windows of the last axes.

    Elements that tie for a maximum share nothing: `jax.grad` picks one of them, whereas the
    graph that `aesara.grad` makes gives all of it to each.
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


@lowers(AveragePoolGrad, folds=False, static=(2, 3, 4), shape_only=(0,))
def lower_average_pool_grad(ctx: RuleContext, x: Value, y: Value, *_: Value) -> Value:
    """What `aesara.grad` makes of a sum or average.

    With padding that is not counted, too, where Aesara's Python mode has only an error.
    """
    mode = ctx.op.mode
    windows, pads = _windows(ctx, x, 2)
    sizes = x.shape
    first = len(sizes) - len(windows)
    _require_shape(y, (*sizes[:first], *(w.number for w in windows)), "The gradient of a pool")
    if mode == "sum":
        y = y.astype(ctx.dtype)
        return pooling.spread_sum(y, windows, sizes[first:])
    spread = pooling.spread_mean(y, windows, sizes[first:], _counted(mode, pads))
    return spread.astype(ctx.dtype)


@lowers(MaxPoolGrad, folds=False, static=(3, 4, 5))
def lower_max_pool_grad(ctx: RuleContext, x: Value, maxima: Value, y: Value, *_: Value) -> Value:
    """What `aesara.grad` makes of a maximum: it goes to every element that ties.

    To those in the window, that is, as in Aesara's C code. With padding, its Python mode takes
    windows that begin in the padding to be longer than they are.
    """
    _require_shape(y, maxima.shape, "The gradient of a pool")
    y = y.astype(ctx.dtype)
    return pooling.spread_to_maxima(x, maxima, y, _windows_of(ctx, maxima, 3))


@lowers(DownsampleFactorMaxGradGrad, static=(3, 4, 5))
def lower_max_pool_grad_grad(
    ctx: RuleContext, x: Value, maxima: Value, y: Value, *_: Value
) -> Value:
    """The sum of ``y`` over the elements of each window that are its maximum."""
    _require_shape(y, x.shape, "What is summed at maxima")
    y = y.astype(ctx.dtype)
    return pooling.sum_at_maxima(x, maxima, y, _windows_of(ctx, maxima, 3))


@lowers(MaxPoolRop, folds=False, static=(2, 3, 4))
def lower_max_pool_rop(ctx: RuleContext, x: Value, y: Value, *_: Value) -> Value:
    """``y`` at the first maximum of each window, as is documented: with NumPy ≥ 1.23, Aesara's
    Python mode indexes by a list of slices, which is an error."""
    _require_shape(y, x.shape, "What is taken at maxima")
    return pooling.take_at_maxima(x, y, _windows(ctx, x, 2)[0])
