"""Rules for `aesara.tensor.nnet.batchnorm`. Its ``BNComposite`` is a scalar graph like others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from aesara.tensor.nnet.batchnorm import (
    AbstractBatchNormInference,
    AbstractBatchNormTrain,
    AbstractBatchNormTrainGrad,
)

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import normalization as nz
from jaxprgen.emit.values import Value
from jaxprgen.errors import ShapeMismatchError, UnsupportedOpError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


def _axes(ctx: RuleContext, x: Value) -> tuple[int, ...]:
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


def _declared(ctx: RuleContext, results: Sequence[Value]) -> list[Value]:
    """All outputs have one dtype."""
    return [x.astype(ctx.dtype) for x in results]


@lowers(AbstractBatchNormTrain)
def lower_batch_norm_train(ctx: RuleContext, *inputs: Value) -> list[Value]:
    """Normalized by mean and deviation over axes; these, and their running averages if given."""
    axes = _axes(ctx, inputs[0])
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
    return _declared(ctx, results)


@lowers(AbstractBatchNormInference)
def lower_batch_norm_inference(ctx: RuleContext, *inputs: Value) -> Value:
    """Normalized by a mean and a variance that are given."""
    x, scale, bias, center, square, epsilon = _floats(ctx, *inputs)
    deviation = ew.sqrt(square + epsilon)
    factor = scale / deviation
    return _declared(ctx, [nz.normalize(x, center, factor, bias)])[0]


@lowers(AbstractBatchNormTrainGrad, shape_only=(5,))
def lower_batch_norm_train_grad(ctx: RuleContext, *inputs: Value) -> list[Value]:
    """What `aesara.grad` makes of the first."""
    axes = _axes(ctx, inputs[0])
    return _declared(ctx, nz.normalize_vjp(*_floats(ctx, *inputs)[:5], axes=axes))
