"""Quantiles along axes."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import gather, shape
from jaxprgen.emit import sort as sorting
from jaxprgen.emit.values import INT64, Dtype, Value, ValueLike
from jaxprgen.errors import ParameterError, UnknownNameError
from jaxprgen.numpy import ufuncs
from jaxprgen.numpy.arrays import moveaxis
from jaxprgen.numpy.reductions import Axis, axes_of
from jaxprgen.numpy.ufuncs import value_of

__all__ = ["median", "percentile", "quantile"]

_ROUNDED = {"lower": "floor", "higher": "ceil", "nearest": "rint"}
_PLOTTING_POSITIONS = {
    "linear": (1, 1),
    "midpoint": (1, 1),
    "hazen": (1 / 2, 1 / 2),
    "weibull": (0, 0),
    "interpolated_inverted_cdf": (0, 1),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
"""Alpha and beta of continuous methods: R. J. Hyndman and Y. Fan, *Sample quantiles in statistical
packages*, The American Statistician 50 (1996)."""


@functools.lru_cache(maxsize=256)
def _dtype(x: Dtype, q: Any, rank: int, method: str) -> Dtype:
    """Return the dtype of NumPy's result, for the dtype of ``q`` or the type of a Python number."""
    sample = np.ones((1,) * rank, q) if isinstance(q, np.dtype) else q(1)
    of_numpy: Any = np.quantile
    return ew.canonical(of_numpy(np.ones(1, x), sample, method=method).dtype)


def quantile(
    x: ValueLike, q: ValueLike, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Value:
    """Return `numpy.quantile` over some axes, by default over all; along the first axes of ``q``.

    ``method`` is "linear", "lower", "higher", "nearest", "midpoint", "hazen", "weibull",
    "interpolated_inverted_cdf", "median_unbiased" or "normal_unbiased". A ``q`` that is known only
    at run time is moved into [0, 1].

    Raises
    ------
    ParameterError
        A known ``q`` is not in [0, 1].
    """
    if method not in _ROUNDED and method not in _PLOTTING_POSITIONS:
        names = ", ".join([*_PLOTTING_POSITIONS, *_ROUNDED])
        raise UnknownNameError(f"quantile: method must be one of {names}, got {method!r}.")
    x, chosen = value_of(x), value_of(q)
    of_q = type(q) if isinstance(q, (int, float)) else chosen.dtype
    dtype = _dtype(x.dtype, of_q, chosen.ndim, method)
    axes = axes_of(axis, x.ndim)
    last = [*range(x.ndim - len(axes), x.ndim)]
    rows = moveaxis(x, axes, last)
    kept = rows.shape[: x.ndim - len(axes)]
    rows = shape.reshape(rows, (*kept, math.prod(rows.shape[len(kept) :])))
    found = moveaxis(
        _of_rows(rows, chosen, method, dtype),
        [*range(len(kept), len(kept) + chosen.ndim)],
        [*range(chosen.ndim)],
    )
    return shape.expand_dims(found, [d + chosen.ndim for d in axes]) if keepdims else found


def _of_rows(x: Value, q: Value, method: str, dtype: Dtype) -> Value:
    """Return quantiles along the last axis, along new last axes."""
    rank = x.ndim
    x = sorting.sort(x, rank - 1)
    before, after, weight = _neighbours(q, x.shape[-1], method)
    every = [slice(None)] * (rank - 1)
    found = gather.take(x, [*every, before]).astype(dtype)
    if weight is not None:
        rise = gather.take(x, [*every, after]).astype(dtype) - found
        found = found + rise * weight.astype(dtype)
    if x.dtype.kind != "f":
        return found
    has_nan = ew.isnan(gather.take(x, [*every, -1]))
    return ew.where(shape.expand_dims(has_nan, range(rank - 1, found.ndim)), np.nan, found)


def _neighbours(q: Value, count: int, method: str) -> tuple[Value, Value, Value | None]:
    """Return the positions to interpolate between, and the weight of the second one."""
    known = q.static
    if known is not None and not ((known >= 0) & (known <= 1)).all():
        raise ParameterError(f"quantile: q must be in [0, 1], got {known.tolist()}.")
    # Known numbers are computed with here, by NumPy's functions of the same names.
    np_: Any = ufuncs if known is None else np
    index: Any = (q if known is None else known).astype(ew.canonical(np.float64))
    alpha, beta = _PLOTTING_POSITIONS.get(method, (1, 1))
    index = index * (count + 1 - alpha - beta) + (alpha - 1)
    index = np_.clip(index, 0, count - 1)
    if method in _ROUNDED:
        index = getattr(np_, _ROUNDED[method])(index)
    before, after = np_.floor(index), np_.ceil(index)
    weight = value_of(index - before)
    if method == "midpoint":
        weight = value_of((before + after) / 2 - before)
    first, second = (value_of(i.astype(ew.canonical(INT64))) for i in (before, after))
    return first, second, None if method in _ROUNDED else weight


def percentile(
    x: ValueLike, q: ValueLike, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Value:
    """Return `numpy.percentile`: the `quantile` of ``q / 100``."""
    return quantile(x, q / 100, axis, method, keepdims)


def median(x: ValueLike, axis: Axis = None, keepdims: bool = False) -> Value:
    """Return `numpy.median` over some axes, by default over all."""
    x = value_of(x)
    x = x.astype(ew.canonical(np.median(np.ones(1, x.dtype)).dtype))
    return quantile(x, 0.5, axis, keepdims=keepdims).astype(x.dtype)
