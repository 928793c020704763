"""Reductions over axes, and running sums and products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew, primitives as lax
from jaxprgen.emit.shape import expand_dims, reshape, transpose
from jaxprgen.emit.values import BOOL, INT8, INT64, Dtype, Value
from jaxprgen.errors import ShapeMismatchError

Reduction = Callable[[Value, Sequence[int]], Value]


def _require_elements(x: Value, axes: Sequence[int], what: str) -> None:
    if any(x.shape[d] == 0 for d in axes):
        text = f"The {what} over axes {tuple(axes)} of shape {x.shape} has no elements to choose "
        raise ShapeMismatchError(f"{text}from.")


def _reduction(number: Any, boolean: Any = None) -> Reduction:
    def emit(x: Value, axes: Sequence[int]) -> Value:
        if not axes:
            return x
        construct = boolean if boolean is not None and x.dtype == BOOL else number
        return construct(x, tuple(axes))

    return emit


sum = _reduction(lax.reduce_sum, lax.reduce_or)
prod = _reduction(lax.reduce_prod, lax.reduce_and)
bitwise_and = _reduction(lax.reduce_and)
bitwise_or = _reduction(lax.reduce_or)
bitwise_xor = _reduction(lax.reduce_xor)


def _extremum(number: Any, boolean: Any, name: str) -> Reduction:
    reduction = _reduction(number, boolean)

    def emit(x: Value, axes: Sequence[int]) -> Value:
        _require_elements(x, axes, name)
        result = reduction(x, axes)
        if x.dtype.kind != "c":
            return result
        # XLA orders complex numbers as NumPy does, but ignores NaN.
        return ew.where(bitwise_or(ew.isnan(x), axes), np.nan, result)

    emit.__doc__ = f"Return the {name} over axes; NaN where an element is NaN."
    return emit


max = _extremum(lax.reduce_max, lax.reduce_or, "maximum")
min = _extremum(lax.reduce_min, lax.reduce_and, "minimum")


def lowest(dtype: Dtype) -> Any:
    """Return the neutral element of `max`: the smallest number, or minus infinity."""
    if dtype == BOOL:
        return False
    return -np.inf if dtype.kind in "fc" else np.iinfo(dtype).min


def highest(dtype: Dtype) -> Any:
    """Return the neutral element of `min`: the largest number, or infinity."""
    if dtype == BOOL:
        return True
    return np.inf if dtype.kind in "fc" else np.iinfo(dtype).max


def prod_without_zeros(x: Value, axes: Sequence[int]) -> Value:
    """Return the product of the nonzero elements; 0 if there is none."""
    if not axes:
        return x
    zero = ew.equal(x, 0)
    product = prod(ew.where(zero, 1, x), axes)
    return ew.where(bitwise_and(zero, axes), 0, product)


def argmax(x: Value, axes: Sequence[int]) -> Value:
    """Return the position of the first largest element over axes, in row-major order.

    NaN counts as largest, as in NumPy. The result is int64 (int32 where x64 is off).

    Raises
    ------
    ShapeMismatchError
        One of the axes is empty.
    """
    _require_elements(x, axes, "position of the maximum")
    shape = x.shape
    kept = [d for d in range(len(shape)) if d not in axes]
    rows = transpose(x, (*kept, *axes))
    flat = reshape(rows, (*(shape[d] for d in kept), math.prod(shape[d] for d in axes)))
    if flat.dtype.kind == "c":  # Find the first element that equals the largest, or is NaN.
        largest = expand_dims(max(flat, (len(kept),)), [len(kept)])
        flat = ew.equal(flat, largest) | ew.isnan(flat)
    if flat.dtype == BOOL:
        flat = flat.astype(INT8)
    return lax.argmax(flat, len(kept), ew.canonical(INT64))


# --- Running totals -----------------------------------------------------------------------


def _cumulative(number: Any, boolean: Any) -> Callable[[Value, int], Value]:
    def emit(x: Value, axis: int) -> Value:
        if x.dtype != BOOL:
            return number(x, axis)
        return boolean(x.astype(INT8), axis).astype(BOOL)

    emit.__name__ = emit.__qualname__ = number.__name__
    emit.__doc__ = (
        f"Return `numpy.{number.__name__}` in the operand's dtype, which may wrap; of booleans, "
        "it is the running maximum or minimum."
    )
    return emit


cumsum = _cumulative(lax.cumsum, lax.cummax)
cumprod = _cumulative(lax.cumprod, lax.cummin)
