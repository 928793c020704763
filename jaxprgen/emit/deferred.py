"""Arrays that are emitted only if the program needs them, and then only as far as it does.

A loop returns one for each of its results. The last rows are available without a stack. The whole
array is concatenated from the initial rows and the stacked ones when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jaxprgen._jax import Size, identity, is_symbolic, max_size, min_size
from jaxprgen.emit import elementwise as ew, index as ix, primitives as lax
from jaxprgen.emit.create import arange
from jaxprgen.emit.division import floor_divide
from jaxprgen.emit.lazy import Lazy
from jaxprgen.emit.selection import nonnegative, select, select_first
from jaxprgen.emit.shape import concatenate, slice_axis
from jaxprgen.emit.values import INT64, Array, Dtype, Shape, Value, full
from jaxprgen.ir import current_builder


class Deferred(Lazy):
    """An array that can be emitted but has not been."""

    def make(self) -> Value | Lazy:
        """Emit the array."""
        raise NotImplementedError

    def force(self) -> Value | Lazy:
        """Return the array, emitted once."""
        return current_builder().memoized(("deferred", id(self)), lambda: (self.make(), self))[0]


@dataclass(frozen=True, eq=False)
class Uninitialized(Deferred):
    """Memory without values, as of `numpy.empty`, or of which only the first rows are set.

    Attributes
    ----------
    shape
        The shape, with None for a size that is not known.
    dtype
        The dtype.
    fill
        Returns an array to stand for the memory.
    rows
        The first rows, if they are set.
    """

    shape: tuple[Size | None, ...]
    dtype: Dtype
    fill: Callable[[], Value]
    rows: Value | None = None

    def make(self) -> Value:
        """Emit an array to stand for the memory."""
        memory = self.fill()
        if self.rows is None:
            return memory
        return ix.put(memory, self.rows, [slice(0, self.rows.shape[0])], add=False)

    def static_shape(self) -> Shape:
        """Return the sizes."""
        return self.fill().shape


@dataclass(frozen=True, eq=False)
class CountedRange(Deferred):
    """An `arange` of integers whose length only the running program knows; a loop can count them.

    Attributes
    ----------
    first, by
        The first integer and the step, as scalars.
    count
        The length, an integer scalar >= 0.
    refuse
        Returns the error for a graph that needs the whole array, and its length.
    bound
        The largest possible length, if it is known.
    """

    first: Value
    by: Value
    count: Value
    refuse: Callable[[], Exception]
    bound: int | None = None

    shape = (None,)
    row = ()

    @property
    def dtype(self) -> Dtype:
        """Return the dtype."""
        return self.first.dtype

    def rows(self) -> Value:
        """Return the length, as a scalar."""
        return self.count

    def between(self, start: int, stop: Value | None) -> CountedRange:
        """Return ``self[start:stop]``, for ``start >= 0``."""
        end = self.count
        if stop is not None:
            stop = stop.astype(self.count.dtype)
            end = ew.minimum(ew.where(stop < 0, stop + end, stop), end)
        if start == 0:
            return replace(self, count=ew.maximum(end, 0)) if stop is not None else self
        count = ew.maximum(end - start, 0)
        return replace(self, first=self.first + self.by * start, count=count)

    def mapped(self, change: Callable[[Value], Value]) -> CountedRange:
        """Return a copy with every value changed."""
        return replace(self, first=change(self.first), count=change(self.count))

    def make(self) -> Lazy:
        """Emit as many integers as there can be, of which a mask selects those that there are.

        Raises
        ------
        Exception
            The error of `refuse`: no bound is known.
        """
        if self.bound is None:
            raise self.refuse()
        numbers = arange(self.first, self.by, self.bound, self.dtype)
        return select_first(numbers, self.count, 0, self.refuse)


def progression(
    start: Value,
    stop: Value,
    by: Array,
    dtype: Dtype,
    refuse: Callable[[], Exception],
    bound: int | None = None,
) -> CountedRange:
    """Return ``numpy.arange(start, stop, by)`` of integers.

    Parameters
    ----------
    start, stop
        Integer scalars.
    by
        The step, known and not zero.
    dtype
        The dtype of the result.
    refuse
        Returns the error for a graph that needs the whole array.
    bound
        The largest possible length, if it is known.
    """
    long = ew.canonical(INT64)
    length = stop.astype(long)
    if start.static is None or start.static != 0:
        length = length - start.astype(long)
    if abs(by) != 1:
        length = length + (by - np.sign(by))
    if by != 1:
        length = floor_divide(length, length.like(by))
    count = nonnegative(length)
    return CountedRange(start.astype(dtype), full((), by, dtype), count, refuse, bound)


@dataclass(frozen=True, eq=False)
class LoopRows(Deferred):
    """The rows that a loop leaves: those of a state, of a window's array, or of a stacked output.

    All attributes but the last three describe the whole that the loop leaves. These three say which
    part of it this is.

    Attributes
    ----------
    row, kind
        The shape and the dtype of one row.
    ends
        The last rows, by index from the end: -1, -2, …
    pieces
        The pieces whose concatenation holds all rows; None if their number is not known, nor a
        bound.
    count, extra, least
        If only the running program knows the number of rows: it is ``count + extra``, where
        ``count`` is a scalar and at least ``least``. The pieces may hold more rows.
    refuse
        Returns the error for a graph that needs to know the number of rows.
    before
        Arrays of as many rows as the loop has steps, by the row at which they start: rows that are
        available without concatenation, because the steps carried them.
    start, stop
        The number of rows to leave out in front and, as a number <= 0, at the end.
    backwards
        Whether the rows are in reverse order.
    """

    row: Shape
    dtype: Dtype
    ends: Mapping[int, Value]
    pieces: Sequence[Value] | None
    count: Value | None
    refuse: Callable[[], Exception]
    extra: int = 0
    least: int = 0
    before: Mapping[int, Value] = field(default_factory=dict)
    start: int = 0
    stop: int = 0
    backwards: bool = False

    @property
    def length(self) -> Size | None:
        """Return the number of rows, or None if it is not known."""
        if self.pieces is None or self.count is not None:
            return None
        return max_size(sum(x.shape[0] for x in self.pieces) - self.start + self.stop, 0)

    @property
    def shape(self) -> tuple[Size | None, ...]:
        """Return the sizes, with None for a number of rows that is not known."""
        return (self.length, *self.row)

    def mapped(self, change: Callable[[Value], Value]) -> LoopRows:
        """Return a copy with every value changed."""
        return replace(
            self,
            ends={i: change(x) for i, x in self.ends.items()},
            pieces=None if self.pieces is None else [change(x) for x in self.pieces],
            count=None if self.count is None else change(self.count),
            before={i: change(x) for i, x in self.before.items()},
        )

    def rows(self) -> Value:
        """Return the number of rows, as a scalar."""
        if self.count is None and self.length is None:
            raise self.refuse()
        if self.count is None:
            return full((), self.length, INT64)
        return self.count + self._more if self._more else self.count

    @property
    def _more(self) -> int:
        """The number of rows besides those that the program counts."""
        return self.extra - self.start + self.stop

    def has(self, index: int) -> Value | None:
        """Return whether row ``index`` exists; None if it does for any number of steps."""
        wanted = index + 1 if index >= 0 else -index
        if self.count is None or self.least + self._more >= wanted:
            return None
        rows = self.rows()
        return rows >= wanted

    def part(self, where: slice) -> LoopRows | None:
        """Return ``self[where]``, or None if its rows are not known or not adjacent."""
        length = self.length
        if length is not None:
            first, step, count = ix.bounds(where, length)
            if count == 0 or abs(step) != 1:
                return None
            front = first if step > 0 else first - count + 1
            behind = front + count - length
        else:
            front, behind, step = where.start or 0, where.stop or 0, where.step or 1
            if front < 0 or behind > 0 or step != 1:
                return None
        if self.backwards:
            front, behind = -behind, -front
        start, stop, backwards = self.start + front, self.stop + behind, self.backwards
        return replace(self, start=start, stop=stop, backwards=backwards != (step < 0))

    def take(self, index: int) -> Value | None:
        """Return ``self[index]``, or None if it is not known which row that is."""
        length = self.length
        if length is not None:
            ix.require_index(index, length, 0)
            index = index - length if index >= 0 else index
            index = -1 - length - index if self.backwards else index
        if index < 0 and index + self.stop in self.ends:
            return self.ends[index + self.stop]
        if length is None:
            return None
        place = self.start + length + index
        if is_symbolic(place):
            return None
        assert self.pieces
        *front, last = self.pieces
        for piece in front:
            size = piece.shape[0]
            if place < size:
                return ix.take(piece, [place])
            place -= size
        return ix.take(last, [place])

    def take_counted(self, index: int | Value) -> tuple[Value, Value | None] | None:
        """Return ``self[index]`` and whether that row exists, where the program counts the rows.

        Return None if the pieces may hold fewer rows than there can be.
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
        """Emit all rows; if only the program knows their number, those that a mask selects."""
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
            low, high = (min_size(max_size(n - offset, 0), size) for n in (self.start, end))
            parts.append(slice_axis(piece, 0, low, max_size(low, high)))
            offset += size
        whole = concatenate(parts, 0)
        if self.count is None:
            return lax.rev(whole, (0,)) if self.backwards else whole
        count = whole.shape[0]
        key = "rows", identity(self.count.source), self._more, count
        mask = current_builder().memoized(key, lambda: (self._mask(count), self.count))[0]
        return select(whole, mask, 0, self.refuse)

    def _mask(self, rows: int) -> Value:
        """Return which of the stacked rows exist, equal for all results of a loop."""
        assert self.count is not None
        place = lax.iota(self.count.dtype, (rows,), 0)
        return place < self.rows()


