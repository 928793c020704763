"""Rules for `aesara.tensor.math`, and for `CAReduce`: products, convolutions, reductions."""

from __future__ import annotations

import math
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
    """Return `numpy.dot` of vectors or matrices, computed in the declared dtype."""
    return linalg.dot(x.astype(ctx.dtype), y.astype(ctx.dtype))


@lowers(MatMul)
def lower_matmul(ctx: RuleContext, x: Value, y: Value) -> Value:
    """Return `numpy.matmul` in the Op's dtype.

    If the Op has no dtype, Aesara declares ``floatX`` for any operands and converts NumPy's result,
    which drops the imaginary parts of complex numbers.
    """
    natural = np.result_type(x.dtype, y.dtype) if ctx.op.dtype is None else ctx.dtype
    working = np.dtype(np.int32) if natural.kind == "b" else natural
    product = linalg.matmul(x.astype(working), y.astype(working))
    if natural.kind == "b":  # True where any of the products is.
        product = ew.truth(product)
    return product.astype(ctx.dtype)


@lowers(Convolve)
def lower_convolve(ctx: RuleContext, x: Value, y: Value) -> Value:
    """Return `numpy.convolve` of vectors, computed in the declared dtype."""
    return convolution.convolve(x.astype(ctx.dtype), y.astype(ctx.dtype), ctx.op.mode)


# --- Reductions ---------------------------------------------------------------------------


_SELECTING: dict[type, reduce.Reduction] = {
    # The result is an element or made of the elements' bits, so no accumulator can matter.
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
    """Return the axes to reduce; a scalar has none, even if the Op names axis 0."""
    if axis is None or rank == 0:
        return tuple(range(rank))
    return tuple(sorted(int(d) % rank for d in axis))


@lowers(CAReduce)
def lower_reduction(ctx: RuleContext, x: Value) -> Value:
    """Reduce over axes: accumulate in the Op's ``acc_dtype`` and return its ``dtype``."""
    return reduce_by(ctx, x, axes_of(ctx.op.axis, x.ndim))


def reduce_by(ctx: RuleContext, x: Value, axes: Sequence[int]) -> Value:
    """Return the Op's reduction over these axes."""
    op, kind = ctx.op, type(ctx.op.scalar_op)
    if kind in _SELECTING:
        return _SELECTING[kind](x, axes).astype(ctx.dtype)
    accumulator = ew.canonical(op.acc_dtype or op.dtype or ctx.dtype)
    return _ACCUMULATING[kind](x.astype(accumulator), axes).astype(ctx.dtype)


def _supports(op: CAReduce) -> bool:
    return isinstance(op, Mean) or type(op.scalar_op) in {**_SELECTING, **_ACCUMULATING}


lower_reduction.supports = _supports  # type: ignore[attr-defined]


@lowers(Mean)
def lower_mean(ctx: RuleContext, x: Value) -> Value:
    """Return the mean, computed in float64 for every dtype, as in `Mean.perform`."""
    axes = axes_of(ctx.op.axis, x.ndim)
    total = reduce.sum(x.astype(ew.canonical(np.float64)), axes)
    return (total / math.prod(x.shape[d] for d in axes)).astype(ctx.dtype)


@lowers(Argmax)
def lower_argmax(ctx: RuleContext, x: Value, *_: Value) -> Value:
    """Return the position of the first maximum over the axes, in row-major order."""
    return reduce.argmax(x, axes_of(ctx.op.axis, x.ndim))


@lowers(MaxAndArgmax)
def lower_max_and_argmax(ctx: RuleContext, x: Value, *_: Value) -> list[Value]:
    """Return the maximum and its first position over the axes, in row-major order."""
    axes = axes_of(ctx.op.axis, x.ndim)
    return [reduce.max(x, axes), reduce.argmax(x, axes)]
