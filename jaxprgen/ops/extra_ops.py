"""Rules for `aesara.tensor.extra_ops` and `sort`: running sums, repetition, sorting, search."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from jaxprgen._jax import max_size
from jaxprgen.emit import (
    create,
    elementwise as ew,
    fixed_size,
    ravel,
    reduce,
    shape as sh,
    sort as so,
)
from jaxprgen.emit.sizes import as_size, is_known, require_at_least, with_size
from jaxprgen.emit.values import Array, Value
from jaxprgen.errors import PositionOutOfBoundsError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.advanced_subtensor import SIZED
from jaxprgen.ops.sizes import takes_axis

_CUMULATIVE = {"add": reduce.cumsum, "mul": reduce.cumprod}


def _along(x: Value, axis: int | None) -> tuple[Value, int]:
    """Return the array and its axis; for an axis of None, the flattened array and 0."""
    if axis is None:
        return sh.reshape(x, (-1,)), 0
    return x, sh.axis_of(axis, x.ndim)


@lowers("tensor.CumOp")
def lower_cumulative(ctx: RuleContext, x: Value) -> Value:
    """Return cumulative sums or products; small integers wrap around, as in Aesara's C code."""
    return _CUMULATIVE[ctx.op.mode](*_along(x, ctx.op.axis))


