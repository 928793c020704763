"""Rules for `aesara.tensor.nnet.basic`: what classifiers end in."""

from __future__ import annotations

import numpy as np
from aesara.tensor.nnet.basic import (
    CrossentropyCategorical1Hot,
    CrossentropyCategorical1HotGrad,
    CrossentropySoftmax1HotWithBiasDx,
    CrossentropySoftmaxArgmax1HotWithBias,
    Prepend_scalar_constant_to_each_row,
    Prepend_scalar_to_each_row,
    ScalarSoftsign,
    SoftmaxWithBias,
)

from jaxprgen.aesara.scalar import RULES, in_output_dtype
from jaxprgen.aesara.subtensor import check_bounds
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit import reduce
from jaxprgen.emit import softmax as sm
from jaxprgen.emit import transcendental as special
from jaxprgen.emit.shape import concatenate, slice_axis
from jaxprgen.emit.values import (
    BOOL,
    INT32,
    Dtype,
    Value,
    broadcast_to,
    dtype_of,
    known,
    shape_of,
    splat,
)
from jaxprgen.errors import IndexOutOfBoundsError, ShapeMismatchError
from jaxprgen.ir import Builder
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

RULES[ScalarSoftsign] = in_output_dtype(special.softsign)


# --- Softmax --------------------------------------------------------------------------------


def _common(*xs: Value) -> Dtype:
    """The floats in which numbers of these dtypes are computed with: no halves."""
    return ew.canonical(np.result_type(np.float32, *(dtype_of(x) for x in xs)))


def _with_bias(b: Builder, x: Value, bias: Value, dtype: Dtype) -> Value:
    if shape_of(bias) != shape_of(x)[1:]:
        raise ShapeMismatchError(
            f"A bias of shape {shape_of(bias)} does not fit rows of {shape_of(x)[1]}."
        )
    return ew.add(b, ew.convert(b, x, dtype), ew.convert(b, bias, dtype))


@lowers(SoftmaxWithBias)
def lower_softmax_with_bias(ctx: RuleContext, x: Value, bias: Value) -> Value:
    """The softmax of every row, to which the bias is added before."""
    scores = _with_bias(ctx.builder, x, bias, _common(x, bias))
    if 0 in shape_of(x):
        return splat(0, ctx.dtype, shape_of(x))
    return ew.convert(ctx.builder, sm.softmax(ctx.builder, scores, [1]), ctx.dtype)


# --- Losses ---------------------------------------------------------------------------------


def _classes(ctx: RuleContext, scores: Value, targets: Value) -> Value:
    """Targets as numbers of columns, none of them negative."""
    b, count = ctx.builder, shape_of(scores)[1]
    targets = ew.convert(b, targets, INT32) if dtype_of(targets) == BOOL else targets
    value = known(targets)
    if value is None:
        ctx.require(
            lambda b: _all_are_classes(b, targets, count),
            IndexOutOfBoundsError,
            f"{ctx.op} has a target that is negative or not below {count}. Aesara raises an error "
            "there; the emitted program counts negative ones from the end, and takes the nearest",
        )
    elif value.size and not (value.min() >= 0 and value.max() < count):
        raise IndexOutOfBoundsError(f"Targets {value.tolist()} are not all among {count} classes.")
    return targets


def _of_rows(b: Builder, targets: Value, count: int) -> Value:
    """The targets that are read: those of the first rows. Too few are refused further down."""
    return slice_axis(b, targets, 0, 0, min(count, *shape_of(targets)))


def _all_are_classes(b: Builder, targets: Value, count: int) -> Value:
    natural = ew.greater_equal(b, targets, np.zeros((), dtype_of(targets)))
    inside = ew.bitwise_and(b, natural, ix.in_bounds(b, targets, count))
    return reduce.bitwise_and(b, inside, [0])


@lowers(CrossentropySoftmaxArgmax1HotWithBias)
def lower_softmax_loss(ctx: RuleContext, x: Value, bias: Value, targets: Value) -> list[Value]:
    """The loss of every row, its softmax, and which class it has the largest score for."""
    b = ctx.builder
    # Halves are added as such, so that those tie that tie in Aesara.
    scores = _with_bias(b, x, bias, ew.canonical(np.result_type(dtype_of(x), dtype_of(bias))))
    wide = ew.convert(b, scores, _common(scores))
    loss, softmax = sm.softmax_loss(b, wide, _classes(ctx, x, targets))
    largest = reduce.argmax(b, scores, [1])
    return [
        ew.convert(b, loss, ctx.dtype),
        ew.convert(b, softmax, ctx.dtype),
        ew.convert(b, largest, dtype_of(targets)),
    ]


@lowers(CrossentropySoftmax1HotWithBiasDx)
def lower_softmax_loss_grad(ctx: RuleContext, y: Value, softmax: Value, targets: Value) -> Value:
    """What `aesara.grad` makes of that loss; one cotangent for all rows, or one each."""
    b = ctx.builder
    classes = _classes(ctx, softmax, _of_rows(b, targets, shape_of(softmax)[0]))
    y, wide = (ew.convert(b, x, _common(y, softmax)) for x in (y, softmax))
    return ew.convert(b, sm.softmax_loss_vjp(b, y, wide, classes), ctx.dtype)


def _number(x: Value) -> Dtype:
    """What NumPy takes logarithms in."""
    return dtype_of(x) if dtype_of(x).kind in "fc" else ew.canonical(np.float64)


@lowers(CrossentropyCategorical1Hot)
def lower_negative_log(ctx: RuleContext, x: Value, targets: Value) -> Value:
    """Of each row, minus the logarithm of its target's element."""
    b = ctx.builder
    targets = _of_rows(b, targets, shape_of(x)[0])
    check_bounds(ctx, shape_of(x), [(1, targets)])
    return ew.convert(b, sm.negative_log(b, ew.convert(b, x, _number(x)), targets), ctx.dtype)


@lowers(CrossentropyCategorical1HotGrad)
def lower_negative_log_grad(ctx: RuleContext, y: Value, x: Value, targets: Value) -> Value:
    """What `aesara.grad` makes of that."""
    b = ctx.builder
    targets = _of_rows(b, targets, shape_of(y)[0])
    check_bounds(ctx, shape_of(x), [(1, targets)])
    dtype = ew.canonical(np.result_type(_number(x), _number(y)))
    y, wide = (ew.convert(b, v, dtype) for v in (y, x))
    return ew.convert(b, sm.negative_log_vjp(b, y, wide, targets), ctx.dtype)


# --- A column more --------------------------------------------------------------------------


@lowers(Prepend_scalar_constant_to_each_row, folds=False)
def lower_prepend_constant(ctx: RuleContext, x: Value) -> Value:
    """A constant in front of each row."""
    value = getattr(ctx.op.val, "data", ctx.op.val)
    return _prepend(ctx.builder, np.asarray(value).astype(ctx.dtype), x)


@lowers(Prepend_scalar_to_each_row)
def lower_prepend_scalar(ctx: RuleContext, value: Value, x: Value) -> Value:
    """A scalar in front of each row."""
    return _prepend(ctx.builder, ew.convert(ctx.builder, value, ctx.dtype), x)


def _prepend(b: Builder, value: Value, x: Value) -> Value:
    return concatenate(b, [broadcast_to(b, value, (shape_of(x)[0], 1)), x], 1)
