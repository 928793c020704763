"""Functions of numbers that overflow or underflow, by their logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jaxprgen.emit import elementwise as ew, primitives as lax, reduce
from jaxprgen.emit.formula import formula
from jaxprgen.emit.shape import concatenate, expand_dims
from jaxprgen.emit.softmax import centre
from jaxprgen.emit.transcendental import log1mexp, slope_of_logistic, tail
from jaxprgen.emit.values import Value, full, where
from jaxprgen.special.error_functions import erfcx_from_zero, erfcx_terms


def _split(x: Value) -> tuple[Value, Value, Value]:
    """Return where ``x`` is below 0.25, and ``x`` limited to about there and about elsewhere.

    No bound is a tie where the choice changes, which would halve the derivative. Beyond 0.3,
    `log1p` of ``-erf(x)`` may be inaccurate; see `log1mexp`.
    """
    return x < 0.25, ew.minimum(x, 0.375), ew.maximum(x, 0.125)


@formula
def exp_over_erfc(x: Value) -> Value:
    """Return ``exp(-x²) / erfc(x)``, also where both underflow."""
    is_small, small, large = _split(x)
    far, above = erfcx_terms(large)
    below = 1 - lax.erf(small)  # Shared with `log_erfc`.
    # XLA keeps the result of a division; without one, each kernel that reads it computes all again.
    return where(is_small, ew.exp(-small * small), above) / where(is_small, below, far)


def _slope_of_log_erfc(x: Value) -> Value:
    return exp_over_erfc(x) * (-2 / math.sqrt(math.pi))


def _log_erfc(x: Value) -> Value:
    """Return ``log(erfc(x))``, also where ``erfc(x)`` underflows or is close to one."""
    is_small, small, large = _split(x)
    far = ew.log(erfcx_from_zero(large)) - large * large
    return where(is_small, ew.log1p(-lax.erf(small)), far)


log_erfc = formula(_log_erfc, _slope_of_log_erfc)


def _log_half_erfc(x: Value) -> Value:
    """Return ``log(erfc(x) / 2)``, the normal log-cdf, also where it is close to zero."""
    is_small, small, large = _split(x)
    far = ew.log(erfcx_from_zero(large) * 0.5) - large * large
    return where(is_small, ew.log1p(-0.5 * lax.erfc(-small)), far)


log_half_erfc = formula(_log_half_erfc, _slope_of_log_erfc)


def _logaddexp(x: Value, y: Value) -> Value:
    """Return ``log(exp(x) + exp(y))`` without overflow, also for equal infinities."""
    larger, smaller = ew.maximum(x, y), ew.minimum(x, y)
    gap = where(ew.equal(larger, smaller), 0, smaller - larger)
    return larger + ew.log1p(ew.exp(gap))


def _slope_of_logaddexp(x: Value, y: Value) -> Value:
    is_same = ew.equal(x, y) & ew.equal(abs(x), np.inf)
    return lax.logistic(where(is_same, 0, x - y))


logaddexp = formula(_logaddexp, _slope_of_logaddexp, lambda x, y: _slope_of_logaddexp(y, x))


@formula
def logsubexp(x: Value, y: Value) -> Value:
    """Return ``log(exp(x) - exp(y))`` without overflow; -inf where ``x`` and ``y`` are equal."""
    gap = where(ew.equal(x, y), 0, y - x)
    return x + log1mexp(gap)


@formula
def exp_of_sum(x: Value, y: Value) -> Value:
    """Return ``exp(x) exp(y)``, also where one of them overflows and the other underflows.

    The rounding error of ``x + y`` is computed exactly: D. E. Knuth, *The Art of Computer
    Programming* 2, section 4.2.2, theorem B.
    """
    total = x + y
    part = total - x
    rest = (x - (total - part)) + (y - part)
    rest = ew.stop_gradient(rest)
    return ew.exp(total) * (1 + where(abs(rest) < 1, rest, 0))


def _log_scaled(y: Value, x: Value) -> Value:
    """Return ``log(y exp(x))``, also where the exponential or the product is out of range.

    Its derivatives are those of ``log(y) + x``, also where the value is NaN.
    """
    power = ew.exp(x)
    direct = y * power
    ok = _in_range(power) & _in_range(direct)
    return ew.log(where(ok, direct, y)) + where(ok, 0, x)


log_scaled = formula(_log_scaled, lambda y, x: 1 / y, lambda y, x: y.like(1))


def log_prod(x: Value, axes: Sequence[int]) -> Value:
    """Return ``log(prod(x))`` over axes, also where the product is out of range."""
    direct = reduce.prod(x, axes)
    other = reduce.sum(ew.log(abs(x)), axes)
    ok = _in_range(direct) | (direct < 0)
    return where(ok, ew.log(where(ok, direct, 1)), other)


def log_power(x: Value, y: int) -> Value:
    """Return ``log(x ** y)`` for an integer ``y``, also where the power is out of range."""
    return ew.log(x if y % 2 else abs(x)) * y


def _in_range(x: Value) -> Value:
    """Return where positive numbers neither overflowed nor underflowed."""
    limits = np.finfo(x.dtype)
    return (x >= x.like(limits.tiny)) & (x <= x.like(limits.max))


@formula
def slope_of_log1mexp(x: Value) -> Value:
    """Return ``-1 / expm1(x)``; where ``x`` is infinite, a zero that `SinkZeros` sees."""
    return where(ew.equal(x, np.inf), 0, 1 / -ew.expm1(x))


def _logistic_difference(x: Value, y: Value) -> Value:
    """Return ``logistic(x) - logistic(y)`` without cancellation, also for equal infinities.

    With ``s = logistic``, it is ``tanh((x - y) / 2) * (s(x) s(-y) + s(-x) s(y))``.
    """
    (x_up, x_down), (y_up, y_down) = (
        (where(z < 0, tail(z), 1), where(z > 0, tail(z), 1)) for z in (x, y)
    )
    gap = where(ew.equal(x, y), 0, x - y)
    both = (1 + tail(x)) * (1 + tail(y))
    return ew.tanh(gap * 0.5) * ((x_up * y_down + x_down * y_up) / both)


logistic_difference = formula(
    _logistic_difference,
    lambda x, y: slope_of_logistic(x),
    lambda x, y: -slope_of_logistic(y),
)


def cumulative(low: Value, x: Value, high: Value, dimension: int) -> Value:
    """Return ``logistic(x)`` between zeros and ones, which are logistic functions as well."""
    ends = (full(end.shape, n, x.dtype) for end, n in ((low, -np.inf), (high, np.inf)))
    first, last = ends
    return lax.logistic(concatenate([first, x, last], dimension))


def logsumexp(x: Value, axes: Sequence[int]) -> Value:
    """Return ``log(sum(exp(x)))`` over axes, without overflow."""
    _, total, largest = _powers(x, axes)
    return ew.log(total) + largest


def softmax_times(x: Value, y: Value, axes: Sequence[int]) -> Value:
    """Return ``y`` times the softmax of ``x``, for a ``y`` without these axes, or a scalar."""
    factor = expand_dims(y, axes) if y.shape else y
    powers, total, _ = _powers(x, axes)
    return factor * (powers / expand_dims(total, axes))


def softmax_times_sum(x: Value, y: Value, axes: Sequence[int]) -> Value:
    """Return the sum of ``y``, an array of the shape of ``x``, times the softmax of ``x``.

    It is divided before it is summed, so that it overflows only if the largest product does.
    """
    powers, total, _ = _powers(x, axes)
    return powers * expand_dims(reduce.sum(y / expand_dims(total, axes), axes), axes)


def _powers(x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """Return ``exp(x)`` and its sum, divided by the exponential of a shift, and the shift."""
    largest = centre(x, axes)
    powers = ew.exp(x - expand_dims(largest, axes))
    return powers, reduce.sum(powers, axes), largest
