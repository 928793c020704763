"""Rules for `aesara.tensor.math`, and for `CAReduce`: products, convolutions, reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from aesara.scalar import basic as aes
from aesara.tensor.elemwise import CAReduce
from aesara.tensor.math import Argmax, Convolve, Dot, MatMul, MaxAndArgmax, Mean, MulWithoutZeros

from jaxprgen.emit import convolution, linalg, reduce
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

# --- Products -----------------------------------------------------------------------------


@lowers(Dot)
def lower_dot(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.dot` of vectors and matrices, in the declared dtype."""
    dtype = ctx.dtype
    return linalg.dot(x.astype(dtype), y.astype(dtype))


@lowers(MatMul)
def lower_matmul(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.matmul`, in the Op's dtype. Without one, Aesara declares ``floatX`` whatever NumPy's
    result is, which is converted: of complex numbers that gives the real part.
    """
    natural = np.result_type(x.dtype, y.dtype) if ctx.op.dtype is None else ctx.dtype
    working = np.dtype(np.int32) if natural.kind == "b" else natural
    product = linalg.matmul(x.astype(working), y.astype(working))
    if natural.kind == "b":  # True wherever any product is.
        product = ew.truth(product)
    return product.astype(ctx.dtype)


@lowers(Convolve)
def lower_convolve(ctx: RuleContext, x: Value, y: Value) -> Value:
    """`numpy.convolve`, in the declared dtype."""
    dtype = ctx.dtype
    x, y = x.astype(dtype), y.astype(dtype)
    return convolution.convolve(x, y, ctx.op.mode)


# --- Reductions ---------------------------------------------------------------------------


_SELECTING: dict[type, reduce.Reduction] = {
    # These return one of the elements, or its bits: in which dtype makes no difference.
    aes.ScalarMaximum: reduce.max,
    aes.ScalarMinimum: reduce.min,
    aes.AND: reduce.bitwise_and,
    aes.OR: reduce.bitwise_or,
    aes.XOR: reduce.bitwise_xor,
}
_ACCUMULATING: dict[type, reduce.Reduction] = {
    aes.Add: reduce.sum,
    aes.Mul: reduce.prod,
    MulWithoutZeros: reduce.prod_without_zeros,
}


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """The axes to reduce; for a scalar, axis 0 is as good as none."""
    if axis is None or rank == 0:
        return tuple(range(rank))
    return tuple(sorted(int(d) % rank for d in axis))


@lowers(CAReduce)
def lower_reduction(ctx: RuleContext, x: Value) -> Value:
    """Accumulate in ``acc_dtype``, return in ``dtype``."""
    return reduce_by(ctx, x, axes_of(ctx.op.axis, x.ndim))


def reduce_by(ctx: RuleContext, x: Value, axes: Sequence[int]) -> Value:
    """The Op's reduction over these axes."""
    op = ctx.op
    kind = type(op.scalar_op)
    if kind in _SELECTING:
        return _SELECTING[kind](x, axes).astype(ctx.dtype)
    accumulator = ew.canonical(op.acc_dtype or op.dtype or ctx.dtype)
    x = x.astype(accumulator)
    return _ACCUMULATING[kind](x, axes).astype(ctx.dtype)


def _supports(op: CAReduce) -> bool:
    return isinstance(op, Mean) or type(op.scalar_op) in {**_SELECTING, **_ACCUMULATING}


lower_reduction.supports = _supports  # type: ignore[attr-defined]


@lowers(Mean)
def lower_mean(ctx: RuleContext, x: Value) -> Value:
    """The mean in float64, whatever the dtype, as `Mean.perform` takes it."""
    axes = axes_of(ctx.op.axis, x.ndim)
    wide = x.astype(ew.canonical(np.float64))
    total = reduce.sum(wide, axes)
    count = np.prod([x.shape[d] for d in axes], dtype=np.float64)
    mean = total / count
    return mean.astype(ctx.dtype)


@lowers(Argmax)
def lower_argmax(ctx: RuleContext, x: Value, *_: Value) -> Value:
    """The position of the first maximum."""
    return reduce.argmax(x, axes_of(ctx.op.axis, x.ndim))


@lowers(MaxAndArgmax)
def lower_max_and_argmax(ctx: RuleContext, x: Value, *_: Value) -> list[Value]:
    """The maximum and its first position."""
    axes = axes_of(ctx.op.axis, x.ndim)
    return [reduce.max(x, axes), reduce.argmax(x, axes)]
