"""Numbers that stand for elements: positions in a flattened array, and choices among arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from jaxprgen.emit import elementwise as ew, index as ix, primitives as lax
from jaxprgen.emit.division import remainder
from jaxprgen.emit.values import INT32, INT64, Value, ValueLike, broadcast_to, common_shape, full
from jaxprgen.errors import IndexOutOfBoundsError, ShapeMismatchError


def sizes_of(dims: Value) -> list[Value]:
    """Return the elements of an integer vector as int64 scalars."""
    dtype = ew.canonical(INT64)
    values = dims.static
    if values is not None:
        return [full((), n, dtype) for n in values]
    taken = (ix.take(dims, [i]) for i in range(dims.shape[0]))
    return [n.astype(dtype) for n in taken]


def size_of(sizes: Sequence[Value]) -> Value:
    """Return the number of elements of an array of these sizes."""
    values = [n.fill_value for n in sizes]
    if all(n is not None for n in values):
        return full((), np.prod(values), ew.canonical(INT64))
    return functools.reduce(lambda m, n: m * n, sizes)


def unravel_index(position: Value, sizes: Sequence[Value], order: str) -> list[Value]:
    """Return `numpy.unravel_index` of positions that are in bounds."""
    rest = position.astype(ew.canonical(INT64))
    found: list[Value] = []
    faster = sizes[:0:-1] if order == "C" else sizes[:-1]
    for size in faster:
        found.append(lax.rem(rest, size))
        rest = lax.div(rest, size)
    found.append(rest)
    return found[::-1] if order == "C" else found


def ravel_multi_index(
    index: Sequence[Value], sizes: Sequence[Value], mode: str, order: str
) -> Value:
    """Return `numpy.ravel_multi_index`; mode "raise" takes indices that are in bounds."""
    shape = common_shape(*index)
    wide = [i.astype(ew.canonical(INT64)) for i in index]
    inside = [_inside(i, n, mode) for i, n in zip(wide, sizes, strict=True)]
    pairs = list(zip(inside, sizes, strict=True))
    (position, _), *faster = pairs if order == "C" else pairs[::-1]
    for i, n in faster:
        position = position * n + i
    return broadcast_to(position, shape)


def _inside(index: Value, size: Value, mode: str) -> Value:
    """Move indices into ``range(size)``, as the mode says."""
    if mode == "wrap":
        return remainder(index, size)
    if mode == "raise":
        return index
    n = size.fill_value
    return ew.clip(index, 0, size - 1 if n is None else n - 1)


def within(index: Value, size: ValueLike) -> Value:
    """Return where indices are in ``range(size)``."""
    index = index.astype(ew.canonical(INT64))
    return (index >= 0) & (index < size)


def choose(which: Value, cases: Sequence[Value], mode: str) -> Value:
    """Return `numpy.choose`: ``cases[which]``, elementwise; all operands broadcast.

    Numbers out of bounds are clamped, or wrap around in mode "wrap".

    Raises
    ------
    IndexOutOfBoundsError
        A known number is out of bounds, in mode "raise".
    ShapeMismatchError
        There are no cases.
    """
    if not cases:
        raise ShapeMismatchError("choose: needs at least one array of choices.")
    value, count = which.static, len(cases)
    if mode == "raise" and value is not None:
        wrong = value[(value < 0) | (value >= count)]
        if wrong.size:
            raise IndexOutOfBoundsError(f"Choice {wrong[0]} is out of bounds for {count} choices.")
    which = which.astype(ew.canonical(INT64))
    which = _inside(which, which.like(count), "wrap" if mode == "wrap" else "clip")
    if count == 1:
        return broadcast_to(cases[0], common_shape(which, cases[0]))
    return lax.select_n(which.astype(INT32), *cases)
