"""Rules for Ops on the elements that a mask selects, if only the running program knows how many.

`jaxprgen.emit.selection` explains how they are represented. All other Ops reject them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew, reduce, selection as sel, shape as sh
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.values import Value
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import is_a
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.elemwise import lower_elemwise
from jaxprgen.ops.math import axes_of, reduce_by, reduction_of


@lowers("tensor.Elemwise", lazy=Selected)
def lower_elemwise_of_selected(ctx: RuleContext, *xs: Value | Selected) -> list[Selected]:
    """Apply a scalar Op to elements selected by one mask, and to arrays that broadcast to them."""
    arrays, first = sel.aligned(xs)
    results: Any = lower_elemwise(ctx, *arrays)
    results = list(results) if type(results) in (list, tuple) else [results]
    return [replace(first, values=x) for x in results]


@lowers("tensor.DimShuffle", lazy=Selected)
def lower_dimshuffle_of_selected(ctx: RuleContext, x: Selected) -> Selected:
    """Drop axes other than the selected one, permute axes, and insert new ones."""
    order = list(ctx.op.new_order)
    if x.axis not in order:
        raise x.refuse()
    kept = [d for d in order if d != "x"]
    full = x.full_axes(kept)
    dropped = [d for d in range(x.values.ndim) if d not in full]
    ranks = {d: i for i, d in enumerate(sorted(full))}
    values = sh.transpose(sh.squeeze(x.values, dropped), [ranks[d] for d in full])
    axis, extra = order.index(x.axis), x.mask.ndim - 1
    new = [i if i < axis else i + extra for i, d in enumerate(order) if d == "x"]
    return replace(x, values=sh.expand_dims(values, new), axis=axis)


@lowers("tensor.Shape", lazy=Selected)
def lower_shape_of_selected(ctx: RuleContext, x: Selected) -> Value:
    """Return the sizes, one of which is the mask's number of true elements."""
    return sh.stack([sel.size(x, d) for d in range(x.ndim)])


@lowers("tensor.Shape_i", lazy=Selected)
def lower_shape_i_of_selected(ctx: RuleContext, x: Selected) -> Value:
    """Return one size, which may be the mask's number of true elements."""
    return sel.size(x, ctx.op.i)


# --- Reductions ---------------------------------------------------------------------------


_EXTREMES = ("scalar.ScalarMaximum", "scalar.Maximum", "scalar.ScalarMinimum", "scalar.Minimum")


@lowers("tensor.CAReduce", lazy=Selected)
def lower_reduction_of_selected(ctx: RuleContext, x: Selected) -> Value | Selected:
    """Reduce the selected elements."""
    axes = axes_of(ctx.op.axis, x.ndim)
    full = tuple(x.full_axes(axes))
    if x.axis not in axes:
        axis = x.axis - sum(d < x.axis for d in axes)
        return replace(x, values=reduce_by(ctx, x.values, full), axis=axis)
    dtype = x.values.dtype
    if is_a(ctx.op.scalar_op, *_EXTREMES):
        if dtype.kind == "c":
            raise x.refuse()
        _require_some(ctx, x)
    _, neutral = reduction_of(ctx.op)
    number: Any = neutral(dtype) if callable(neutral) else neutral
    return reduce_by(ctx, sel.filled(x, number), full)


@lowers("tensor.Mean", lazy=Selected)
def lower_mean_of_selected(ctx: RuleContext, x: Selected) -> Value:
    """Return the mean of the selected elements, computed in float64 as in `Mean.perform`."""
    axes = axes_of(ctx.op.axis, x.ndim)
    if x.axis not in axes:
        raise x.refuse()
    wide = replace(x, values=x.values.astype(ew.canonical(np.float64)))
    total = reduce.sum(sel.filled(wide, np.asarray(0)), x.full_axes(axes))
    others = math.prod([x.values.shape[d] for d in x.full_axes([d for d in axes if d != x.axis])])
    count = sel.count(x.mask).astype(total.dtype) * others
    return (total / count).astype(ctx.dtype)


@lowers("tensor.MaxAndArgmax", lazy=Selected)
def lower_max_and_argmax_of_selected(ctx: RuleContext, x: Selected, *_: Value) -> list[Value]:
    """Return the maximum of the selected elements, and its position among them."""
    axes = axes_of(ctx.op.axis, x.ndim)
    if x.axis not in axes or x.values.dtype.kind == "c":
        raise x.refuse()
    _require_some(ctx, x)
    values = sel.filled(x, reduce.lowest(x.values.dtype))
    full = x.full_axes(axes)
    # If an element outside of the selection is as large, all selected ones equal the fill value,
    # so the position of the first is right.
    where = sel.position(x, axes, reduce.argmax(values, full))
    return [reduce.max(values, full), where]


@lowers("tensor.Argmax", lazy=Selected)
def lower_argmax_of_selected(ctx: RuleContext, x: Selected, *_: Value) -> Value:
    """Return the position of the maximum among the selected elements."""
    return lower_max_and_argmax_of_selected(ctx, x)[1]


def _require_some(ctx: RuleContext, x: Selected) -> None:
    if not math.prod(x.mask.shape):
        raise ShapeMismatchError(
            f"{ctx.op} needs at least one element: the mask has shape {x.mask.shape}."
        )
    fails = "A mask selects no element, and none is an extremum."
    unchecked = "whether a mask selects any element to take an extremum of. If not, the Op raises "
    unchecked += "ValueError, and this program returns the neutral element"
    every = range(x.mask.ndim)
    ctx.require(lambda: reduce.bitwise_or(x.mask, every), ShapeMismatchError, fails, unchecked)
