"""Logarithms of what may be too large, or too small, for a number."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import expression as fx
from jaxprgen.emit import reduce
from jaxprgen.emit.expression import Expression, call, formula, where
from jaxprgen.emit.shape import expand_dims
from jaxprgen.emit.softmax import centre
from jaxprgen.emit.values import Value, shape_of
from jaxprgen.ir import Builder
from jaxprgen.special.error_functions import erfcx


@formula
def log_erfc(x: Expression) -> Expression:
    """``log(erfc(x))``, also where ``erfc(x)`` is too small for a number, or close to one."""
    small = fx.log1p(-fx.erf(fx.minimum(x, 0.5)))
    large = fx.maximum(x, 0.5)
    return where(x < 0.5, small, fx.log(call(erfcx, large)) - large * large)


@formula
def exp_over_erfc(x: Expression) -> Expression:
    """``exp(-x²) / erfc(x)``, also where both are too small for a number."""
    small, large = fx.minimum(x, 0.5), fx.maximum(x, 0.5)
    return where(x < 0.5, fx.exp(-small * small) / fx.erfc(small), 1 / call(erfcx, large))


@formula
def logaddexp(x: Expression, y: Expression) -> Expression:
    """``log(exp(x) + exp(y))`` without overflow, of equal infinities as well."""
    larger, smaller = fx.maximum(x, y), fx.minimum(x, y)
    gap = where(larger.equals(smaller), 0, smaller - larger)
    return larger + fx.log1p(fx.exp(gap))


def logsumexp(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """``log(sum(exp(x)))`` over the axes, without overflow."""
    _, total, largest = _powers(b, x, axes)
    return ew.add(b, ew.log(b, total), largest)


def softmax_times(b: Builder, x: Value, y: Value, axes: Sequence[int]) -> Value:
    """``exp(x)`` times ``y`` over its sum, where ``y`` has not these axes, or is a number."""
    factor = expand_dims(b, y, axes) if shape_of(y) else y
    powers, total, _ = _powers(b, x, axes)
    return ew.multiply(b, factor, ew.divide(b, powers, expand_dims(b, total, axes)))


def _powers(b: Builder, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """``exp(x)`` and its sum, both over the exponential of the last, which is about the largest."""
    largest = centre(b, x, axes)
    powers = ew.exp(b, ew.subtract(b, x, expand_dims(b, largest, axes)))
    return powers, reduce.sum(b, powers, axes), largest
