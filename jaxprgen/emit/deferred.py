"""Arrays that are not made before it is seen what of them is used.

A loop gives such a one for each of its results: the last rows are at hand without any stack, and
the whole is joined, from what the loop started with and what it stacked, where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit.division import floor_divide
from jaxprgen.emit.selection import Selected, select
from jaxprgen.emit.shape import concatenate, slice_axis
from jaxprgen.emit.values import INT64, Array, Dtype, Shape, Value, atom, dtype_of, like, shape_of
from jaxprgen.errors import IndexOutOfBoundsError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


class Deferred:
    """An array that is not made yet. Of its ``shape``, sizes that are not known are None."""

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes."""
        raise NotImplementedError

    @property
    def dtype(self) -> Dtype:
        """The dtype."""
        raise NotImplementedError

    def make(self, b: Builder) -> Value | Selected:
        """The array."""
        raise NotImplementedError

    def known_shape(self) -> Shape:
        """The sizes, which are asked for if they are not known."""
        raise NotImplementedError

    def made(self, b: Builder) -> Value | Selected:
        """The array, made once."""
        return b.once(("deferred", id(self)), lambda: (self.make(b), self))[0]


@dataclass(frozen=True, eq=False)
class Unfilled(Deferred):
    """Memory of which no value matters; ``fill`` gives something to stand there."""

    sizes: tuple[int | None, ...]
    kind: Dtype
    fill: Callable[[], Value]

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes."""
        return self.sizes

    @property
    def dtype(self) -> Dtype:
        """The dtype."""
        return self.kind

    def make(self, b: Builder) -> Value:
        """The array."""
        return self.fill()

    def known_shape(self) -> Shape:
        """The sizes."""
        return shape_of(self.fill())


@dataclass(frozen=True, eq=False)
class Begun(Deferred):
    """Memory whose first rows are set, and of which the rest does not matter."""

    rows: Value
    rest: Unfilled

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes."""
        return (self.rest.sizes[0], *shape_of(self.rows)[1:])

    @property
    def dtype(self) -> Dtype:
        """The dtype."""
        return self.rest.dtype

    def make(self, b: Builder) -> Value:
        """The array."""
        first = slice(0, shape_of(self.rows)[0])
        return ix.put(b, self.rest.fill(), self.rows, [first], add=False)

    def known_shape(self) -> Shape:
        """The sizes."""
        return self.rest.known_shape()


