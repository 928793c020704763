"""Rules for the layers and losses of `aesara.tensor.nnet`."""

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
from aesara.tensor.nnet.batchnorm import (
    AbstractBatchNormInference,
    AbstractBatchNormTrain,
    AbstractBatchNormTrainGrad,
)
from aesara.tensor.nnet.blocksparse import SparseBlockGemv, SparseBlockOuter
from aesara.tensor.nnet.sigm import UltraFastScalarSigmoid

from jaxprgen._jax import Size, max_size, min_size
from jaxprgen.emit import (
    elementwise as ew,
    index as ix,
    linalg,
    normalization as nz,
    reduce,
    softmax as sm,
    transcendental,
)
from jaxprgen.emit.shape import concatenate, slice_axis
from jaxprgen.emit.sizes import require_at_least, with_shape
from jaxprgen.emit.values import BOOL, INT32, Dtype, Value, broadcast_to, full
from jaxprgen.errors import IndexOutOfBoundsError, ShapeMismatchError, UnsupportedOpError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.nlinalg import declared
from jaxprgen.ops.scalar import RULES, in_output_dtype
from jaxprgen.ops.subtensor import check_bounds

RULES[ScalarSoftsign] = in_output_dtype(transcendental.softsign)
# Its ``perform`` is the exact sigmoid; only its C code approximates.
RULES[UltraFastScalarSigmoid] = in_output_dtype(transcendental.expit)


# --- Softmax --------------------------------------------------------------------------------


def _common(*xs: Value) -> Dtype:
    """Return the dtype to compute in: the operands' floats, but at least float32."""
    return ew.canonical(np.result_type(np.float32, *(x.dtype for x in xs)))


def _with_bias(x: Value, bias: Value, dtype: Dtype) -> Value:
    text = f"A bias of shape {bias.shape} does not fit rows of {x.shape[1]} elements."
    bias = with_shape(bias, x.shape[1:], text)
    return x.astype(dtype) + bias.astype(dtype)


@lowers(SoftmaxWithBias)
def lower_softmax_with_bias(ctx: RuleContext, x: Value, bias: Value) -> Value:
    """Return the softmax of every row plus the bias."""
    scores = _with_bias(x, bias, _common(x, bias))
    if 0 in x.shape:
        return full(x.shape, 0, ctx.dtype)
    return sm.softmax(scores, [1]).astype(ctx.dtype)


# --- Losses ---------------------------------------------------------------------------------


def _classes(ctx: RuleContext, scores: Value, targets: Value) -> Value:
    """Return targets as column numbers, and check that they are in range."""
    count = scores.shape[1]
    targets = targets.astype(INT32) if targets.dtype == BOOL else targets
    value = targets.static
    if value is None:
        ctx.require(
            lambda: _are_classes(targets, count),
            IndexOutOfBoundsError,
            f"Target {{}} is out of range for {count} classes.",
            f"whether every target is one of {count} classes. If one is not, Aesara raises an "
            "error, and this program counts negative targets from the end, and uses the nearest "
            "class",
            targets,
        )
    elif value.size:
        text = f"Targets must be from 0 to {count - 1}, got {value.tolist()}."
        for n, least in ((int(value.min()), 0), (count, int(value.max()) + 1)):
            require_at_least(n, least, IndexOutOfBoundsError(text))
    return targets


def _of_rows(targets: Value, count: Size) -> Value:
    """Return the targets of the first ``count`` rows; too few of them are an error later."""
    return slice_axis(targets, 0, 0, min_size(count, *targets.shape))


def _are_classes(targets: Value, count: Size) -> Value:
    return (targets >= np.zeros((), targets.dtype)) & ix.in_bounds(targets, count)


@lowers(CrossentropySoftmaxArgmax1HotWithBias)
def lower_softmax_loss(ctx: RuleContext, x: Value, bias: Value, targets: Value) -> list[Value]:
    """Return the loss of every row, its softmax, and the class with the largest score."""
    # Half precision is added as such, so that scores tie where they tie in Aesara.
    scores = _with_bias(x, bias, ew.canonical(np.result_type(x.dtype, bias.dtype)))
    wide = scores.astype(_common(scores))
    loss, softmax = sm.softmax_loss(wide, _classes(ctx, x, targets))
    largest = reduce.argmax(scores, [1])
    return declared(ctx, loss, softmax, largest)


@lowers(CrossentropySoftmax1HotWithBiasDx)
def lower_softmax_loss_grad(ctx: RuleContext, y: Value, softmax: Value, targets: Value) -> Value:
    """Return the gradient of the loss as built by `aesara.grad`; ``y`` has one row or all."""
    classes = _classes(ctx, softmax, _of_rows(targets, softmax.shape[0]))
    y, wide = (x.astype(_common(y, softmax)) for x in (y, softmax))
    return sm.softmax_loss_vjp(y, wide, classes).astype(ctx.dtype)


def _number(x: Value) -> Dtype:
    """Return the dtype in which NumPy computes logarithms."""
    return x.dtype if x.dtype.kind in "fc" else ew.canonical(np.float64)


