"""Ops on arrays that are not made yet, which need not be made for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from aesara.compile.ops import DeepCopyOp, ViewOp
from aesara.tensor.shape import Shape, Shape_i, Unbroadcast
from aesara.tensor.subtensor import IncSubtensor, Subtensor

from jaxprgen.aesara.shape import lower_shape, lower_shape_i
from jaxprgen.aesara.subtensor import index_of, lower_inc_subtensor, lower_subtensor
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit.deferred import (
    CountedRange,
    Deferred,
    LoopRows,
    PartlyInitialized,
    Uninitialized,
)
from jaxprgen.emit.shape import stack
from jaxprgen.emit.values import INT64, Array, Value, full
from jaxprgen.errors import IndexOutOfBoundsError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers(ViewOp, DeepCopyOp, Unbroadcast, lazy=Deferred)
def lower_view_of_deferred(ctx: RuleContext, x: Deferred) -> Deferred:
    """The same array."""
    return x


@lowers(Shape, lazy=Deferred)
def lower_shape_of_deferred(ctx: RuleContext, x: Deferred) -> Value | Array:
    """The sizes, of which the first may be counted."""
    if None not in x.shape:
        return lower_shape(ctx, x)  # type: ignore[arg-type]
    if not isinstance(x, (CountedRange, LoopRows)):
        return lower_shape(ctx, ctx.made(x))
    long = ew.canonical(INT64)
    return stack([x.rows().astype(long), *(full((), n, long) for n in x.row)])


@lowers(Shape_i, lazy=Deferred)
def lower_shape_i_of_deferred(ctx: RuleContext, x: Deferred) -> Value | Array:
    """One size, which may be counted."""
    if x.shape[ctx.op.i] is not None:
        return lower_shape_i(ctx, x)  # type: ignore[arg-type]
    is_counted = isinstance(x, (CountedRange, LoopRows))
    return x.rows() if is_counted else lower_shape_i(ctx, ctx.made(x))


@lowers(IncSubtensor, lazy=Deferred)
def lower_inc_subtensor_of_deferred(ctx: RuleContext, x: Any, y: Any, *scalars: Any) -> Any:
    """The first rows of what was allocated set: how Aesara allocates what a loop writes to."""
    y = ctx.made(y)
    first, *others = ctx.op.idx_list
    is_start = isinstance(first, slice) and first.start is None and first.step is None
    if type(x) is Uninitialized and ctx.op.set_instead_of_inc and is_start and not others:
        size = index_of(ctx, scalars, first=2)[0]
        rest = (x.sizes[1:], y.shape[1:])
        if isinstance(size, slice) and size.stop == y.shape[0] and rest[0] == rest[1]:
            return PartlyInitialized(y, x)
    return lower_inc_subtensor(ctx, ctx.made(x), y, *scalars)


@lowers(Subtensor, lazy=Deferred)
def lower_subtensor_of_deferred(ctx: RuleContext, x: Any, *scalars: Any) -> Any:
    """Rows of a trace that are at hand, or a part of it.

    The last row of a loop that takes no step, if only the program knows that, is the last one
    that it starts with: as with Aesara's rewriting, which lets such a loop keep no more. Without,
    and with checks here, that is an IndexError.
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
    """A row of a trace that is at hand, or that the program finds among as many as there can be."""
    at_hand = (x.take(index), x.has(index)) if isinstance(index, int) else (None, None)
    found = x.take_counted(index) if at_hand[0] is None else at_hand
    if found is None:
        return None
    row, inside = found
    if inside is not None:
        ctx.require(
            lambda: inside,
            IndexOutOfBoundsError,
            f"{ctx.op} reads a row of a loop's trace that may be none. Aesara raises IndexError "
            "there; the emitted program uses the nearest row of as many as there can be",
            announced=at_hand[0] is None,
        )
    return row


def _numbers_between(ctx: RuleContext, x: CountedRange, scalars: Sequence[Any]) -> Any:
    """The part of a progression that a slice says, which starts at a known place."""
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
