"""Arrays that are not made before it is seen what of them is used.

A loop gives such a one for each of its results: the last rows are at hand without any stack, and
the whole is joined, from what the loop started with and what it stacked, where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jaxprgen._jax import identity
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.division import floor_divide
from jaxprgen.emit.lazy import Lazy
from jaxprgen.emit.selection import select
from jaxprgen.emit.shape import concatenate, slice_axis
from jaxprgen.emit.values import INT64, Array, Dtype, Shape, Value, full
from jaxprgen.errors import IndexOutOfBoundsError
from jaxprgen.ir import current_builder


class Deferred(Lazy):
    """An array that can be made, and is not yet."""

    def make(self) -> Value | Lazy:
        """Emit the array."""
        raise NotImplementedError

    def force(self) -> Value | Lazy:
        """The array, emitted once."""
        return current_builder().once(("deferred", id(self)), lambda: (self.make(), self))[0]


@dataclass(frozen=True, eq=False)
class Uninitialized(Deferred):
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

    def make(self) -> Value:
        """The array."""
        return self.fill()

    def static_shape(self) -> Shape:
        """The sizes."""
        return self.fill().shape


@dataclass(frozen=True, eq=False)
class PartlyInitialized(Deferred):
    """Memory whose first rows are set, and of which the rest does not matter."""

    rows: Value
    rest: Uninitialized

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes."""
        return (self.rest.sizes[0], *self.rows.shape[1:])

    @property
    def dtype(self) -> Dtype:
        """The dtype."""
        return self.rest.dtype

    def make(self) -> Value:
        """The array."""
        first = slice(0, self.rows.shape[0])
        return ix.put(self.rest.fill(), self.rows, [first], add=False)

    def static_shape(self) -> Shape:
        """The sizes."""
        return self.rest.static_shape()


@dataclass(frozen=True, eq=False)
class CountedRange(Deferred):
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
        return self.first.dtype

    @property
    def row(self) -> Shape:
        """The shape of one."""
        return ()

    def rows(self) -> Value:
        """How many there are."""
        return self.count

    def between(self, start: int, stop: Value | None) -> CountedRange:
        """``self[start:stop]``, for a start that is not negative."""
        end = self.count
        if stop is not None:
            stop = stop.astype(self.count.dtype)
            end = ew.minimum(ew.where(stop < 0, stop + end, stop), end)
        if start == 0:
            return replace(self, count=ew.maximum(end, 0)) if stop is not None else self
        left = ew.maximum(end - start, 0)
        moved = self.by * start
        return replace(self, first=self.first + moved, count=left)

    def mapped(self, change: Callable[[Value], Value]) -> CountedRange:
        """One with other values in place of these."""
        return replace(self, first=change(self.first), count=change(self.count))

    def static_shape(self) -> Shape:
        """The size."""
        raise self.refuse()

    def make(self) -> Value:
        """None of them."""
        raise self.refuse()


def progression(
    start: Value, stop: Value, by: Array, dtype: Dtype, refuse: Callable[[], Exception]
) -> CountedRange:
    """``numpy.arange(start, stop, by)`` of integers, in a dtype; the last is known, not zero."""
    long = ew.canonical(INT64)
    length = stop.astype(long) - start.astype(long)
    if abs(by) != 1:
        length = length + (by - np.sign(by))
    if by != 1:
        length = floor_divide(length, length.like(by))
    return CountedRange(start.astype(dtype), full((), by, dtype), ew.maximum(length, 0), refuse)


@dataclass(frozen=True, eq=False)
class LoopRows(Deferred):
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
        return max(sum(x.shape[0] for x in self.pieces) - self.start + self.stop, 0)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes."""
        return (self.length, *self.row)

    def mapped(self, change: Callable[[Value], Value]) -> LoopRows:
        """One with other values in place of these."""
        return replace(
            self,
            ends={i: change(x) for i, x in self.ends.items()},
            pieces=None if self.pieces is None else [change(x) for x in self.pieces],
            count=None if self.count is None else change(self.count),
            before={i: change(x) for i, x in self.before.items()},
        )

    def static_shape(self) -> Shape:
        """The sizes."""
        if self.length is None:
            raise self.refuse()
        return (self.length, *self.row)

    def rows(self) -> Value:
        """How many rows there are."""
        if self.count is None and self.length is None:
            raise self.refuse()
        if self.count is None:
            return Value(np.asarray(self.length, np.int64))
        more = self.extra + self.stop - self.start
        return self.count + more if more else self.count

    def has(self, index: int) -> Value | None:
        """Whether there is a row at an index; None if there is, however few steps a loop takes."""
        wanted = index + 1 if index >= 0 else -index
        if self.count is None or self.least + self.extra + self.stop - self.start >= wanted:
            return None
        rows = self.rows()
        return rows >= wanted

    def part(self, where: slice) -> LoopRows | None:
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

    def take(self, index: int) -> Value | None:
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
            size = piece.shape[0]
            if place < size:
                return ix.take(piece, [place])
            place -= size
        raise AssertionError

    def take_counted(self, index: int | Value) -> tuple[Value, Value | None] | None:
        """``self[index]`` and whether there is such a row, where the program counts rows.

        None if they are not in pieces that hold as many as there can be.
        """
        if self.count is None or self.pieces is None:
            return None
        whole = concatenate(self.pieces, 0)
        if isinstance(index, int) and index >= 0:
            return ix.take(whole, [self.start + index]), self.has(index)
        rows = self.rows()
        index = rows.like(index) if isinstance(index, int) else index.astype(rows.dtype)
        place = ew.where(index < 0, index + rows, index)
        inside = (place >= 0) & (place < rows)
        return ix.take(whole, [place + self.start]), inside

    def make(self) -> Value | Lazy:
        """All rows; of a number that only the program knows, those that a mask selects."""
        if self.pieces is None:
            raise self.refuse()
        rows = self.before.get(self.start)
        if rows is not None and rows.shape[0] == self.length:
            return lax.rev(rows, (0,)) if self.backwards else rows
        total = sum(x.shape[0] for x in self.pieces)
        end = total + self.stop if self.count is None else total
        parts: list[Value] = []
        offset = 0
        for piece in self.pieces:
            size = piece.shape[0]
            low, high = (min(max(n - offset, 0), size) for n in (self.start, end))
            parts.append(slice_axis(piece, 0, low, max(low, high)))
            offset += size
        whole = concatenate(parts, 0)
        if self.count is None:
            return lax.rev(whole, (0,)) if self.backwards else whole
        count = whole.shape[0]
        key = "rows", identity(self.count.source), self.extra + self.stop - self.start, count
        mask = current_builder().once(key, lambda: (self._mask(count), self.count))[0]
        return select(whole, mask, 0, self.refuse)

    def _mask(self, rows: int) -> Value:
        """Which of so many rows there are, the same for all traces of a loop."""
        assert self.count is not None
        place = lax.iota(self.count.dtype, (rows,), 0)
        return place < self.rows()
