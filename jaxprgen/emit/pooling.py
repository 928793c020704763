"""Pooling: the maximum, sum or average of windows, and its derivatives.

The last axes are pooled, one `SlidingWindow` each.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen._jax import Size, max_size
from jaxprgen.emit import elementwise as ew, primitives as lax, reduce
from jaxprgen.emit.create import positions
from jaxprgen.emit.shape import concatenate, expand_dims, reshape, slice_axis
from jaxprgen.emit.sizes import is_known, require_at_least
from jaxprgen.emit.values import BOOL, INT32, Array, Dtype, Shape, Value, broadcast_to, full, lift
from jaxprgen.emit.windows import pad, resize
from jaxprgen.errors import UnsupportedOpError


class SlidingWindow(NamedTuple):
    """The windows of one axis.

    Attributes
    ----------
    size
        The number of elements of a window.
    stride
        The distance between windows.
    start
        The position of the first window; negative if it starts in the padding.
    number
        The number of windows.
    """

    size: int
    stride: int
    start: int
    number: Size

    @property
    def blocks(self) -> int:
        """Return the number of blocks of one stride that a window reaches into."""
        return -(-self.size // self.stride)

    @property
    def length(self) -> Size:
        """Return the total length of all blocks that any window reaches into."""
        return (self.number + self.blocks - 1) * self.stride


def window_count(length: Size, size: int, stride: int, ignore_border: bool) -> Size:
    """Return the number of windows on an axis; partial ones count unless ignored."""
    if ignore_border:
        return max_size((length - size) // stride + 1, 0)
    if stride >= size:
        return (length - 1) // stride + 1
    return max_size(0, (length - 1 - size) // stride + 1) + 1


def _inside(w: SlidingWindow, length: Size, margin: int = 0) -> Array | Value:
    """Return (windows, size): which elements of a window are at most so far outside the axis."""
    first, offset = positions((w.number, 1), 0) * w.stride, positions((1, w.size), 1)
    place = first + (offset + w.start)
    return (place >= -margin) & (place < length + margin)


def _elements(windows: Sequence[SlidingWindow], sizes: Shape, margins: Shape) -> Array | Value:
    """Return the number of elements of each window that are in the padded array.

    Sizes are one if the number is the same for all windows of an axis of symbolic size.
    """
    counts = [_count(*axis) for axis in zip(windows, sizes, margins, strict=True)]
    return _outer(operator.mul, counts)


def _count(w: SlidingWindow, length: Size, margin: int) -> Array | Value:
    inside = _inside(w, length, margin)
    return reduce.sum(inside.astype(INT32), [1]) if isinstance(inside, Value) else inside.sum(1)


def _outer(combine: Callable[[Any, Any], Any], parts: Sequence[Array | Value]) -> Array | Value:
    """Combine the elements of arrays, whose axes follow each other in the result."""
    if any(isinstance(x, Value) for x in parts):
        parts = lift(*parts)
    rank, first, aligned = sum(x.ndim for x in parts), 0, list[Array | Value]()
    for x in parts:
        own = range(first, first := first + x.ndim)
        others = [d for d in range(rank) if d not in own]
        aligned.append(
            expand_dims(x, others) if isinstance(x, Value) else np.expand_dims(x, others)
        )
    return functools.reduce(combine, aligned)


def _window_shapes(
    x: Value, windows: Sequence[SlidingWindow]
) -> tuple[Shape, Shape, list[tuple[int, int]]]:
    shape = x.shape
    first = len(shape) - len(windows)
    edges = [
        (-w.start, max_size(0, w.start + (w.number - 1) * w.stride + w.size - n))
        for w, n in zip(windows, shape[first:], strict=True)
    ]
    ones = (1,) * first
    sizes, strides = (*ones, *(w.size for w in windows)), (*ones, *(w.stride for w in windows))
    return sizes, strides, [(0, 0)] * first + edges


def pool_max(x: Value, windows: Sequence[SlidingWindow]) -> Value:
    """Return the maximum of each window; NaN where an element is NaN.

    Where elements tie, JAX differentiates with respect to one of them.
    """
    sizes = x.shape[-len(windows) :]
    if x.dtype.kind == "c":
        raise UnsupportedOpError("JAX has no maximum over windows of complex numbers.")
    if 0 not in _pooled(x, windows):
        text = "The maximum over a window that holds only padding is not defined."
        for w, n in zip(windows, sizes, strict=True):
            require_at_least(w.start + w.size, 1, text)
            require_at_least(n - 1, w.start + (w.number - 1) * w.stride, text)
    return _over_windows(lax.reduce_window_max, x, windows, reduce.lowest(x.dtype))


def _over_windows(
    reduce_window: Callable[..., Value], x: Value, windows: Sequence[SlidingWindow], fill: float
) -> Value:
    """Reduce each window, of which elements outside the array are ``fill``.

    Along an axis of symbolic size, windows, at least one, must cover the array exactly for JAX to
    know their number.
    """
    if 0 in (pooled := _pooled(x, windows)):
        return full(pooled, 0, x.dtype)
    first, covering = x.ndim - len(windows), [*windows]
    edges: list[tuple[Size, Size, int]] = [(0, 0, 0)] * x.ndim
    for i, (w, n) in enumerate(zip(windows, x.shape[first:], strict=True)):
        if not is_known((w.number, n)):
            covering[i] = w._replace(start=0, number=max_size(w.number, 1))
            end = w.start + (covering[i].number - 1) * w.stride + w.size
            edges[first + i] = (-w.start, end - n, 0)
    x = pad(x, edges, fill)
    return resize(reduce_window(x, *_window_shapes(x, covering)), pooled)


def pool_sum(x: Value, windows: Sequence[SlidingWindow]) -> Value:
    """Return the sum of each window; of booleans "or", of float16 in single precision."""
    dtype = x.dtype
    if dtype == BOOL:
        return ew.truth(pool_sum(x.astype(INT32), windows))
    wide = x.astype(_working(dtype)) if dtype.kind == "f" else x
    return _over_windows(lax.reduce_window_sum, wide, windows, 0).astype(dtype)


def _pooled(x: Value, windows: Sequence[SlidingWindow]) -> Shape:
    shape = x.shape
    return (*shape[: len(shape) - len(windows)], *(w.number for w in windows))


def _working(dtype: Dtype) -> Dtype:
    """Return the dtype in which NumPy averages."""
    if dtype.kind in "biu":
        return ew.canonical(np.float64)
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def pool_mean(x: Value, windows: Sequence[SlidingWindow], pads: Shape) -> Value:
    """Return the average of each window, with ``pads`` zeros on either side of each axis."""
    dtype = x.dtype
    counts = _elements(windows, x.shape[-len(windows) :], pads)
    total = pool_sum(x.astype(_working(dtype)), windows)
    return _divide(total, counts).astype(dtype)


def _divide(total: Value, counts: Array | Value) -> Value:
    """Divide by a scalar where all counts are equal."""
    if isinstance(counts, Value):
        return total / counts.astype(total.dtype)
    divisor = counts.astype(total.dtype)
    if counts.size and (counts == counts.flat[0]).all():
        divisor = divisor.flat[0].reshape(())
    return total / divisor


def spread_sum(y: Value, windows: Sequence[SlidingWindow], sizes: Shape) -> Value:
    """Return the transpose of `pool_sum`: each element is the sum of its windows in ``y``."""
    shape = y.shape
    first = len(shape) - len(windows)
    if 0 in shape or 0 in sizes:
        return full((*shape[:first], *sizes), 0, y.dtype)
    config: list[tuple[Size, Size, int]] = [(0, 0, 0)] * first
    for w, n in zip(windows, sizes, strict=True):
        low = w.size - 1 + w.start
        high = n + w.size - 1 - low - ((w.number - 1) * w.stride + 1)
        config.append((low, high, w.stride - 1))
    apart = lax.pad(y, y.like(0), config)
    ones = (1,) * len(shape)
    reach = (*ones[:first], *(w.size for w in windows))
    sums = lax.reduce_window_sum(apart, reach, ones, [(0, 0)] * len(shape))
    return resize(sums, (*shape[:first], *sizes))


def spread_mean(y: Value, windows: Sequence[SlidingWindow], sizes: Shape, pads: Shape) -> Value:
    """Return the transpose of `pool_mean` of axes of these sizes."""
    return spread_sum(_divide(y, _elements(windows, sizes, pads)), windows, sizes)


def _insides(windows: Sequence[SlidingWindow], rank: int) -> list[int]:
    """Return the axes of an unfolded array that range over the elements of one window."""
    first = rank - len(windows)
    return [first + 2 * i + 1 for i in range(len(windows))]


def _hits(x: Value, maxima: Value, windows: Sequence[SlidingWindow]) -> Value:
    """Return where a window has its maximum: at every element that ties, and not at NaN."""
    common = np.result_type(x.dtype, maxima.dtype)
    x, maxima = x.astype(common), maxima.astype(common)
    insides = _insides(windows, x.ndim)
    return ew.equal(unfold(x, windows), expand_dims(maxima, insides))


def spread_to_maxima(x: Value, maxima: Value, y: Value, windows: Sequence[SlidingWindow]) -> Value:
    """Add each window's element of ``y`` to all elements of ``x`` that are its maximum."""
    hits = _hits(x, maxima, windows)
    insides = _insides(windows, x.ndim)
    spread = broadcast_to(expand_dims(y, insides), hits.shape)
    return fold(ew.where(hits, spread, 0), windows, x.shape[-len(windows) :])


