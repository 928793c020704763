"""Rules for `aesara.tensor.nnet.neighbours`."""

from __future__ import annotations

import math

from aesara.tensor.nnet.neighbours import Images2Neibs

from jaxprgen.emit.shape import concatenate, reshape, slice_axis, transpose
from jaxprgen.emit.values import Value
from jaxprgen.emit.windows import Windows, unfold
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


def _grid(mode: str, length: int, size: int, step: int) -> Windows:
    """The neighbourhoods of an axis; those that wrap around are of a wrapped axis."""
    if mode == "wrap_centered":
        if size % 2 == 0 or length < size:
            raise ShapeMismatchError(
                f"Neighbourhoods of size {size} do not wrap around an axis of size {length}: "
                "their size is odd and at most that of the axis."
            )
        return Windows(size, step, 0, -(-length // step))
    margin = {"half": size // 2, "full": size - 1}.get(mode, 0)
    room = length + 2 * margin - size
    if mode != "ignore_borders" and (length < size or room % step):
        raise ShapeMismatchError(
            f"Neighbourhoods of size {size}, one every {step}, with a margin of {margin} do not "
            f"fill an axis of size {length}."
        )
    return Windows(size, step, -margin, max(0, 1 + room // step))


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
