"""Windows along axes: every one apart, and put back together.

Both are reshapes and, where windows overlap, a few slices or sums of blocks: cut into blocks of
one stride, window ``i`` is the blocks from ``i`` on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxprgen.emit import primitives as lax
from jaxprgen.emit.shape import concatenate, reshape, slice_axis
from jaxprgen.emit.values import Shape, Value


class Windows(NamedTuple):
    """The windows of one axis: ``number`` of them, all of one size, one every ``stride``.

    The first begins at ``start``, which is negative if it sticks out.
    """

    size: int
    stride: int
    start: int
    number: int

    @property
    def blocks(self) -> int:
        """How many blocks of one stride a window reaches into."""
        return -(-self.size // self.stride)

    @property
    def length(self) -> int:
        """The length of all blocks that any window reaches into, one behind the other."""
        return (self.number + self.blocks - 1) * self.stride


def unfold(x: Value, windows: Sequence[Windows], fill: float = 0) -> Value:
    """Each of the last axes as two: which window, and where in it.

    What of a window sticks out of the array is ``fill``.
    """
    shape = x.shape
    first = len(shape) - len(windows)
    edges = [
        (-w.start, w.start + w.length - n, 0) for w, n in zip(windows, shape[first:], strict=True)
    ]
    x = _pad(x, [(0, 0, 0)] * first + edges, fill)
    for axis in reversed(range(len(windows))):
        x = _unfold_axis(x, first + axis, windows[axis])
    return x


def _unfold_axis(x: Value, axis: int, w: Windows) -> Value:
    shape = x.shape
    rows = reshape(x, (*shape[:axis], w.length // w.stride, w.stride, *shape[axis + 1 :]))
    shifted = [slice_axis(rows, axis, i, i + w.number) for i in range(w.blocks)]
    return slice_axis(concatenate(shifted, axis + 1), axis + 1, 0, w.size)


def fold(y: Value, windows: Sequence[Windows], sizes: Shape) -> Value:
    """What `unfold` does to last axes of these sizes, transposed: overlapping windows add up."""
    first = y.ndim - 2 * len(windows)
    for axis, w in enumerate(windows, first):
        y = _fold_axis(y, axis, w)
    edges = [(w.start, n - w.start - w.length, 0) for w, n in zip(windows, sizes, strict=True)]
    return _pad(y, [(0, 0, 0)] * first + edges, 0)


def _fold_axis(y: Value, axis: int, w: Windows) -> Value:
    shape = y.shape
    none = [(0, 0, 0)] * len(shape)
    y = _pad(y, _at(none, axis + 1, (0, w.blocks * w.stride - w.size, 0)), 0)
    total: Value | None = None
    for i in range(w.blocks):
        block = slice_axis(y, axis + 1, i * w.stride, (i + 1) * w.stride)
        spread = _pad(block, _at(none, axis, (i, w.blocks - 1 - i, 0)), 0)
        total = spread if total is None else total + spread
    assert total is not None
    return reshape(total, (*shape[:axis], w.length, *shape[axis + 2 :]))


def _at(
    config: list[tuple[int, int, int]], axis: int, entry: tuple[int, int, int]
) -> list[tuple[int, int, int]]:
    return [*config[:axis], entry, *config[axis + 1 :]]


def _pad(x: Value, config: Sequence[tuple[int, int, int]], fill: float) -> Value:
    if not any(low or high or between for low, high, between in config):
        return x
    return lax.pad(x, x.like(fill), config)
