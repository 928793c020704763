"""Rules for the layers and losses of `aesara.tensor.nnet`."""

from __future__ import annotations

from collections.abc import Sequence

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
from aesara.tensor.nnet.batchnorm import (
    AbstractBatchNormInference,
    AbstractBatchNormTrain,
    AbstractBatchNormTrainGrad,
)
from aesara.tensor.nnet.blocksparse import SparseBlockGemv, SparseBlockOuter
from aesara.tensor.nnet.ctc import ConnectionistTemporalClassification
from aesara.tensor.nnet.sigm import UltraFastScalarSigmoid

from jaxprgen.aesara.scalar import RULES, in_output_dtype
from jaxprgen.aesara.subtensor import check_bounds
from jaxprgen.emit import ctc, linalg, reduce, transcendental
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit import normalization as nz
from jaxprgen.emit import softmax as sm
from jaxprgen.emit.shape import concatenate, slice_axis
from jaxprgen.emit.values import BOOL, INT32, Dtype, Value, broadcast_to, full
from jaxprgen.errors import IndexOutOfBoundsError, ShapeMismatchError, UnsupportedOpError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

RULES[ScalarSoftsign] = in_output_dtype(transcendental.softsign)
# Its ``perform`` is the exact sigmoid; only its C code approximates.
RULES[UltraFastScalarSigmoid] = in_output_dtype(transcendental.expit)


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


# --- Batch normalization ------------------------------------------------------------------


def _normalized_axes(ctx: RuleContext, x: Value) -> tuple[int, ...]:
    axes, rank = ctx.op.axes, x.ndim
    if len(set(axes)) < len(axes) or not all(0 <= d < rank for d in axes):
        raise ShapeMismatchError(f"Axes {axes} are not different ones of {rank} dimensions.")
    return axes


def _floats(ctx: RuleContext, *xs: Value) -> list[Value]:
    """The operands in the floats to compute with: those declared, but no halves."""
    if ctx.dtype.kind == "c":
        raise UnsupportedOpError("Batch normalization takes real numbers, not complex ones.")
    dtype = ew.canonical(np.result_type(np.float32, ctx.dtype))
    return [x.astype(dtype) for x in xs]


def _in_declared_dtype(ctx: RuleContext, results: Sequence[Value]) -> list[Value]:
    """All outputs have one dtype."""
    return [x.astype(ctx.dtype) for x in results]


@lowers(AbstractBatchNormTrain)
def lower_batch_norm_train(ctx: RuleContext, *inputs: Value) -> list[Value]:
    """Normalized by mean and deviation over axes; these, and their running averages if given."""
    axes = _normalized_axes(ctx, inputs[0])
    x, scale, bias, epsilon, share, *running = _floats(ctx, *inputs)
    center = nz.mean(x, axes)
    square = nz.variance(x, center, axes)
    inverse = nz.inverse_deviation(square, epsilon)
    factor = scale * inverse
    results = [nz.normalize(x, center, factor, bias), center, inverse]
    if running:
        count = x.size / max(1, scale.size)
        new = center, nz.unbiased(square, count)
        results += [nz.moving(old, v, share) for old, v in zip(running, new, strict=True)]
    return _in_declared_dtype(ctx, results)


@lowers(AbstractBatchNormInference)
def lower_batch_norm_inference(ctx: RuleContext, *inputs: Value) -> Value:
    """Normalized by a mean and a variance that are given."""
    x, scale, bias, center, square, epsilon = _floats(ctx, *inputs)
    deviation = ew.sqrt(square + epsilon)
    factor = scale / deviation
    return _in_declared_dtype(ctx, [nz.normalize(x, center, factor, bias)])[0]


@lowers(AbstractBatchNormTrainGrad, shape_only=(5,))
def lower_batch_norm_train_grad(ctx: RuleContext, *inputs: Value) -> list[Value]:
    """What `aesara.grad` makes of the first."""
    axes = _normalized_axes(ctx, inputs[0])
    return _in_declared_dtype(ctx, nz.normalize_vjp(*_floats(ctx, *inputs)[:5], axes=axes))


# --- Connectionist temporal classification ------------------------------------------------


@lowers(ConnectionistTemporalClassification, folds=False)
def lower_ctc(ctx: RuleContext, x: Value, labels: Value, lengths: Value) -> list[Value]:
    """The costs of labels, which `jax.grad` differentiates, and their slopes if asked for.

    They are those of the library that Aesara calls, without it. (Aesara's class has no
    ``perform``, without which no Op of it can be made: subclasses have one.)
    """
    times, batch, classes = x.shape
    if labels.shape[0] != batch or lengths.shape != (batch,):
        raise ShapeMismatchError(
            f"Labels of shape {labels.shape} and lengths of shape {lengths.shape} are not "
            f"one for each of {batch} sequences."
        )
    ctx.require(
        lambda: ctc.are_possible(x, labels, lengths),
        IndexOutOfBoundsError,
        f"{ctx.op} has a label not below {classes}, or a length above {times}. What Aesara calls "
        "then reads beyond its arrays; the emitted program takes the nearest",
    )
    return list(ctc.ctc(x, labels, lengths)[: len(ctx.node.outputs)])


# --- Sparse blocks ------------------------------------------------------------------------


@lowers(SparseBlockGemv)
def lower_sparse_block_gemv(
    ctx: RuleContext, y: Value, matrix: Value, x: Value, rows: Value, columns: Value
) -> Value:
    """``y`` plus products of some blocks of a matrix with vectors."""
    check_bounds(ctx, matrix.shape, [(0, rows), (1, columns)])
    return linalg.multiply_blocks(y, matrix, x, rows, columns)


@lowers(SparseBlockOuter, folds=False)
def lower_sparse_block_outer(
    ctx: RuleContext, matrix: Value, x: Value, y: Value, rows: Value, columns: Value, scale: Value
) -> Value:
    """Some blocks of a matrix increased by outer products, scaled as is documented.

    Aesara's Python mode passes over the scale, which is one unless an Op is made by hand.
    """
    check_bounds(ctx, matrix.shape, [(0, rows), (1, columns)])
    x, y, scale = (v.astype(ctx.dtype) for v in (x, y, scale))
    return linalg.add_outer_blocks(matrix, x, y, rows, columns, scale)
