"""Functions of numbers that overflow or underflow, by their logarithms."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit import reduce
from jaxprgen.emit.formula import formula
from jaxprgen.emit.shape import expand_dims
from jaxprgen.emit.softmax import centre
from jaxprgen.emit.transcendental import log1mexp
from jaxprgen.emit.values import Value, where
from jaxprgen.special.error_functions import erfcx


@formula
def log_erfc(x: Value) -> Value:
    """Return ``log(erfc(x))``, also where ``erfc(x)`` underflows or is close to one."""
    small = ew.log1p(-lax.erf(ew.minimum(x, 0.5)))
    large = ew.maximum(x, 0.5)
    return where(x < 0.5, small, ew.log(erfcx(large)) - large * large)


@formula
def exp_over_erfc(x: Value) -> Value:
    """Return ``exp(-x²) / erfc(x)``, also where both underflow."""
    small, large = ew.minimum(x, 0.5), ew.maximum(x, 0.5)
    return where(x < 0.5, ew.exp(-small * small) / lax.erfc(small), 1 / erfcx(large))


@formula
def logaddexp(x: Value, y: Value) -> Value:
    """Return ``log(exp(x) + exp(y))`` without overflow, also for equal infinities."""
    larger, smaller = ew.maximum(x, y), ew.minimum(x, y)
    gap = where(ew.equal(larger, smaller), 0, smaller - larger)
    return larger + ew.log1p(ew.exp(gap))


@formula
def logsubexp(x: Value, y: Value) -> Value:
    """Return ``log(exp(x) - exp(y))`` without overflow; -inf where ``x`` and ``y`` are equal."""
    gap = where(ew.equal(x, y), 0, y - x)
    return x + log1mexp(gap)


def logsumexp(x: Value, axes: Sequence[int]) -> Value:
    """Return ``log(sum(exp(x)))`` over axes, without overflow."""
    _, total, largest = _powers(x, axes)
    return ew.log(total) + largest


def softmax_times(x: Value, y: Value, axes: Sequence[int]) -> Value:
    """Return ``y`` times the softmax of ``x``, for a ``y`` without these axes, or a scalar."""
    factor = expand_dims(y, axes) if y.shape else y
    powers, total, _ = _powers(x, axes)
    return factor * (powers / expand_dims(total, axes))


def _powers(x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """Return ``exp(x)`` and its sum, divided by the exponential of a shift, and the shift."""
    largest = centre(x, axes)
    powers = ew.exp(x - expand_dims(largest, axes))
    return powers, reduce.sum(powers, axes), largest
