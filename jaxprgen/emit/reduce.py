"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.shape import expand_dims, reshape, transpose
from jaxprgen.emit.values import BOOL, INT64, Value, atom, dtype_of, like, shape_of
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax

Reduction = Callable[[Builder, Value, Sequence[int]], Value]


def _reduction(number: Any, boolean: Any = None, *, needs_elements: str = "") -> Reduction:
    def emit(b: Builder, x: Value, axes: Sequence[int]) -> Value:
        if needs_elements and any(shape_of(x)[d] == 0 for d in axes):
            raise ShapeMismatchError(
                f"The {needs_elements} over axes {tuple(axes)} of shape {shape_of(x)} has no "
                "elements to choose from."
            )
        if not axes:
            return x
        construct = boolean if boolean is not None and dtype_of(x) == BOOL else number
        return construct(b, atom(b, x), tuple(axes))

    return emit


sum = _reduction(lax.reduce_sum, lax.reduce_or)
prod = _reduction(lax.reduce_prod, lax.reduce_and)
bitwise_and = _reduction(lax.reduce_and)
bitwise_or = _reduction(lax.reduce_or)
bitwise_xor = _reduction(lax.reduce_xor)


def _extremum(number: Any, boolean: Any, name: str) -> Reduction:
    reduction = _reduction(number, boolean, needs_elements=name)

    def emit(b: Builder, x: Value, axes: Sequence[int]) -> Value:
        result = reduction(b, x, axes)
        if dtype_of(x).kind != "c":
            return result
        # XLA orders complex numbers as NumPy does, but passes over NaN.
        missing = bitwise_or(b, ew.isnan(b, x), axes)
        return ew.where(b, missing, like(x, np.nan), result)

    emit.__doc__ = f"The {name}; NaN where one of the elements is."
    return emit


max = _extremum(lax.reduce_max, lax.reduce_or, "maximum")
min = _extremum(lax.reduce_min, lax.reduce_and, "minimum")


def prod_without_zeros(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """The product of the elements that are not zero; 0 where all are (or there are none)."""
    zero = ew.equal(b, x, like(x, 0))
    product = prod(b, ew.where(b, zero, like(x, 1), x), axes)
    if not axes:
        return x
    all_zero = bitwise_and(b, zero, axes)
    return ew.where(b, all_zero, like(x, 0), product)


def argmax(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """The position of the first largest element among the named axes in row-major order.

    NaN counts as largest, as in NumPy. The result is int64 (int32 where x64 is off).
    """
    shape = shape_of(x)
    if any(shape[d] == 0 for d in axes):
        raise ShapeMismatchError(
            f"The position of the maximum over axes {tuple(axes)} of shape {shape} has no "
            "elements to choose from."
        )
    kept = [d for d in range(len(shape)) if d not in axes]
    rows = transpose(b, x, (*kept, *axes))
    flat = reshape(b, rows, (*(shape[d] for d in kept), int(np.prod([shape[d] for d in axes]))))
    if dtype_of(flat).kind == "c":  # The first element that is as large as the largest, or NaN.
        largest = expand_dims(b, max(b, flat, (len(kept),)), [len(kept)])
        flat = ew.bitwise_or(b, ew.equal(b, flat, largest), ew.isnan(b, flat))
    if dtype_of(flat) == BOOL:
        flat = ew.convert(b, flat, np.dtype(np.int8))
    return lax.argmax(b, atom(b, flat), len(kept), ew.canonical(INT64))
