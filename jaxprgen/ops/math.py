"""Rules for `aesara.tensor.math`, `special` and `CAReduce`: products, reductions, softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprgen.emit import convolution, elementwise as ew, linalg, reduce, softmax as sm
from jaxprgen.emit.values import BOOL, Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import entry_of, is_a
from jaxprgen.lowering.registry import lowers

# --- Products -----------------------------------------------------------------------------


@lowers("tensor.Dot")
def lower_dot(ctx: RuleContext, x: Value, y: Value) -> Value:
    """Return `numpy.dot` of vectors or matrices, computed in the declared dtype."""
    return linalg.dot(x.astype(ctx.dtype), y.astype(ctx.dtype))


@lowers("tensor.MatMul")
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


@lowers("tensor.Convolve")
def lower_convolve(ctx: RuleContext, x: Value, y: Value) -> Value:
    """Return `numpy.convolve` of vectors, computed in the declared dtype."""
    return convolution.convolve(x.astype(ctx.dtype), y.astype(ctx.dtype), ctx.op.mode)


# --- Reductions ---------------------------------------------------------------------------


_REDUCTIONS: dict[str, tuple[reduce.Reduction, Any]] = {
    "scalar.Add": (reduce.sum, 0),
    "scalar.Mul": (reduce.prod, 1),
    "tensor.MulWithoutZeros": (reduce.prod_without_zeros, 0),
    "scalar.Maximum": (reduce.max, reduce.lowest),
    "scalar.Minimum": (reduce.min, reduce.highest),
    "scalar.ScalarMaximum": (reduce.max, reduce.lowest),
    "scalar.ScalarMinimum": (reduce.min, reduce.highest),
    "scalar.AND": (reduce.bitwise_and, lambda dtype: np.array(-1).astype(dtype)),
    "scalar.OR": (reduce.bitwise_or, 0),
    "scalar.XOR": (reduce.bitwise_xor, 0),
}
"""Reductions by the scalar Op, with their neutral elements, which may be functions of the dtype."""
_ACCUMULATING = ("scalar.Add", "scalar.Mul", "tensor.MulWithoutZeros")
"""The results of others are elements, or made of their bits, so no accumulator can matter."""


def reduction_of(op: Any) -> tuple[reduce.Reduction, Any]:
    """Return an Op's reduction and its neutral element."""
    found = entry_of(_REDUCTIONS, type(op.scalar_op))
    assert found is not None  # `_supports` made sure.
    return found


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Return the axes to reduce; a scalar has none, even if the Op names axis 0."""
    if axis is None or rank == 0:
        return tuple(range(rank))
    return tuple(sorted(int(d) % rank for d in np.atleast_1d(axis)))


@lowers("tensor.CAReduce")
def lower_reduction(ctx: RuleContext, x: Value) -> Value:
    """Reduce over axes: accumulate in the Op's ``acc_dtype`` and return its ``dtype``."""
    return reduce_by(ctx, x, axes_of(ctx.op.axis, x.ndim))


def reduce_by(ctx: RuleContext, x: Value, axes: Sequence[int]) -> Value:
    """Return the Op's reduction over these axes."""
    op = ctx.op
    if is_a(op.scalar_op, *_ACCUMULATING):
        x = x.astype(ew.canonical(op.acc_dtype or op.dtype or ctx.dtype))
    return reduction_of(op)[0](x, axes).astype(ctx.dtype)


def _supports(op: Any) -> bool:
    return is_a(op, "tensor.Mean") or is_a(op.scalar_op, *_REDUCTIONS)


lower_reduction.supports = _supports  # type: ignore[attr-defined]


@lowers("tensor.Mean")
def lower_mean(ctx: RuleContext, x: Value) -> Value:
    """Return the mean, computed in float64 for every dtype, as in `Mean.perform`."""
    axes = axes_of(ctx.op.axis, x.ndim)
    total = reduce.sum(x.astype(ew.canonical(np.float64)), axes)
    return (total / math.prod(x.shape[d] for d in axes)).astype(ctx.dtype)


@lowers("tensor.Argmax")
def lower_argmax(ctx: RuleContext, x: Value, *_: Value) -> Value:
    """Return the position of the first maximum over the axes, in row-major order."""
    return reduce.argmax(x, axes_of(ctx.op.axis, x.ndim))


@lowers("tensor.MaxAndArgmax")
def lower_max_and_argmax(ctx: RuleContext, x: Value, *_: Value) -> list[Value]:
    """Return the maximum and its first position over the axes, in row-major order."""
    axes = axes_of(ctx.op.axis, x.ndim)
    return [reduce.max(x, axes), reduce.argmax(x, axes)]


def _in_floats(function: Callable[..., Value], ctx: RuleContext, x: Value) -> Value:
    """Compute in floats; for integers, Aesara declares an integer result, which is truncated."""
    working = ctx.dtype if ctx.dtype.kind in "fc" else ew.canonical(np.float64)
    return function(x.astype(working), axes_of(ctx.op.axis, x.ndim)).astype(ctx.dtype)


@lowers("tensor.Softmax")
def lower_softmax(ctx: RuleContext, x: Value) -> Value:
    """Return the softmax: ``exp(x)``, scaled to sum to 1."""
    return _in_floats(sm.softmax, ctx, x)


@lowers("tensor.LogSoftmax")
def lower_log_softmax(ctx: RuleContext, x: Value) -> Value:
    """Return the logarithm of the softmax."""
    return _in_floats(sm.log_softmax, ctx, x)


@lowers("tensor.SoftmaxGrad")
def lower_softmax_grad(ctx: RuleContext, cotangent: Value, y: Value) -> Value:
    """Return the gradient of the softmax ``y`` as built by `aesara.grad`."""
    working = np.result_type(cotangent.dtype, y.dtype)
    if working == BOOL:  # NumPy sums booleans in int64.
        working = ew.canonical(np.int64)
    cotangent, y = cotangent.astype(working), y.astype(working)
    return sm.softmax_vjp(cotangent, y, axes_of(ctx.op.axis, y.ndim)).astype(ctx.dtype)