@dataclass(frozen=True, eq=False)
class Cut(Lazy):
    """``x[place:]`` or, of a head, ``x[:place]``, along one axis.

    Its size is not known. Joined again, in either order, both parts have that of the array: `roll`
    is written like this. ``key`` is equal for cuts of one array at one place. ``take`` returns the
    part, or raises.
    """

    x: Value
    axis: int
    place: Value
    is_head: bool
    key: Hashable
    take: Callable[[], Value]

    @property
    def dtype(self) -> Dtype:
        """Return the dtype."""
        return self.x.dtype

    @property
    def shape(self) -> tuple[Size | None, ...]:
        """Return the sizes, with None for the one that is not known."""
        return tuple(None if d == self.axis else n for d, n in enumerate(self.x.shape))

    def static_shape(self) -> Shape:
        """Return the sizes, or raise the error of the one that is not known."""
        return self.take().shape

    def force(self) -> Value:
        """Return the part, or raise the error of a size that is not known."""
        return self.take()

    def joined(self) -> Value:
        """Return this part followed by the rest of ``x``."""
        size = self.x.shape[self.axis]
        if self.is_head or not size:
            return self.x
        place = self.place.astype(ew.canonical(INT64))
        start = ew.minimum(ew.maximum(ew.where(place < 0, place + size, place), 0), size)
        index = [*[slice(None)] * self.axis, ix.DynamicSlice(start, int(size))]
        return ix.take(concatenate([self.x, self.x], self.axis), index)