@dataclass(frozen=True, eq=False)
class Progression(Deferred):
    """Integers at equal distances, as many as only the program knows: a loop can count them.

    Attributes
    ----------
    first, by
        The first one, and the distance.
    count
        How many there are, zero or more.
    refuse
        Gives the error of one who needs them all.
    """

    first: Value
    by: Value
    count: Value
    refuse: Callable[[], Exception]

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The size, which is not known."""
        return (None,)

    @property
    def dtype(self) -> Dtype:
        """The dtype."""
        return dtype_of(self.first)

    @property
    def row(self) -> Shape:
        """The shape of one."""
        return ()

    def rows(self, b: Builder) -> Value:
        """How many there are."""
        return self.count

    def between(self, b: Builder, start: int, stop: Value | None) -> Progression:
        """``self[start:stop]``, for a start that is not negative."""
        zero = like(self.count, 0)
        end = self.count
        if stop is not None:
            stop = ew.convert(b, stop, dtype_of(self.count))
            behind = ew.where(b, ew.less(b, stop, zero), ew.add(b, stop, end), stop)
            end = ew.minimum(b, behind, end)
        if start == 0:
            return replace(self, count=ew.maximum(b, end, zero)) if stop is not None else self
        left = ew.maximum(b, ew.subtract(b, end, like(end, start)), zero)
        moved = ew.multiply(b, self.by, like(self.by, start))
        return replace(self, first=ew.add(b, self.first, moved), count=left)

    def mapped(self, change: Callable[[Value], Value]) -> Progression:
        """One with other values in place of these."""
        return replace(self, first=change(self.first), count=change(self.count))

    def known_shape(self) -> Shape:
        """The size."""
        raise self.refuse()

    def make(self, b: Builder) -> Value:
        """None of them."""
        raise self.refuse()


def progression(
    b: Builder, start: Value, stop: Value, by: Array, dtype: Dtype, refuse: Callable[[], Exception]
) -> Progression:
    """``numpy.arange(start, stop, by)`` of integers, in a dtype; the last is known, not zero."""
    long = ew.canonical(INT64)
    length = ew.subtract(b, ew.convert(b, stop, long), ew.convert(b, start, long))
    if abs(by) != 1:
        length = ew.add(b, length, np.asarray(by - np.sign(by), long))
    if by != 1:
        length = floor_divide(b, length, np.asarray(by, long))
    count = ew.maximum(b, length, like(length, 0))
    return Progression(ew.convert(b, start, dtype), np.asarray(by, dtype), count, refuse)


@dataclass(frozen=True, eq=False)
class Trace(Deferred):
    """The rows that a loop leaves behind.

    Attributes
    ----------
    row, kind
        The shape and the dtype of one.
    ends
        The last ones, counted from the end: those at -1, -2, …
    pieces
        All of them, in pieces to be joined; None if their number is not known, nor a bound.
    count, extra
        If only the program knows how many there are: that is ``count`` and so many more, and the
        pieces may have more. The count is ``least`` or more.
    refuse
        Gives the error of one who needs to know how many there are.
    start, stop
        How many are left out in front, and how many, below zero, behind.
    backwards
        Whether they are read from the last one to the first.
    before
        By place, of rows from there on, as many as the loop has steps, those that are at hand
        without joining: what the steps had of them.
    """

    row: Shape
    kind: Dtype
    ends: Mapping[int, Value]
    pieces: Sequence[Value] | None
    count: Value | None
    refuse: Callable[[], Exception]
    extra: int = 0
    least: int = 0
    start: int = 0
    stop: int = 0
    backwards: bool = False
    before: Mapping[int, Value] = field(default_factory=dict)

    @property
    def dtype(self) -> Dtype:
        """The dtype."""
        return self.kind

    @property
    def length(self) -> int | None:
        """How many rows there are, if that is known."""
        if self.pieces is None or self.count is not None:
            return None
        return max(sum(shape_of(x)[0] for x in self.pieces) - self.start + self.stop, 0)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes."""
        return (self.length, *self.row)

    def mapped(self, change: Callable[[Value], Value]) -> Trace:
        """One with other values in place of these."""
        return replace(
            self,
            ends={i: change(x) for i, x in self.ends.items()},
            pieces=None if self.pieces is None else [change(x) for x in self.pieces],
            count=None if self.count is None else change(self.count),
            before={i: change(x) for i, x in self.before.items()},
        )

    def known_shape(self) -> Shape:
        """The sizes."""
        if self.length is None:
            raise self.refuse()
        return (self.length, *self.row)

    def rows(self, b: Builder) -> Value:
        """How many rows there are."""
        if self.count is None and self.length is None:
            raise self.refuse()
        if self.count is None:
            return np.asarray(self.length, np.int64)
        more = self.extra + self.stop - self.start
        return ew.add(b, self.count, like(self.count, more)) if more else self.count

    def has(self, b: Builder, index: int) -> Value | None:
        """Whether there is a row at an index; None if there is, however few steps a loop takes."""
        wanted = index + 1 if index >= 0 else -index
        if self.count is None or self.least + self.extra + self.stop - self.start >= wanted:
            return None
        rows = self.rows(b)
        return ew.greater_equal(b, rows, like(rows, wanted))

    def part(self, where: slice) -> Trace | None:
        """``self[where]``, if it is known which rows these are, and none between them left out."""
        length = self.length
        if length is not None:
            first, end, step = where.indices(length)
            rows = range(first, end, step)
            low, high = (rows[0], rows[-1]) if rows else (0, -1)
            front, behind = min(low, high), max(low, high) + 1 - length
        else:
            front, behind, step = where.start or 0, where.stop or 0, where.step or 1
        if front < 0 or behind > 0 or abs(step) != 1 or (length is None and step < 0):
            return None
        if self.backwards:
            front, behind = -behind, -front
        backwards = self.backwards != (step < 0)
        return replace(self, start=self.start + front, stop=self.stop + behind, backwards=backwards)

    def take(self, b: Builder, index: int) -> Value | None:
        """``self[index]``, if it is known which row this is."""
        length = self.length
        if length is not None:
            if not -length <= index < length:
                raise IndexOutOfBoundsError(
                    f"Index {index} is out of bounds for axis 0 of size {length}."
                )
            index = index - length if index >= 0 else index
            index = -1 - length - index if self.backwards else index
        if index < 0 and self.stop + index in self.ends:
            return self.ends[self.stop + index]
        if length is None:
            return None
        place = self.start + length + index
        for piece in self.pieces or ():
            size = shape_of(piece)[0]
            if place < size:
                return ix.take(b, piece, [place])
            place -= size
        raise AssertionError

    def take_counted(self, b: Builder, index: int | Value) -> tuple[Value, Value | None] | None:
        """``self[index]`` and whether there is such a row, where the program counts rows.

        None if they are not in pieces that hold as many as there can be.
        """
        if self.count is None or self.pieces is None:
            return None
        whole = concatenate(b, self.pieces, 0)
        if isinstance(index, int) and index >= 0:
            return ix.take(b, whole, [self.start + index]), self.has(b, index)
        rows = self.rows(b)
        index = np.asarray(index) if isinstance(index, int) else index
        index = ew.convert(b, index, dtype_of(rows))
        place = ew.where(b, ew.less(b, index, like(index, 0)), ew.add(b, index, rows), index)
        above = ew.greater_equal(b, place, like(place, 0))
        inside = ew.bitwise_and(b, above, ew.less(b, place, rows))
        place = atom(b, ew.add(b, place, like(place, self.start)))
        return ix.take(b, whole, [place]), inside  # type: ignore[list-item]

    def make(self, b: Builder) -> Value | Selected:
        """All rows; of a number that only the program knows, those that a mask selects."""
        if self.pieces is None:
            raise self.refuse()
        rows = self.before.get(self.start)
        if rows is not None and shape_of(rows)[0] == self.length:
            return lax.rev(b, atom(b, rows), (0,)) if self.backwards else rows
        total = sum(shape_of(x)[0] for x in self.pieces)
        end = total + self.stop if self.count is None else total
        parts: list[Value] = []
        offset = 0
        for piece in self.pieces:
            size = shape_of(piece)[0]
            low, high = (min(max(n - offset, 0), size) for n in (self.start, end))
            parts.append(slice_axis(b, piece, 0, low, max(low, high)))
            offset += size
        whole = concatenate(b, parts, 0)
        if self.count is None:
            return lax.rev(b, atom(b, whole), (0,)) if self.backwards else whole
        rows = shape_of(whole)[0]
        key = "rows", id(self.count), self.extra + self.stop - self.start, rows
        mask = b.once(key, lambda: (self._mask(b, rows), self.count))[0]
        return select(b, whole, mask, 0, self.refuse)

    def _mask(self, b: Builder, rows: int) -> Value:
        """Which of so many rows there are, the same for all traces of a loop."""
        assert self.count is not None
        place = lax.iota(b, dtype_of(self.count), (rows,), 0)
        return ew.less(b, place, self.rows(b))
