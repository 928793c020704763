"""Loops over rows, as a graph library describes them: the rows of each array that a step uses.

Time runs along first axes. A step reads rows that earlier steps wrote, at offsets (*taps*) from
its own row. A loop carries only the rows from the first tap up to its own row, never the array.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from jaxprgen._jax import Size
from jaxprgen.emit import control, index as ix
from jaxprgen.emit.deferred import CountedRange, LoopRows
from jaxprgen.emit.shape import expand_dims, slice_axis
from jaxprgen.emit.sizes import is_at_most, is_known, require_at_least
from jaxprgen.emit.values import Dtype, Value, broadcast_to, full
from jaxprgen.errors import ShapeMismatchError, StaticShapeError, UnsupportedOpError

MOST_UNROLLED = 100
"""The largest number of steps to unroll, where known rows decide shapes in the steps."""


class RowWindow(NamedTuple):
    """An array whose rows each step overwrites, through a window that moves by one row.

    Attributes
    ----------
    rows
        The array before the loop.
    reads, writes
        The rows that a step reads and writes, counted from its own row.
    first
        The own row of the first step.
    """

    rows: Value
    reads: Sequence[int]
    writes: Sequence[int]
    first: int

    @property
    def low(self) -> int:
        """Return the first row of the window, counted from the own row of a step."""
        return min([*self.reads, *self.writes])

    @property
    def start(self) -> int:
        """Return the first row of the first step's window."""
        return self.first + self.low

    @property
    def width(self) -> int:
        """Return the number of rows in the window."""
        return max([*self.reads, *self.writes]) - self.low + 1

    def end(self, number: Size) -> Size:
        """Return one past the last row of the last window, for this number of steps."""
        return self.start + number + self.width - 1


class RecurrentState(NamedTuple):
    """A state that steps read and extend by one row each.

    Attributes
    ----------
    rows
        The initial rows.
    taps
        The rows that a step reads, as negative offsets from its own row.
    kept
        The number of last rows to keep, or None for all.
    """

    rows: Value
    taps: Sequence[int]
    kept: Size | None


class StackedOutput(NamedTuple):
    """Rows that no step reads.

    Attributes
    ----------
    kept
        The number of last rows to keep, or None for all.
    dtype
        The dtype.
    rank
        The rank of the stacked rows.
    """

    kept: Size | None
    dtype: Dtype
    rank: int


class StepValues(NamedTuple):
    """The rows that one step reads, or the values that it returns, by kind."""

    slices: list[Value]
    windows: list[list[Value]]
    states: list[list[Value]]
    stacks: list[Value]
    carried: list[Value]
    stop: Value | None = None


class Loop(NamedTuple):
    """A loop.

    Attributes
    ----------
    steps, number
        The number of steps, or the largest number if a step can end the loop: as a scalar, and as
        a size, which is None if only the running program knows it.
    sequences
        Arrays of which step ``i`` reads row ``i``.
    windows, states, stacks
        The arrays that steps read and write.
    carried
        Other values that go from step to step.
    constants
        Values that every step reads.
    ends
        Whether a step can end the loop.
    refuse
        Returns the error for a graph that needs to know the number of steps.
    irreversible
        Returns the error for reverse-mode differentiation of a loop that counts its steps.
    """

    steps: Value
    number: Size | None
    sequences: Sequence[Value | CountedRange]
    windows: Sequence[RowWindow]
    states: Sequence[RecurrentState]
    stacks: Sequence[StackedOutput]
    carried: Sequence[Value]
    constants: Sequence[Value]
    ends: bool
    refuse: Callable[[], Exception]
    irreversible: Callable[[], Exception]


class RecurrenceResult(NamedTuple):
    """The arrays of a loop after its last step, and the values that it carried."""

    windows: Sequence[Value | LoopRows]
    states: Sequence[Value | LoopRows]
    stacks: Sequence[Value | LoopRows]
    carried: Sequence[Value]


Body = Callable[[Sequence[Value], StepValues], StepValues]
"""``body(constants, step)`` emits one step, into a builder of its own."""


def run(loop: Loop, body: Body) -> RecurrenceResult:
    """Emit a loop.

    Raises
    ------
    ShapeMismatchError
        The number of steps is negative, a sequence is too short, a window leaves its array, or a
        state changes its shape.
    UnsupportedOpError
        A loop that overwrites rows of an array ends by a condition.
    """
    number = loop.number
    if number is not None:
        require_at_least(number, 0, f"A loop cannot have {number} steps: the number must be >= 0.")
    if loop.ends and loop.windows:
        raise UnsupportedOpError(
            "A loop that overwrites rows of an array, as the loop of a gradient does, cannot end "
            "by a condition. Differentiate with jax.jvp, or give the loop only a number of steps."
        )
    if number == 0:
        blank = [full((0,) * s.rank, 0, s.dtype) for s in loop.stacks]
        arrays = [w.rows for w in loop.windows], [s.rows for s in loop.states]
        return RecurrenceResult(*arrays, blank, loop.carried)
    return _LoopEmitter(loop, body).result()


