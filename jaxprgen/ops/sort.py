"""Rules for `aesara.tensor.sort`: sorting, and the largest elements."""

from __future__ import annotations

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import sort as so
from jaxprgen.emit.shape import axis_of
from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers("tensor.SortOp")
def lower_sort(ctx: RuleContext, x: Value, _: Value) -> Value:
    """Return the elements sorted along a static axis."""
    return so.sort(x, axis_of(ctx.static_int(1), x.ndim))


@lowers("tensor.ArgSortOp")
def lower_argsort(ctx: RuleContext, x: Value, _: Value) -> Value:
    """Return the positions that sort, by a stable sort for every ``kind``."""
    return so.argsort(x, axis_of(ctx.static_int(1), x.ndim))


@lowers("tensor.TopKOp")
def lower_top_k(ctx: RuleContext, x: Value, _: Value) -> list[Value]:
    """Return a static number of the largest elements, in the order that Aesara leaves open."""
    op = ctx.op
    axis = axis_of(op.axis, x.ndim)
    values, positions = so.top_k(x, ctx.static_int(1), axis)
    numbers = positions.astype(ew.canonical(np.dtype(op.idx_dtype)))
    return [*[values] * op.return_values, *[numbers] * op.return_indices]
