"""The elements where a mask is true, if only the program that runs knows how many there are.

They are kept where they are, and the mask beside them: what is done to every element is done to
all, and what is made of all elements leaves out the others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit import reduce
from jaxprgen.emit.cumulative import cumsum
from jaxprgen.emit.ravel import unravel_index
from jaxprgen.emit.shape import expand_dims, reshape, stack
from jaxprgen.emit.values import (
    INT64,
    Array,
    Value,
    atom,
    broadcast_to,
    dtype_of,
    like,
    shape_of,
    size_of,
    splat_value,
)
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


@final
class Selected(NamedTuple):
    """What a mask selects, on one axis: ``values`` where ``mask`` is true.

    The axes of the mask stand in ``values`` in place of ``axis``. ``refuse`` raises the error of
    one who needs to know how many there are.
    """

    values: Value
    mask: Value
    axis: int
    refuse: Callable[[], Exception]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(shape_of(self.values)) - len(shape_of(self.mask)) + 1

    def full_axes(self, axes: Sequence[int]) -> list[int]:
        """The axes of ``values`` that stand for these."""
        count = len(shape_of(self.mask))
        return [
            e
            for d in axes
            for e in (
                range(d, d + count) if d == self.axis else [d if d < self.axis else d + count - 1]
            )
        ]


def select(
    b: Builder, x: Value, mask: Value, axis: int, refuse: Callable[[], Exception]
) -> Selected:
    """``x[mask]``, where the mask is for the axes of ``x`` from one on.

    The elements that are not selected become one that is, which no function is applied to in
    vain: so neither errors nor derivatives that are not finite come from them.
    """
    count, shape = len(shape_of(mask)), shape_of(x)
    if 0 in shape_of(mask) or splat_value(x) is not None:
        return Selected(x, mask, axis, refuse)
    rows = reshape(b, x, (*shape[:axis], size_of(mask), *shape[axis + count :]))
    first = reduce.argmax(b, reshape(b, mask, (-1,)), [0])
    one = ix.take(b, rows, [*[slice(None)] * axis, first])  # type: ignore[list-item]
    one = expand_dims(b, lax.stop_gradient(b, one), range(axis, axis + count))  # type: ignore[arg-type]
    where = _spread(b, mask, axis, len(shape))
    return Selected(ew.where(b, where, x, broadcast_to(b, one, shape)), mask, axis, refuse)


def places(b: Builder, mask: Value, refuse: Callable[[], Exception]) -> list[Selected]:
    """Where a mask is true, as one vector of indices for each of its axes: `numpy.nonzero`."""
    shape = shape_of(mask)
    every = np.meshgrid(*map(np.arange, shape), indexing="ij", sparse=True)
    dtype = ew.canonical(INT64)
    return [select(b, broadcast_to(b, i.astype(dtype), shape), mask, 0, refuse) for i in every]


def _spread(b: Builder, mask: Value, axis: int, rank: int) -> Value:
    """A mask of some axes, for all axes of an array."""
    own = range(axis, axis + len(shape_of(mask)))
    return expand_dims(b, mask, [d for d in range(rank) if d not in own])


def count(b: Builder, mask: Value) -> Value:
    """How many elements a mask selects; int64 (int32 where x64 is off)."""

    def counted() -> tuple[Value, Value]:
        ones = ew.convert(b, mask, ew.canonical(INT64))
        return reduce.sum(b, ones, range(len(shape_of(mask)))), mask

    return b.once(("count", id(mask)), counted)[0]


def count_is(b: Builder, mask: Value, number: int) -> None:
    """Take it as known how many elements a mask selects."""
    found: Value = np.asarray(number, ew.canonical(INT64))
    b.once(("count", id(mask)), lambda: (found, mask))


def positions(b: Builder, mask: Value) -> Value:
    """The position of every element of the mask among those it selects, if it does; else any."""
    ones = ew.convert(b, reshape(b, mask, (-1,)), ew.canonical(INT64))
    before = ew.subtract(b, cumsum(b, ones, 0), like(ones, 1))
    return reshape(b, ew.maximum(b, before, like(before, 0)), shape_of(mask))


def position(b: Builder, x: Selected, axes: Sequence[int], where: Value) -> Value:
    """The position over some axes, in row-major order, of a position over their ``values``."""
    full, dtype = x.full_axes(axes), dtype_of(where)
    sizes = {d: np.asarray(shape_of(x.values)[d], dtype) for d in full}
    index = dict(zip(full, unravel_index(b, where, list(sizes.values()), "C"), strict=True))
    found: Value = np.asarray(0, dtype)
    for d in axes:
        own = x.full_axes([d])
        step = functools.reduce(
            lambda i, e: ew.add(b, ew.multiply(b, i, sizes[e]), index[e]), own[1:], index[own[0]]
        )
        size: Value = sizes[own[0]]
        if d == x.axis:
            size, before = count(b, x.mask), reshape(b, positions(b, x.mask), (-1,))
            rank = len(shape_of(step))
            places = atom(b, expand_dims(b, step, [rank]))
            step = lax.gather(b, atom(b, before), places, [0], range(rank), in_bounds=True)
        found = ew.add(b, ew.multiply(b, found, size), step)
    return found


def shape(b: Builder, x: Selected) -> Value:
    """The sizes of all axes."""
    full = shape_of(x.values)
    sizes: list[Value] = [
        count(b, x.mask) if d == x.axis else np.asarray(full[x.full_axes([d])[0]], np.int64)
        for d in range(x.rank)
    ]
    return stack(b, [ew.convert(b, n, ew.canonical(INT64)) for n in sizes])


def filled(b: Builder, x: Selected, value: Array) -> Value:
    """All elements, with a value for those that are not selected."""
    where = _spread(b, x.mask, x.axis, len(shape_of(x.values)))
    return ew.where(b, where, x.values, np.asarray(value, dtype_of(x.values)))


def alike(b: Builder, xs: Sequence[Value | Selected]) -> tuple[list[Value], Selected]:
    """Arrays of one rank as they broadcast with the first that is selected, and that one.

    Raises
    ------
    Exception
        Other masks select others, or another array has as many elements as are selected.
    """
    first = next(x for x in xs if type(x) is Selected)
    count = len(shape_of(first.mask))
    found: list[Value] = []
    for x in xs:
        if type(x) is Selected:
            if x.mask is not first.mask or x.axis != first.axis:
                raise x.refuse()
            found.append(x.values)
            continue
        own = shape_of(x)  # type: ignore[arg-type]
        if own[first.axis] != 1:
            raise first.refuse()
        sizes = (*own[: first.axis], *[1] * count, *own[first.axis + 1 :])
        found.append(reshape(b, x, sizes))  # type: ignore[arg-type]
    return found, first
