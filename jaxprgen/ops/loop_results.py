"""Rules for Ops that use a deferred array, such as the rows of a loop, without making it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew, index as ix
from jaxprgen.emit.deferred import CountedRange, Deferred, LoopRows, Uninitialized
from jaxprgen.emit.shape import stack
from jaxprgen.emit.values import INT64, Array, Value, full
from jaxprgen.errors import IndexOutOfBoundsError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.shape import lower_shape, lower_shape_i
from jaxprgen.ops.subtensor import index_of, lower_inc_subtensor, lower_subtensor


@lowers("tensor.Shape", lazy=Deferred)
def lower_shape_of_deferred(ctx: RuleContext, x: Deferred) -> Value | Array:
    """Return the sizes; the first may be a number that the program counts."""
    if None not in x.shape:
        return lower_shape(ctx, x)  # type: ignore[arg-type]
    if not isinstance(x, (CountedRange, LoopRows)):
        return lower_shape(ctx, ctx.made(x))
    long = ew.canonical(INT64)
    return stack([x.rows().astype(long), *(full((), n, long) for n in x.row)])


@lowers("tensor.Shape_i", lazy=Deferred)
def lower_shape_i_of_deferred(ctx: RuleContext, x: Deferred) -> Value | Array:
    """Return one size, which may be a number that the program counts."""
    if x.shape[ctx.op.i] is not None:
        return lower_shape_i(ctx, x)  # type: ignore[arg-type]
    is_counted = isinstance(x, (CountedRange, LoopRows))
    return x.rows() if is_counted else lower_shape_i(ctx, ctx.made(x))


@lowers("tensor.IncSubtensor", lazy=Deferred)
def lower_inc_subtensor_of_deferred(ctx: RuleContext, x: Any, y: Any, *scalars: Any) -> Any:
    """Set the first rows of uninitialized memory, as Aesara does before a loop.

    Other arrays are made first.
    """
    y = ctx.made(y)
    first, *others = ctx.op.idx_list
    is_start = isinstance(first, slice) and first.start is None and first.step is None
    is_unset = type(x) is Uninitialized and x.rows is None
    if is_unset and ctx.op.set_instead_of_inc and is_start and not others:
        size = index_of(ctx, scalars, first=2)[0]
        if isinstance(size, slice) and (size.stop, *x.shape[1:]) == y.shape:
            return replace(x, rows=y)
    return lower_inc_subtensor(ctx, ctx.made(x), y, *scalars)


@lowers("tensor.Subtensor", lazy=Deferred)
def lower_subtensor_of_deferred(ctx: RuleContext, x: Any, *scalars: Any) -> Any:
    """Return single rows of a loop, or a part of its rows, without stacking them.

    If only the program knows that a loop takes no step, its last row is the last one it starts
    from, as in Aesara with rewriting. It is an IndexError with checks, and in Aesara without
    rewriting.
    """
    if type(x) is LoopRows and ctx.op.idx_list:
        first, *others = index_of(ctx, scalars, first=1)
        row = _row(ctx, x, first) if isinstance(first, (int, Value)) else None
        if row is not None:
            return ix.take(row, others)
        part = x.part(first) if isinstance(first, slice) and not others else None
        if part is not None:
            return part
    part = _numbers_between(ctx, x, scalars) if type(x) is CountedRange else None
    return lower_subtensor(ctx, ctx.made(x), *scalars) if part is None else part


def _row(ctx: RuleContext, x: LoopRows, index: int | Value) -> Value | None:
    """Return a row that the loop leaves unstacked, or one that the program finds by its count."""
    unstacked = (x.take(index), x.has(index)) if isinstance(index, int) else (None, None)
    found = x.take_counted(index) if unstacked[0] is None else unstacked
    if found is None:
        return None
    row, inside = found
    if inside is not None:
        unchecked = "whether the loop reaches this row. If not, the Op raises IndexError, and this "
        unchecked += "program uses the nearest of the rows that the loop can reach"
        unchecked = unchecked if unstacked[0] is None else ""
        fails = "The loop ends before it reaches this row."
        ctx.require(lambda: inside, IndexOutOfBoundsError, fails, unchecked)
    return row


def _numbers_between(ctx: RuleContext, x: CountedRange, scalars: Sequence[Any]) -> Any:
    """Return a slice of a counted range, if the slice starts at a known position."""
    first, *others = ctx.op.idx_list
    if others or not isinstance(first, slice) or first.step is not None:
        return None
    rest = iter(scalars)
    start, stop = (
        Value(np.asarray(part)) if isinstance(part, int) else None if part is None else next(rest)
        for part in (first.start, first.stop)
    )
    begin = 0 if start is None else start.static
    return None if begin is None or begin < 0 else x.between(int(begin), stop)
