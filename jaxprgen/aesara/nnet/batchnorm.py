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
from jaxprgen.emit.values import Value, shape_of, size_of
from jaxprgen.errors import ShapeMismatchError, UnsupportedOpError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


def _axes(ctx: RuleContext, x: Value) -> tuple[int, ...]:
    axes, rank = ctx.op.axes, len(shape_of(x))
    if len(set(axes)) < len(axes) or not all(0 <= d < rank for d in axes):
        raise ShapeMismatchError(f"Axes {axes} are not different ones of {rank} dimensions.")
    return axes


def _floats(ctx: RuleContext, *xs: Value) -> list[Value]:
    """The operands in the floats to compute with: those declared, but no halves."""
    if ctx.dtype.kind == "c":
        raise UnsupportedOpError("Batch normalization takes real numbers, not complex ones.")
    dtype = ew.canonical(np.result_type(np.float32, ctx.dtype))
    return [ew.convert(ctx.builder, x, dtype) for x in xs]


def _declared(ctx: RuleContext, results: Sequence[Value]) -> list[Value]:
    """All outputs have one dtype."""
    return [ew.convert(ctx.builder, x, ctx.dtype) for x in results]


@lowers(AbstractBatchNormTrain)
def lower_batch_norm_train(ctx: RuleContext, *inputs: Value) -> list[Value]:
    """Normalized by mean and deviation over axes; these, and their running averages if given."""
    b, axes = ctx.builder, _axes(ctx, inputs[0])
    x, scale, bias, epsilon, share, *running = _floats(ctx, *inputs)
    center = nz.mean(b, x, axes)
    square = nz.variance(b, x, center, axes)
    inverse = nz.inverse_deviation(b, square, epsilon)
    factor = ew.multiply(b, scale, inverse)
    results = [nz.normalize(b, x, center, factor, bias), center, inverse]
    if running:
        count = size_of(x) / max(1, size_of(scale))
        new = center, nz.unbiased(b, square, count)
        results += [nz.moving(b, old, v, share) for old, v in zip(running, new, strict=True)]
    return _declared(ctx, results)


@lowers(AbstractBatchNormInference)
def lower_batch_norm_inference(ctx: RuleContext, *inputs: Value) -> Value:
    """Normalized by a mean and a variance that are given."""
    b = ctx.builder
    x, scale, bias, center, square, epsilon = _floats(ctx, *inputs)
    deviation = ew.sqrt(b, ew.add(b, square, epsilon))
    factor = ew.divide(b, scale, deviation)
    return _declared(ctx, [nz.normalize(b, x, center, factor, bias)])[0]


@lowers(AbstractBatchNormTrainGrad, shape_only=(5,))
def lower_batch_norm_train_grad(ctx: RuleContext, *inputs: Value) -> list[Value]:
    """What `aesara.grad` makes of the first."""
    axes = _axes(ctx, inputs[0])
    return _declared(ctx, nz.normalize_vjp(ctx.builder, *_floats(ctx, *inputs)[:5], axes=axes))