class _LoopEmitter:
    """Emits one loop of at least one step."""

    def __init__(self, loop: Loop, body: Body) -> None:
        self.loop, self.body = loop, body
        self.number = loop.number
        self.depths = [-min(state.taps) for state in loop.states]
        moving = [self._sequence(i, x) for i, x in enumerate(loop.sequences)]
        self.arrays = [*moving, *(self._entering(i, w) for i, w in enumerate(loop.windows))]
        self.carries: list[Value] = []
        for window in loop.windows:
            rows = range(window.start, window.start + window.width - 1)
            self.carries += [ix.take(window.rows, [j]) for j in rows]
        for state, depth in zip(loop.states, self.depths, strict=True):
            self.carries += [ix.take(state.rows, [j]) for j in range(depth)]
        self.counted = [x for x in loop.sequences if isinstance(x, CountedRange)]
        self.carries += [*loop.carried, *(x.first for x in self.counted)]

    def _sequence(self, position: int, x: Value | CountedRange) -> Value | CountedRange:
        """Check that a sequence has one row per step, and drop the other rows."""
        if isinstance(x, CountedRange) or self.number is None:
            return x
        text = f"Sequence {position} has {x.shape[0]} rows, but the loop has {self.number} steps."
        require_at_least(x.shape[0], self.number, text)
        return slice_axis(x, 0, 0, self.number)

    def _entering(self, position: int, window: RowWindow) -> Value:
        """Return the rows that enter the window, one per step."""
        assert self.number is not None
        rows, end = window.rows.shape[0], window.end(self.number)
        text = (
            f"Array {position} has {rows} rows, but {self.number} steps of the loop read and write "
            f"its rows from {window.start} up to {end}."
        )
        require_at_least(window.start, 0, text)
        require_at_least(rows, end, text)
        return slice_axis(window.rows, 0, window.start + window.width - 1, end)

    def result(self) -> RecurrenceResult:
        """Emit the loop and return its results."""
        loop = self.loop
        given = [x for x in self.arrays if not isinstance(x, CountedRange)]
        arrays = [x for x in given if _repeated_row(x) is None]
        if self.number is None or loop.ends:
            args = self._step, loop.constants, self.carries, arrays
            ended = control.until(*args, loop.steps, self.number, loop.irreversible)
        else:
            ended = self._counted(arrays, self.number)
        carries, last = iter(ended.carries), iter(ended.last)
        stacked = iter(ended.stacked) if ended.stacked else itertools.repeat(None)
        entering = ((w, _next(carries, w.width - 1)) for w in loop.windows)
        windows = [self._window(w, after, next(stacked)) for w, after in entering]
        _next(last, len(windows) + len(loop.states))
        place = sum(w.width - 1 for w in loop.windows)
        states: list[LoopRows] = []
        for s, d in zip(loop.states, self.depths, strict=True):
            head = slice_axis(s.rows, 0, 0, d)
            trace = self._trace(head, s.kept, _next(carries, d), ended, stacked)
            before = {j: ended.before[place + j] for j in range(d) if place + j in ended.before}
            states.append(replace(trace, before=before))
            place += d
        stacks = [self._trace(None, s.kept, _next(last, 1), ended, stacked) for s in loop.stacks]
        return RecurrenceResult(windows, states, stacks, _next(carries, len(loop.carried)))

    def _counted(self, arrays: list[Value], number: Size) -> control.LoopResult:
        """Emit a known number of steps: as a loop, or unrolled if rows decide shapes."""
        args = self._step, self.loop.constants, self.carries, arrays, number
        try:
            return control.scan(*args)
        except StaticShapeError:
            is_short = is_at_most([number], MOST_UNROLLED)
            if not is_short or all(x.static is None for x in arrays):
                raise
        return control.unrolled(*args)

    # --- One step ------------------------------------------------------------------------

    def _step(self, *values: Value) -> tuple[list[Value], list[Value], Value | None]:
        """Return the carries after a step, its results, and whether it is the last one."""
        loop, rest = self.loop, iter(values)
        constants = _next(rest, len(loop.constants))
        views = [_next(rest, w.width - 1) for w in loop.windows]
        states = [_next(rest, depth) for depth in self.depths]
        carried = _next(rest, len(loop.carried))
        numbers = _next(rest, len(self.counted))
        number = iter(numbers)
        rows: list[Value] = []
        for x in self.arrays:
            known = None if isinstance(x, CountedRange) else _repeated_row(x)
            of = number if isinstance(x, CountedRange) else rest
            rows.append(next(of) if known is None else known)
        for view, x in zip(views, rows[len(loop.sequences) :], strict=True):
            view.append(x)
        seen = [[v[t - w.low] for t in w.reads] for v, w in zip(views, loop.windows, strict=True)]
        before = [
            [known[depth + t] for t in state.taps]
            for known, depth, state in zip(states, self.depths, loop.states, strict=True)
        ]
        read = StepValues(rows[: len(loop.sequences)], seen, before, [], carried)
        found = self.body(constants, read)
        for view, window, written in zip(views, loop.windows, found.windows, strict=True):
            for tap, x in zip(window.writes, written, strict=True):
                view[tap - window.low] = _fitted(x, view[tap - window.low])
        new = [_fitted(x, known[0]) for (x,), known in zip(found.states, states, strict=True)]
        after = [x for view in views for x in view[1:]]
        after += [x for known, y in zip(states, new, strict=True) for x in [*known[1:], y]]
        results = [*(view[0] for view in views), *new, *found.stacks]
        after += found.carried
        after += [n + x.by for n, x in zip(numbers, self.counted, strict=True)]
        return after, results, found.stop

    # --- Results -------------------------------------------------------------------------

    def _window(self, window: RowWindow, after: list[Value], leaving: Value | None) -> LoopRows:
        """Return an array after the loop; rows that left the window are final."""
        rows = window.rows
        assert self.number is not None and leaving is not None
        total, end = rows.shape[0], window.end(self.number)
        pieces = [slice_axis(rows, 0, 0, window.start), leaving]
        pieces += [expand_dims(x, [0]) for x in after]
        pieces += [slice_axis(rows, 0, end, total)]
        ends = {end - len(after) + j - total: x for j, x in enumerate(after)}
        return LoopRows(rows.shape[1:], rows.dtype, ends, pieces, None, self.loop.refuse)

    def _trace(
        self,
        head: Value | None,
        kept: Size | None,
        last: list[Value],
        ended: control.LoopResult,
        stacked: Iterator[Value | None],
    ) -> LoopRows:
        """Return the rows of a state, or those that were stacked, as many as are kept."""
        depth = 0 if head is None else head.shape[0]
        row, dtype, body = last[0].shape, last[0].dtype, next(stacked)
        ends = {j - len(last): x for j, x in enumerate(last)}
        pieces = [x for x in (head, body) if x is not None]
        total = depth + (self.number or 0)
        trace = LoopRows(row, dtype, ends, pieces, None, self.loop.refuse)
        if kept is not None and kept == len(last):
            return replace(trace, pieces=[expand_dims(x, [0]) for x in last])
        if self.number is None or self.loop.ends:
            is_whole = self.number is not None and (kept is None or kept >= total)
            pieces = pieces if is_whole else None
            least = 0 if self.number is None else 1
            return replace(trace, count=ended.steps, extra=depth, least=least, pieces=pieces)
        if kept is None or kept <= total:
            return replace(trace, start=0 if kept is None else total - kept)
        behind = kept - total
        pieces.append(full((behind, *row), 0, dtype))
        return replace(trace, pieces=pieces, ends={i - behind: x for i, x in ends.items()})


def _next(values: Iterator[Value], count: int) -> list[Value]:
    return list(itertools.islice(values, count))


def _repeated_row(x: Value) -> Value | None:
    """Return the row that a known array repeats, or None."""
    array = x.static
    if array is None:
        return None
    if x.is_repeated:
        source = np.asarray(x.source)
        own = source.shape
        return Value(source.reshape(own[1:]), x.shape[1:]) if own[:1] in ((), (1,)) else None
    row = array[:1].tobytes()
    is_repeated = array[-1:].tobytes() == row and array.tobytes() == row * len(array)
    return Value(np.asarray(array[0])) if len(array) > 1 and is_repeated else None


def _fitted(x: Value, before: Value) -> Value:
    """Return a row that a step writes in the shape and dtype of the row it replaces."""
    own, shape = x.shape, before.shape
    is_wrong = len(own) != len(shape) or any(
        k not in (1, n) and is_known((k, n)) for k, n in zip(own, shape, strict=True)
    )
    if is_wrong:
        raise ShapeMismatchError(
            f"A step of the loop returns a row of shape {own} to replace a row of shape {shape}: a "
            "value that goes from step to step must keep its shape."
        )
    return broadcast_to(x.astype(before.dtype), shape)