def sum_at_maxima(x: Value, maxima: Value, y: Value, windows: Sequence[SlidingWindow]) -> Value:
    """Return the transpose of `spread_to_maxima`: sums of ``y`` at the maxima of ``x``."""
    hits = _hits(x, maxima, windows)
    return reduce.sum(ew.where(hits, unfold(y, windows), 0), _insides(windows, x.ndim))


def take_at_maxima(x: Value, y: Value, windows: Sequence[SlidingWindow]) -> Value:
    """Return, for each window, the element of ``y`` at the first maximum, or NaN, of ``x``."""
    insides = _insides(windows, x.ndim)
    sizes = x.shape[-len(windows) :]
    best = _hits(x, pool_max(x, windows), windows) | ew.isnan(unfold(x, windows))
    real = [_inside(w, n) for w, n in zip(windows, sizes, strict=True)]
    best = best & _outer(operator.and_, real)
    first = expand_dims(reduce.argmax(best, insides), insides)
    numbers = np.arange(math.prod(w.size for w in windows), dtype=first.dtype)
    grid = numbers.reshape([n for w in windows for n in (1, w.size)])
    chosen = ew.where(ew.equal(first, grid), unfold(y, windows), 0)
    return reduce.sum(chosen, insides)


# --- Unfolding ----------------------------------------------------------------------------
#
# Cut into blocks of one stride, window i consists of the blocks from i on. So unfolding is a
# reshape and, where windows overlap, a few slices. Folding is a reshape and a few sums.