@lowers("tensor.Repeat", folds=False)
def lower_repeat(ctx: RuleContext, x: Value, counts: Value) -> Any:
    """Repeat every slice as often as its count says; the total is static or decided."""
    rows, axis = _along(x, ctx.op.axis)
    shape, times = rows.shape, ctx.static_or_none(1)
    length = shape[axis]
    if times is None:
        total = ctx.decided([1], lambda n: int(sh.repeat_counts(n[0], length).sum()))
        if total is None:
            raise ctx.undecided(
                [1],
                "The counts of repeat decide a shape, and are known only when the program runs. "
                "Give the result a size that does not depend on them: index the slices with an "
                "array of integers that has as many elements as there can be slices.",
            )
        if counts.shape == (length,) != (1,):
            return fixed_size.repeat(rows, counts, axis, total)
        times = np.asarray([total // max(length, 1)])
    if not is_known((length, *times.flat)):
        return _repeat_symbolic(rows, times, axis)
    each = sh.repeat_counts(times, length)
    size = math.prod(shape[:axis] + shape[axis + 1 :]) * int(each.sum())
    return ctx.fold((x, counts), (size,)) or sh.repeat(rows, each, axis)


def _repeat_symbolic(x: Value, counts: Array, axis: int) -> Value:
    """Repeat slices where their number or the count of all of them is symbolic."""
    length = x.shape[axis]
    text = f"Cannot repeat {length} slices {counts.tolist()} times: give one count >= 0, or one "
    text += "for each slice."
    if counts.size != 1:
        x = with_size(x, axis, counts.size, text)
        return sh.repeat(x, sh.repeat_counts(counts, counts.size), axis)
    count = as_size(counts)
    require_at_least(count, 0, text)
    return sh.repeat_evenly(x, count, axis)


@lowers("tensor.Unique", folds=False)
def lower_unique(ctx: RuleContext, x: Value) -> list[Value]:
    """Return the distinct values, of which the number is static, decided or given by the user."""
    values, op = x.static, ctx.op
    if values is None:
        size = ctx.decided([0], lambda xs: _count(op, *xs)) if ctx.size is None else ctx.size
        if size is None:
            raise ctx.undecided([0], f"{_COUNT_OF_DISTINCT} {SIZED}")
        distinct = fixed_size.unique(x, op.axis, size)
        wanted = (True, op.return_index, op.return_inverse, op.return_counts)
        return list(itertools.compress(distinct, wanted))
    found = np.unique(values, op.return_index, op.return_inverse, op.return_counts, op.axis)
    first, *rest = found if isinstance(found, tuple) else (found,)
    return [first, *(v.reshape(-1) for v in rest)]  # NumPy 2 gives the inverse x's shape.


_COUNT_OF_DISTINCT = (
    "The number of distinct values decides the shape of the result, and the values are known only "
    "when the program runs. Compute the distinct values outside of the graph and pass them as an "
    "input; or keep the shape: sort, and mark the elements that differ from their predecessor."
)


def _count(op: Any, x: Array) -> int:
    """Return how many distinct elements, or slices along an axis, there are."""
    return np.unique(x, axis=op.axis).shape[op.axis or 0]


@lowers("tensor.SearchsortedOp")
def lower_searchsorted(ctx: RuleContext, x: Value, v: Value, sorter: Value | None = None) -> Value:
    """Return the positions at which ``v`` keeps ``x`` sorted, compared in their common dtype."""
    dtype = ew.canonical(np.promote_types(x.dtype, v.dtype))
    right = ctx.op.side == "right"
    return so.searchsorted(x.astype(dtype), v.astype(dtype), right=right, sorter=sorter)


@lowers("tensor.UnravelIndex")
def lower_unravel_index(ctx: RuleContext, position: Value, dims: Value) -> list[Value]:
    """Return the indices of a flat position, one array for each axis."""
    sizes = ravel.sizes_of(dims)
    fails = "Position {} is out of bounds."
    unchecked = "whether positions are within bounds. If one is not, the Op raises ValueError, and "
    unchecked += "this program returns indices that are out of bounds too"

    def inside() -> Value:
        return ravel.within(position, ravel.size_of(sizes))

    ctx.require(inside, PositionOutOfBoundsError, fails, unchecked, position)
    return ravel.unravel_index(position, sizes, ctx.op.order)


@lowers("tensor.RavelMultiIndex")
def lower_ravel_multi_index(ctx: RuleContext, *operands: Value) -> Value:
    """Return the flat position of the indices of every axis."""
    *index, dims = operands
    sizes, op = ravel.sizes_of(dims), ctx.op
    pairs = zip(index, sizes, strict=True) if op.mode == "raise" else ()
    for axis, (i, size) in enumerate(pairs):
        inside = functools.partial(ravel.within, i, size)
        fails = f"Index {{}} is out of bounds for axis {axis}."
        unchecked = f"whether every index is within axis {axis}. If one is not, the Op raises "
        unchecked += "ValueError, and this program returns the position of another element, or one "
        ctx.require(inside, PositionOutOfBoundsError, fails, f"{unchecked}out of bounds", i)
    return ravel.ravel_multi_index(index, sizes, op.mode, op.order)


@lowers("tensor.Bartlett", folds=False)
def lower_bartlett(ctx: RuleContext, length: Value) -> Any:
    """Return the Bartlett window of a static length."""
    size = ctx.static_int(0)
    return ctx.fold((length,), (max_size(size, 0),)) or create.bartlett(size)


@lowers("tensor.SortOp")
def lower_sort(ctx: RuleContext, x: Value, *_: Value) -> Value:
    """Return the elements sorted along a static axis."""
    return so.sort(x, _axis_of_order(ctx, x))


@lowers("tensor.ArgSortOp")
def lower_argsort(ctx: RuleContext, x: Value, *_: Value) -> Value:
    """Return the positions that sort, by a stable sort for every ``kind``."""
    return so.argsort(x, _axis_of_order(ctx, x))


def _axis_of_order(ctx: RuleContext, x: Value) -> int:
    return sh.axis_of(ctx.static_int(1) if takes_axis(ctx.op) else ctx.op.axis, x.ndim)


@lowers("tensor.TopKOp")
def lower_top_k(ctx: RuleContext, x: Value, _: Value) -> list[Value]:
    """Return a static number of the largest elements, in the order that Aesara leaves open."""
    op = ctx.op
    axis = sh.axis_of(op.axis, x.ndim)
    values, positions = so.top_k(x, ctx.static_int(1), axis)
    numbers = positions.astype(ew.canonical(np.dtype(op.idx_dtype)))
    return [*[values] * op.return_values, *[numbers] * op.return_indices]
