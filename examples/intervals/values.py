"""Intervals, their rounding, and the interpreter without its rules."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprgen.interpreters import STEPWISE, Domain, Interpreter, bind, refuse

ULPS = 16
"""An upper bound on the error of most of XLA's elementary functions on a CPU; rules name others."""
INF = np.inf


@dataclass(frozen=True)
class Interval:
    """Bounds of an array as doubles, its dtype, and where it may be NaN."""

    low: Any
    high: Any
    dtype: Any
    nan: Any

    @property
    def shape(self):
        return np.shape(self.low)

    @property
    def magnitude(self):
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def has_zero(self):
        return (self.low <= 0) & (self.high >= 0)

    @property
    def is_exact(self):
        return bool(np.all((self.low == self.high) & ~self.nan))

    def __contains__(self, x):
        x = np.asarray(x)
        within = (self.low <= x) & (x <= self.high)
        return bool(np.all(within | (np.isnan(x.astype(float)) & self.nan)))


@np.errstate(all="ignore")
def rounded(low, high, dtype, nan=False, ulps=0, error=0):
    """Return bounds that are widened by an error and rounded outwards to a dtype."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    unknown = np.isnan(low) | np.isnan(high)
    low, high = np.where(unknown, -INF, low), np.where(unknown, INF, high)
    if jnp.issubdtype(dtype, jnp.floating):
        info = jnp.finfo(dtype)
        eps, tiny, largest = (float(x) for x in (info.eps, info.tiny, info.max))
        error = error + (tiny if np.any(ulps) else 0)
        low = np.where(np.isfinite(low), low - ulps * eps * np.abs(low) - error, low)
        high = np.where(np.isfinite(high), high + ulps * eps * np.abs(high) + error, high)
        low = np.where((low > 0) & (low < tiny), 0, np.where(low < -largest, -INF, low))
        high = np.where((high < 0) & (high > -tiny), 0, np.where(high > largest, INF, high))
        low = np.where(np.isfinite(low), np.minimum(low, largest), low)
        high = np.where(np.isfinite(high), np.maximum(high, -largest), high)
    elif np.dtype(dtype).kind != "b":
        info, wide = jnp.iinfo(dtype), np.maximum(np.abs(low), np.abs(high)) >= 2.0**53
        low, high = low - wide * np.abs(low) * 1e-15, high + wide * np.abs(high) * 1e-15
        wraps = unknown | (low < float(info.min)) | (high > float(info.max))
        low, high = np.where(wraps, float(info.min), low), np.where(wraps, float(info.max), high)
    nan = np.broadcast_to(nan | unknown & jnp.issubdtype(dtype, jnp.floating), low.shape)
    return Interval(low, high, np.dtype(dtype), nan)


def between(low, high):
    """Return the interval between two arrays of the same dtype."""
    low, high = np.broadcast_arrays(low, high)
    if not jnp.issubdtype(low.dtype, jnp.floating) and low.dtype.kind not in "biu":
        raise TypeError(f"there are no intervals of {low.dtype}.")
    numbers = low.astype(float), high.astype(float)
    return rounded(*numbers, low.dtype, np.isnan(numbers[0]) | np.isnan(numbers[1]))


class Intervals(Domain):
    value_type = Interval

    def lift(self, x, aval):
        x = np.asarray(x, None if jnp.issubdtype(aval.dtype, jax.dtypes.extended) else aval.dtype)
        return between(x, x)

    def choices(self, value):
        return range(int(value.low), int(value.high) + 1)

    def join(self, first, second):
        low, high = np.minimum(first.low, second.low), np.maximum(first.high, second.high)
        return Interval(low, high, first.dtype, first.nan | second.nan)


def exact(x):
    if not x.is_exact:
        raise ValueError("it is not known exactly.")
    return x.low.astype(x.dtype)


def known(context, *operands, **params):
    """Compute operands that are known exactly with XLA: the default rule."""
    if not all(x.is_exact for x in operands):
        refuse(context)
    found = bind(context, *map(exact, operands), **params)
    found = [between(x, x) for x in (found if isinstance(found, list) else [found])]
    found = [rounded(x.low, x.high, x.dtype, x.nan, ULPS) for x in found]
    return found if context.eqn.primitive.multiple_results else found[0]


interval = Interpreter("interval", Intervals(), default=known, programs=STEPWISE)


def made(context, low, high, *operands, nan=False, ulps=ULPS, error=0):
    """Return the result of an equation, which may be NaN where an operand may."""
    (aval,) = context.avals_out
    low, high = (np.broadcast_to(x, aval.shape) for x in (low, high))
    nan = functools.reduce(np.logical_or, [x.nan for x in operands], nan)
    return rounded(low, high, aval.dtype, np.broadcast_to(nan, aval.shape), ulps, error)


def hull(*xs):
    return functools.reduce(np.minimum, xs), functools.reduce(np.maximum, xs)
