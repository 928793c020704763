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
from jaxprgen.emit.values import BOOL, INT32, Dtype, Value, broadcast_to, full
from jaxprgen.errors import IndexOutOfBoundsError, ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

RULES[ScalarSoftsign] = in_output_dtype(special.softsign)


# --- Softmax --------------------------------------------------------------------------------


def _common(*xs: Value) -> Dtype:
    """The floats in which numbers of these dtypes are computed with: no halves."""
    return ew.canonical(np.result_type(np.float32, *(x.dtype for x in xs)))


def _with_bias(x: Value, bias: Value, dtype: Dtype) -> Value:
    if bias.shape != x.shape[1:]:
        raise ShapeMismatchError(f"A bias of shape {bias.shape} does not fit rows of {x.shape[1]}.")
    return x.astype(dtype) + bias.astype(dtype)


@lowers(SoftmaxWithBias)
def lower_softmax_with_bias(ctx: RuleContext, x: Value, bias: Value) -> Value:
    """The softmax of every row, to which the bias is added before."""
    scores = _with_bias(x, bias, _common(x, bias))
    if 0 in x.shape:
        return full(x.shape, 0, ctx.dtype)
    return sm.softmax(scores, [1]).astype(ctx.dtype)


# --- Losses ---------------------------------------------------------------------------------


def _classes(ctx: RuleContext, scores: Value, targets: Value) -> Value:
    """Targets as numbers of columns, none of them negative."""
    count = scores.shape[1]
    targets = targets.astype(INT32) if targets.dtype == BOOL else targets
    value = targets.static
    if value is None:
        ctx.require(
            lambda: _all_are_classes(targets, count),
            IndexOutOfBoundsError,
            f"{ctx.op} has a target that is negative or not below {count}. Aesara raises an error "
            "there; the emitted program counts negative ones from the end, and takes the nearest",
        )
    elif value.size and not (value.min() >= 0 and value.max() < count):
        raise IndexOutOfBoundsError(f"Targets {value.tolist()} are not all among {count} classes.")
    return targets


def _of_rows(targets: Value, count: int) -> Value:
    """The targets that are read: those of the first rows. Too few are refused further down."""
    return slice_axis(targets, 0, 0, min(count, *targets.shape))


def _all_are_classes(targets: Value, count: int) -> Value:
    natural = targets >= np.zeros((), targets.dtype)
    inside = natural & ix.in_bounds(targets, count)
    return reduce.bitwise_and(inside, [0])


@lowers(CrossentropySoftmaxArgmax1HotWithBias)
def lower_softmax_loss(ctx: RuleContext, x: Value, bias: Value, targets: Value) -> list[Value]:
    """The loss of every row, its softmax, and which class it has the largest score for."""
    # Halves are added as such, so that those tie that tie in Aesara.
    scores = _with_bias(x, bias, ew.canonical(np.result_type(x.dtype, bias.dtype)))
    wide = scores.astype(_common(scores))
    loss, softmax = sm.softmax_loss(wide, _classes(ctx, x, targets))
    largest = reduce.argmax(scores, [1])
    return [
        loss.astype(ctx.dtype),
        softmax.astype(ctx.dtype),
        largest.astype(targets.dtype),
    ]


@lowers(CrossentropySoftmax1HotWithBiasDx)
def lower_softmax_loss_grad(ctx: RuleContext, y: Value, softmax: Value, targets: Value) -> Value:
    """What `aesara.grad` makes of that loss; one cotangent for all rows, or one each."""
    classes = _classes(ctx, softmax, _of_rows(targets, softmax.shape[0]))
    y, wide = (x.astype(_common(y, softmax)) for x in (y, softmax))
    return sm.softmax_loss_vjp(y, wide, classes).astype(ctx.dtype)


def _number(x: Value) -> Dtype:
    """What NumPy takes logarithms in."""
    return x.dtype if x.dtype.kind in "fc" else ew.canonical(np.float64)


@lowers(CrossentropyCategorical1Hot)
def lower_negative_log(ctx: RuleContext, x: Value, targets: Value) -> Value:
    """Of each row, minus the logarithm of its target's element."""
    targets = _of_rows(targets, x.shape[0])
    check_bounds(ctx, x.shape, [(1, targets)])
    return sm.negative_log(x.astype(_number(x)), targets).astype(ctx.dtype)


@lowers(CrossentropyCategorical1HotGrad)
def lower_negative_log_grad(ctx: RuleContext, y: Value, x: Value, targets: Value) -> Value:
    """What `aesara.grad` makes of that."""
    targets = _of_rows(targets, y.shape[0])
    check_bounds(ctx, x.shape, [(1, targets)])
    dtype = ew.canonical(np.result_type(_number(x), _number(y)))
    y, wide = (v.astype(dtype) for v in (y, x))
    return sm.negative_log_vjp(y, wide, targets).astype(ctx.dtype)


# --- A column more --------------------------------------------------------------------------


@lowers(Prepend_scalar_constant_to_each_row, folds=False)
def lower_prepend_constant(ctx: RuleContext, x: Value) -> Value:
    """A constant in front of each row."""
    value = getattr(ctx.op.val, "data", ctx.op.val)
    return _prepend(Value(np.asarray(value).astype(ctx.dtype)), x)


@lowers(Prepend_scalar_to_each_row)
def lower_prepend_scalar(ctx: RuleContext, value: Value, x: Value) -> Value:
    """A scalar in front of each row."""
    return _prepend(value.astype(ctx.dtype), x)


def _prepend(value: Value, x: Value) -> Value:
    return concatenate([broadcast_to(value, (x.shape[0], 1)), x], 1)
