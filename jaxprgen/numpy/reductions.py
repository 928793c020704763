"""Reductions over axes, running totals, and sorting."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import reduce
from jaxprgen.emit import sort as sorting
from jaxprgen.emit.shape import axis_of, expand_dims, reshape, slice_axis
from jaxprgen.emit.values import Dtype, Value, ValueLike
from jaxprgen.numpy.ufuncs import promoted, value_of

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "cumprod",
    "cumsum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "ptp",
    "searchsorted",
    "sort",
    "std",
    "sum",
    "var",
]

Axis = int | Sequence[int] | None


@functools.lru_cache(maxsize=256)
def _dtype(name: str, dtype: Dtype) -> Dtype:
    """Return the dtype of NumPy's result for an array of this dtype."""
    return ew.canonical(getattr(np, name)(np.ones(1, dtype)).dtype)


def axes_of(axis: Axis, rank: int) -> tuple[int, ...]:
    """Return the axes to reduce, counted from the first: all for None."""
    if axis is None:
        return tuple(range(rank))
    axes = [axis] if isinstance(axis, int) else axis
    return tuple(sorted(axis_of(d, rank) for d in axes))


Reduction = Callable[..., Value]


def _reduction(
    name: str, emit: Callable[[Value, Sequence[int]], Value], convert: bool = False
) -> Reduction:
    """Return a reduction; ``convert`` says whether it computes in the dtype of its result."""

    def function(x: ValueLike, axis: Axis = None, keepdims: bool = False) -> Value:
        x = value_of(x)
        axes = axes_of(axis, x.ndim)
        found = emit(x.astype(_dtype(name, x.dtype)) if convert else x, axes)
        return expand_dims(found, axes) if keepdims else found

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return `numpy.{name}` over some axes, by default over all."
    return function


sum = _reduction("sum", reduce.sum, convert=True)
prod = _reduction("prod", reduce.prod, convert=True)
max = _reduction("max", reduce.max)
min = _reduction("min", reduce.min)
all = _reduction("all", lambda x, axes: reduce.bitwise_and(ew.truth(x), axes))
any = _reduction("any", lambda x, axes: reduce.bitwise_or(ew.truth(x), axes))
ptp = _reduction("ptp", lambda x, axes: reduce.max(x, axes) - reduce.min(x, axes))


def mean(x: ValueLike, axis: Axis = None, keepdims: bool = False) -> Value:
    """Return `numpy.mean` over some axes, by default over all."""
    x = value_of(x)
    axes = axes_of(axis, x.ndim)
    dtype = _dtype("mean", x.dtype)
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype  # As NumPy does.
    total = sum(x.astype(wide), axes, keepdims)
    return (total / math.prod(x.shape[d] for d in axes)).astype(dtype)


def var(x: ValueLike, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Value:
    """Return `numpy.var` over some axes: mean squares of deviations from the mean."""
    x = value_of(x)
    axes = axes_of(axis, x.ndim)
    dtype = _dtype("var", x.dtype)
    x = x.astype(np.dtype(np.float32)) if dtype == np.float16 else x
    deviation = x - mean(x, axes, keepdims=True)
    squares = ew.square(deviation)
    if deviation.dtype.kind == "c":
        squares = ew.square(ew.real(deviation)) + ew.square(ew.imag(deviation))
    count = math.prod(x.shape[d] for d in axes) - ddof
    return (sum(squares, axes, keepdims) / count).astype(dtype)


def std(x: ValueLike, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Value:
    """Return `numpy.std` over some axes: the square root of `var`."""
    return ew.sqrt(var(x, axis, ddof, keepdims))


def argmax(x: ValueLike, axis: int | None = None) -> Value:
    """Return the position of the first largest element, or NaN; of the flat array by default."""
    x = value_of(x)
    return reduce.argmax(x, axes_of(axis, x.ndim))


def argmin(x: ValueLike, axis: int | None = None) -> Value:
    """Return the position of the first smallest element, or NaN; of the flat array by default."""
    x = value_of(x)
    return reduce.argmax(-x if x.dtype.kind in "fc" else ~x, axes_of(axis, x.ndim))


def _cumulative(name: str, emit: Callable[[Value, int], Value]) -> Reduction:
    def function(x: ValueLike, axis: int | None = None) -> Value:
        x = value_of(x)
        x = x.astype(_dtype(name, x.dtype))
        if axis is None:
            return emit(reshape(x, (-1,)), 0)
        return emit(x, axis_of(axis, x.ndim))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return `numpy.{name}` along an axis, by default of the flat array."
    return function


cumsum = _cumulative("cumsum", reduce.cumsum)
cumprod = _cumulative("cumprod", reduce.cumprod)


def diff(x: ValueLike, axis: int = -1) -> Value:
    """Return differences of neighbours along an axis."""
    x = value_of(x)
    axis = axis_of(axis, x.ndim)
    size = x.shape[axis]
    later = slice_axis(x, axis, builtins.min(1, size), size)
    earlier = slice_axis(x, axis, 0, builtins.max(size - 1, 0))
    return later ^ earlier if x.dtype.kind == "b" else later - earlier


def sort(x: ValueLike, axis: int = -1) -> Value:
    """Return the elements in ascending order along an axis, NaN last."""
    x = value_of(x)
    return sorting.sort(x, axis_of(axis, x.ndim))


def argsort(x: ValueLike, axis: int = -1) -> Value:
    """Return positions that sort an axis; equal elements keep their order."""
    x = value_of(x)
    return sorting.argsort(x, axis_of(axis, x.ndim))


def searchsorted(a: ValueLike, v: ValueLike, side: str = "left") -> Value:
    """Return the positions at which to insert ``v`` into a sorted vector ``a``."""
    a, v = promoted(a, v)
    return sorting.searchsorted(a, v, right=side == "right")