def unfold(x: Value, windows: Sequence[SlidingWindow]) -> Value:
    """Split each of the last axes in two: the windows, and the elements of a window.

    Elements outside the array are zero.
    """
    shape = x.shape
    first = len(shape) - len(windows)
    edges = [
        (-w.start, w.start + w.length - n, 0) for w, n in zip(windows, shape[first:], strict=True)
    ]
    x = pad(x, [(0, 0, 0)] * first + edges, 0)
    for axis in reversed(range(len(windows))):
        x = _unfold_axis(x, first + axis, windows[axis])
    return x


def _unfold_axis(x: Value, axis: int, w: SlidingWindow) -> Value:
    shape = x.shape
    rows = reshape(x, (*shape[:axis], w.number + w.blocks - 1, w.stride, *shape[axis + 1 :]))
    shifted = [slice_axis(rows, axis, i, i + w.number) for i in range(w.blocks)]
    return slice_axis(concatenate(shifted, axis + 1), axis + 1, 0, w.size)


def fold(y: Value, windows: Sequence[SlidingWindow], sizes: Sequence[Size]) -> Value:
    """Add overlapping windows up to last axes of these sizes: the transpose of `unfold`."""
    first = y.ndim - 2 * len(windows)
    for axis, w in enumerate(windows, first):
        y = _fold_axis(y, axis, w)
    edges = [(w.start, n - w.start - w.length, 0) for w, n in zip(windows, sizes, strict=True)]
    return pad(y, [(0, 0, 0)] * first + edges, 0)


def _fold_axis(y: Value, axis: int, w: SlidingWindow) -> Value:
    shape = y.shape

    def padded(x: Value, axis: int, low: int, high: int) -> Value:
        return pad(x, [(low, high, 0) if d == axis else (0, 0, 0) for d in range(len(shape))])

    y = padded(y, axis + 1, 0, w.blocks * w.stride - w.size)
    blocks = (slice_axis(y, axis + 1, i * w.stride, (i + 1) * w.stride) for i in range(w.blocks))
    spread = (padded(block, axis, i, w.blocks - 1 - i) for i, block in enumerate(blocks))
    total = functools.reduce(operator.add, spread)
    return reshape(total, (*shape[:axis], w.length, *shape[axis + 2 :]))
