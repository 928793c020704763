"""Running sums, repetition, search, and positions in arrays that are read as one row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from aesara.tensor.extra_ops import (
    Bartlett,
    CumOp,
    RavelMultiIndex,
    Repeat,
    SearchsortedOp,
    Unique,
    UnravelIndex,
)

from jaxprgen.aesara.advanced_subtensor import SIZED
from jaxprgen.emit import create, fixed_size, ravel, reduce
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import shape as sh
from jaxprgen.emit import sort as so
from jaxprgen.emit.values import Array, Value
from jaxprgen.errors import PositionOutOfBoundsError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

_CUMULATIVE = {"add": reduce.cumsum, "mul": reduce.cumprod}


def _along(x: Value, axis: int | None) -> tuple[Value, int]:
    """The array and its axis; of None, the array as one row."""
    if axis is None:
        return sh.reshape(x, (-1,)), 0
    return x, sh.axis_of(axis, x.ndim)


@lowers(CumOp)
def lower_cumulative(ctx: RuleContext, x: Value) -> Value:
    """In the operand's dtype, as it is declared: small integers wrap, as in Aesara's C code."""
    return _CUMULATIVE[ctx.op.mode](*_along(x, ctx.op.axis))


@lowers(Repeat, folds=False, decides=(1,))
def lower_repeat(ctx: RuleContext, x: Value, counts: Value) -> Any:
    """Every slice as often as its count says; how many slices that makes is known."""
    rows, axis = _along(x, ctx.op.axis)
    shape, times = rows.shape, ctx.static_or_none(1)
    length = shape[axis]
    if times is None:
        total = ctx.decided([1], lambda n: int(sh.repeat_counts(n[0], length).sum()))
        if total is None:
            raise ctx.undecided(
                [1],
                "How often slices are repeated decides a shape, and is known only when the program "
                "runs. Give the result a size that does not depend on it: take as many slices as "
                "there can be, by integers.",
            )
        if counts.shape == (length,) != (1,):
            return fixed_size.repeat(rows, counts, axis, total)
        times = np.asarray([total // max(length, 1)])
    each = sh.repeat_counts(times, length)
    size = math.prod(shape[:axis] + shape[axis + 1 :]) * int(each.sum())
    folded = ctx.fold((x, counts), (size,))
    return list(folded) if folded else sh.repeat(rows, each, axis)


@lowers(Unique, folds=False, decides=(0,))
def lower_unique(ctx: RuleContext, x: Value) -> list[Value]:
    """Of known values, or as many as there are known to be, or as a given size says."""
    values, op = x.static, ctx.op
    if values is None:
        size = ctx.decided([0], lambda xs: _count(op, *xs)) if ctx.size is None else ctx.size
        if size is None:
            raise ctx.undecided(
                [0],
                "How many different values there are decides the shape of the result, and the "
                "values are known only when the program runs. Compute what is unique outside of "
                "the graph, and give it as an input; or keep the shape: sort, and mark what "
                f"differs from the one before it. {SIZED}",
            )
        different = fixed_size.unique(x, op.axis, size)
        asked = (True, op.return_index, op.return_inverse, op.return_counts)
        return [v for v, wanted in zip(different, asked, strict=True) if wanted]
    found = np.unique(values, op.return_index, op.return_inverse, op.return_counts, op.axis)
    first, *rest = found if isinstance(found, tuple) else (found,)
    return [first, *(v.reshape(-1) for v in rest)]  # In NumPy 2 the inverse has x's shape.


def _count(op: Unique, x: Array) -> int:
    """How many different elements there are, or slices along an axis."""
    return np.unique(x, axis=op.axis).shape[op.axis or 0]


@lowers(SearchsortedOp)
def lower_searchsorted(ctx: RuleContext, x: Value, v: Value, sorter: Value | None = None) -> Value:
    """Bisection in the dtype that both have in common."""
    dtype = ew.canonical(np.promote_types(x.dtype, v.dtype))
    both = (a.astype(dtype) for a in (x, v))
    return so.searchsorted(*both, right=ctx.op.side == "right", sorter=sorter)


@lowers(UnravelIndex)
def lower_unravel_index(ctx: RuleContext, position: Value, dims: Value) -> list[Value]:
    """The indices that a position stands for, one array for each axis."""
    sizes = ravel.sizes_of(dims)
    ctx.require(
        lambda: ravel.within(position, ravel.size_of(sizes)),
        PositionOutOfBoundsError,
        f"{ctx.op} gets a position that is outside of the array. Aesara raises ValueError there; "
        "the emitted program gives indices that are outside too",
    )
    return ravel.unravel_index(position, sizes, ctx.op.order)


@lowers(RavelMultiIndex)
def lower_ravel_multi_index(ctx: RuleContext, *operands: Value) -> Value:
    """The position that an index stands for."""
    *index, dims = operands
    sizes, op = ravel.sizes_of(dims), ctx.op
    for i, size in zip(index, sizes, strict=True) if op.mode == "raise" else ():
        ctx.require(
            lambda i=i, size=size: ravel.within(i, size),
            PositionOutOfBoundsError,
            f"{op} gets an index that is outside of the array. Aesara raises ValueError there; "
            "the emitted program gives the position of another element, or of none",
        )
    return ravel.ravel_multi_index(index, sizes, op.mode, op.order)


@lowers(Bartlett, folds=False, static=(0,))
def lower_bartlett(ctx: RuleContext, length: Value) -> Any:
    """A window whose length is known while emitting."""
    size = ctx.static_int(0)
    folded = ctx.fold((length,), (max(size, 0),))
    return list(folded) if folded else create.bartlett(size)