@lowers(CrossentropyCategorical1Hot)
def lower_negative_log(ctx: RuleContext, x: Value, targets: Value) -> Value:
    """Return minus the logarithm of the target's element of each row."""
    targets = _of_rows(targets, x.shape[0])
    check_bounds(ctx, x.shape, [(1, targets)])
    return sm.negative_log(x.astype(_number(x)), targets).astype(ctx.dtype)


@lowers(CrossentropyCategorical1HotGrad)
def lower_negative_log_grad(ctx: RuleContext, y: Value, x: Value, targets: Value) -> Value:
    """Return the gradient of the negative logarithm as built by `aesara.grad`."""
    targets = _of_rows(targets, y.shape[0])
    check_bounds(ctx, x.shape, [(1, targets)])
    dtype = ew.canonical(np.result_type(_number(x), _number(y)))
    y, wide = (v.astype(dtype) for v in (y, x))
    return sm.negative_log_vjp(y, wide, targets).astype(ctx.dtype)


# --- Prepended columns --------------------------------------------------------------------


@lowers(Prepend_scalar_constant_to_each_row, folds=False)
def lower_prepend_constant(ctx: RuleContext, x: Value) -> Value:
    """Return the rows with a constant prepended."""
    value = getattr(ctx.op.val, "data", ctx.op.val)
    return _prepend(Value(np.asarray(value).astype(ctx.dtype)), x)


@lowers(Prepend_scalar_to_each_row)
def lower_prepend_scalar(ctx: RuleContext, value: Value, x: Value) -> Value:
    """Return the rows with a scalar prepended."""
    return _prepend(value.astype(ctx.dtype), x)


def _prepend(value: Value, x: Value) -> Value:
    return concatenate([broadcast_to(value, (x.shape[0], 1)), x], 1)


# --- Batch normalization ------------------------------------------------------------------


def _normalized_axes(ctx: RuleContext, x: Value) -> tuple[int, ...]:
    axes, rank = ctx.op.axes, x.ndim
    if len(set(axes)) < len(axes) or not all(0 <= d < rank for d in axes):
        raise ShapeMismatchError(f"Axes must be distinct and below {rank}, got {axes}.")
    return axes


def _floats(ctx: RuleContext, *xs: Value) -> list[Value]:
    """Return the operands in the declared dtype, but at least in float32."""
    if ctx.dtype.kind == "c":
        raise UnsupportedOpError("Batch normalization takes real numbers, not complex ones.")
    dtype = ew.canonical(np.result_type(np.float32, ctx.dtype))
    return [x.astype(dtype) for x in xs]


@lowers(AbstractBatchNormTrain)
def lower_batch_norm_train(ctx: RuleContext, *inputs: Value) -> list[Value]:
    """Return ``x`` normalized over axes, with the statistics and updated running averages."""
    axes = _normalized_axes(ctx, inputs[0])
    x, scale, bias, epsilon, share, *running = _floats(ctx, *inputs)
    center = nz.mean(x, axes)
    square = nz.variance(x, center, axes)
    inverse = nz.inverse_deviation(square, epsilon)
    factor = scale * inverse
    results = [nz.normalize(x, center, factor, bias), center, inverse]
    if running:
        new = center, nz.unbiased(square, x.size, max_size(1, scale.size))
        results += [nz.moving(old, v, share) for old, v in zip(running, new, strict=True)]
    return declared(ctx, *results)


@lowers(AbstractBatchNormInference)
def lower_batch_norm_inference(ctx: RuleContext, *inputs: Value) -> Value:
    """Return ``x`` normalized by a given mean and variance."""
    x, scale, bias, center, square, epsilon = _floats(ctx, *inputs)
    factor = scale / ew.sqrt(square + epsilon)
    return nz.normalize(x, center, factor, bias).astype(ctx.dtype)


@lowers(AbstractBatchNormTrainGrad, shape_only=(5,))
def lower_batch_norm_train_grad(ctx: RuleContext, *inputs: Value) -> list[Value]:
    """Return the gradient of the normalization as built by `aesara.grad`."""
    axes = _normalized_axes(ctx, inputs[0])
    return declared(ctx, *nz.normalize_vjp(*_floats(ctx, *inputs)[:5], axes=axes))


# --- Sparse blocks ------------------------------------------------------------------------


@lowers(SparseBlockGemv)
def lower_sparse_block_gemv(
    ctx: RuleContext, y: Value, matrix: Value, x: Value, rows: Value, columns: Value
) -> Value:
    """Return ``y`` plus products of blocks of a matrix with vectors."""
    check_bounds(ctx, matrix.shape, [(0, rows), (1, columns)])
    return linalg.multiply_blocks(y, matrix, x, rows, columns)


@lowers(SparseBlockOuter, folds=False)
def lower_sparse_block_outer(
    ctx: RuleContext, matrix: Value, x: Value, y: Value, rows: Value, columns: Value, scale: Value
) -> Value:
    """Return blocks of a matrix increased by scaled outer products, as Aesara documents.

    Aesara's Python mode ignores the scale, which is one unless the user builds the node.
    """
    check_bounds(ctx, matrix.shape, [(0, rows), (1, columns)])
    x, y, scale = (v.astype(ctx.dtype) for v in (x, y, scale))
    return linalg.add_outer_blocks(matrix, x, y, rows, columns, scale)
