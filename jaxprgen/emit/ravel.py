"""Positions in an array that is read as one row, and the indices that they stand for."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit import reduce
from jaxprgen.emit.division import remainder
from jaxprgen.emit.values import (
    INT64,
    Value,
    broadcast_shapes,
    broadcast_to,
    elementwise,
    known,
    shape_of,
    splat_value,
)
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def sizes_of(b: Builder, dims: Value) -> list[Value]:
    """The elements of an integer vector, in int64."""
    dtype = ew.canonical(INT64)
    values = known(dims)
    if values is not None:
        return [np.asarray(n, dtype) for n in values]
    taken = (ix.take(b, dims, [i]) for i in range(shape_of(dims)[0]))
    return [ew.convert(b, n, dtype) for n in taken]


def size_of(b: Builder, sizes: Sequence[Value]) -> Value:
    """How many elements an array of these sizes has."""
    values = [splat_value(n) for n in sizes]
    if all(n is not None for n in values):
        return np.asarray(np.prod(values), ew.canonical(INT64))
    return functools.reduce(lambda m, n: ew.multiply(b, m, n), sizes)


def unravel_index(b: Builder, position: Value, sizes: Sequence[Value], order: str) -> list[Value]:
    """`numpy.unravel_index` of positions that are inside."""
    rest = ew.convert(b, position, ew.canonical(INT64))
    found: list[Value] = []
    faster = sizes[:0:-1] if order == "C" else sizes[:-1]
    for size in faster:
        found.append(elementwise(b, lax.rem, rest, size))
        rest = elementwise(b, lax.div, rest, size)
    found.append(rest)
    return found[::-1] if order == "C" else found


def ravel_multi_index(
    b: Builder, index: Sequence[Value], sizes: Sequence[Value], mode: str, order: str
) -> Value:
    """`numpy.ravel_multi_index`; in mode "raise" the indices must be inside."""
    shape = broadcast_shapes(*map(shape_of, index))
    wide = [ew.convert(b, i, ew.canonical(INT64)) for i in index]
    inside = [_inside(b, i, n, mode) for i, n in zip(wide, sizes, strict=True)]
    pairs = list(zip(inside, sizes, strict=True))
    (position, _), *faster = pairs if order == "C" else pairs[::-1]
    for i, n in faster:
        position = ew.add(b, ew.multiply(b, position, n), i)
    return broadcast_to(b, position, shape)


def _inside(b: Builder, index: Value, size: Value, mode: str) -> Value:
    if mode == "wrap":
        return remainder(b, index, size)
    if mode == "raise":
        return index
    zero, one = (np.asarray(n, ew.canonical(INT64)) for n in (0, 1))
    n = splat_value(size)
    last = ew.subtract(b, size, one) if n is None else np.asarray(n - 1)
    return ew.clip(b, index, zero, last)


def within(b: Builder, index: Value, size: Value) -> Value:
    """Whether all indices lie in ``range(size)``, as a boolean scalar."""
    index = ew.convert(b, index, ew.canonical(INT64))
    low = ew.greater_equal(b, index, np.asarray(0, ew.canonical(INT64)))
    both = ew.bitwise_and(b, low, ew.less(b, index, size))
    return reduce.bitwise_and(b, both, range(len(shape_of(both))))
