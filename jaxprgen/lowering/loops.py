"""Nodes that repeat a graph: each becomes a ``scan`` or a ``while`` equation."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen._jax import Size
from jaxprgen.emit import random, recurrence
from jaxprgen.emit.deferred import CountedRange, Uninitialized
from jaxprgen.emit.random import Stream
from jaxprgen.emit.recurrence import Loop, RecurrentState, RowWindow, StackedOutput, StepValues
from jaxprgen.emit.sizes import as_size, require_at_least
from jaxprgen.emit.values import INT64, Dtype, Value, full
from jaxprgen.errors import ReverseModeError, StaticShapeError
from jaxprgen.ir import current_builder
from jaxprgen.lowering import nested
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.static import Row, ValueNeededError


class LoopLayout(NamedTuple):
    """A loop, described by positions of its node's inputs, the first of which is how many steps.

    The graph of a step takes, in this order: a row of each sequence, the rows it reads of each
    window and each state, the states of generators, and the constants. It returns the rows it
    writes to each window, a row of each state and each stack, the states of generators, and, if the
    loop ends on a condition, whether this is the last step.

    Attributes
    ----------
    graph
        The graph of a step.
    sequences
        Positions of arrays of which a step reads its row.
    windows
        Positions of arrays that steps overwrite, with the rows that a step reads, the rows that it
        writes, and the row of the first step.
    states
        Positions of arrays that begin with the rows that the loop starts from, with the rows before
        its own that a step reads. The loop writes the rows after them.
    carried
        Positions of the states of generators.
    stacks
        Positions of the numbers of rows that are kept of stacked results, with their dtype and
        rank.
    constants
        Positions of what every step reads.
    ends
        Whether the loop may end on a condition.
    """

    graph: Any
    sequences: Sequence[int]
    windows: Sequence[tuple[int, Sequence[int], Sequence[int], int]]
    states: Sequence[tuple[int, Sequence[int]]]
    carried: Sequence[int]
    stacks: Sequence[tuple[int, Dtype, int]]
    constants: Sequence[int]
    ends: bool

    @property
    def read(self) -> list[int]:
        """The positions of all inputs that determine the results of a loop without windows."""
        states = (i for i, _ in self.states)
        return [0, *self.sequences, *states, *self.carried, *self.constants]

    @property
    def positions(self) -> list[int | Row | None]:
        """The node's input that each input of the graph is or is a row of; None if steps set it."""
        changing = len(self.carried)
        changing += sum(len(w[1]) for w in self.windows) + sum(len(s[1]) for s in self.states)
        return [*map(Row, self.sequences), *[None] * changing, *self.constants]


def lower_loop(ctx: RuleContext, layout: LoopLayout, xs: Sequence[Any]) -> list[Any]:
    """Emit a loop; return its windows, states, stacks, and the states of generators."""
    limit = ctx.static_or_none(0) if layout.ends else ctx.static_in_trace(0)
    if limit is None and layout.windows:
        limit = ctx.static(0)
    is_known = limit is not None
    taken = _steps_taken(ctx, layout) if layout.ends else None
    number = taken
    if taken is None and limit is not None:
        number = as_size(limit)
    streams = [xs[i] for i in layout.carried]
    given = [xs[i] if type(xs[i]) is Stream else ctx.made(xs[i]) for i in layout.constants]
    loop = Loop(
        ctx.made(xs[0]) if number is None else full((), number, INT64),
        number,
        [x if type(x) is CountedRange else ctx.made(x) for x in (xs[i] for i in layout.sequences)],
        [RowWindow(ctx.made(xs[i]), r, w, first) for i, r, w, first in layout.windows],
        [_state(ctx, xs[i], taps, is_known, taken) for i, taps in layout.states],
        [
            StackedOutput(_at_most(_kept(ctx, i, is_known), taken), dtype, rank)
            for i, dtype, rank in layout.stacks
        ],
        [x for stream in streams for x in random.leaves(stream)],
        [leaf for x in given for leaf in nested.leaves(x)],
        layout.ends and taken is None,
        functools.partial(_refuse, ctx, layout),
        functools.partial(ReverseModeError, _irreversible(ctx, layout)),
    )
    body = _Body(ctx, layout, given, streams)
    left = recurrence.run(loop, body)
    rest = iter(left.carried)
    carried = [random.rebuilt(x, rest) for x in streams]
    return [*left.windows, *left.states, *left.stacks, *carried]


def _refuse(ctx: RuleContext, layout: LoopLayout) -> Exception:
    """Return the error of a loop whose number of steps must be known, or ask for it."""
    if ctx.static_or_none(0) is None:
        ctx.static(0)
    return ctx.undecided(
        layout.read,
        "This loop ends on a condition, so only the program that runs knows how many steps it "
        "takes and how many rows it stacks. Take its last value, as in `trace[-1]`, or reduce it: "
        "sums, means, extrema and elementwise functions of the whole are possible. Or give the "
        "loop a number of steps and no condition, and mask the rows after the end.",
    )


def _irreversible(ctx: RuleContext, layout: LoopLayout) -> str:
    """Return why JAX cannot differentiate a loop in reverse if it has no known number of steps.

    It is text, because derivatives outlive the context.
    """
    text = (
        "JAX cannot differentiate this loop in reverse, as jax.grad does: {}. Forward mode works, "
        "as in jax.jvp and jax.jacfwd.\nFor reverse mode, {}."
    )
    if layout.ends:
        found = text.format(
            "a condition ends it",
            "give the loop a number of steps and no condition, and let the steps after the end "
            "return what they read",
        )
        return str(ctx.located(ReverseModeError(found)))
    found = text.format(
        "only the program that runs knows how many steps it takes",
        "make n_steps a constant, or let concrete arguments decide it",
    )
    try:
        ctx.static(0)
    except StaticShapeError as error:  # It says why they do not, and where the loop is.
        return f"{found}\n{error}"
    except ValueNeededError:
        pass
    return str(ctx.located(ReverseModeError(found)))


def _steps_taken(ctx: RuleContext, layout: LoopLayout) -> int | None:
    """Return how many steps a loop that ends on a condition takes, where that must be known.

    The graph library's own implementation runs it, with room for as many steps as there can be.
    """
    depths = {i: -min(taps) for i, taps in layout.states}

    def count(values: Sequence[Any]) -> int:
        given = dict(zip(layout.read, values, strict=True))
        limit = int(given[0])
        for i, depth in depths.items():
            rows = given[i][:depth]
            given[i] = np.concatenate([rows, np.zeros((limit, *rows.shape[1:]), rows.dtype)])
        given.update({i: np.asarray(limit) for i, _, _ in layout.stacks})
        first = ctx.evaluate(*(given[i] for i in sorted(given)))[0]
        return len(first) - next(iter(depths.values()), 0)

    return ctx.decided(layout.read, count)


def _at_most(kept: Size | None, rows: int | None) -> Size | None:
    """Return how many rows are kept, or None for all, if there are at most ``rows``."""
    return None if kept is None or (rows is not None and kept > rows) else kept


def _state(
    ctx: RuleContext, x: Any, taps: Sequence[int], is_known: bool, taken: int | None
) -> RecurrentState:
    """Return the rows that a state starts from, without memory that is merely allocated."""
    known = x.rows if isinstance(x, Uninitialized) else None
    if known is not None and (x.shape[0] is not None or not is_known):
        rows, kept = known, x.shape[0]
    else:
        rows = ctx.made(x)
        kept = rows.shape[0]
    depth = -min(taps)
    text = f"A loop reads {depth} rows before its own, but there are {rows.shape[0]} to start with."
    for n in (rows.shape[0], *([] if kept is None else [kept])):
        require_at_least(n, depth, text)
    return RecurrentState(rows, taps, _at_most(kept, None if taken is None else depth + taken))


def _kept(ctx: RuleContext, position: int, is_known: bool) -> Size | None:
    found = ctx.static_or_none(position)
    if found is None and is_known:
        found = ctx.static(position)
    return None if found is None else as_size(found)


class _Body(NamedTuple):
    """Emits a step."""

    ctx: RuleContext
    layout: LoopLayout
    given: Sequence[Any]
    streams: Sequence[Any]

    def __call__(self, constants: Sequence[Value], step: StepValues) -> StepValues:
        """Return what a step computes from what it reads."""
        layout, leaves, carried = self.layout, iter(constants), iter(step.carried)
        inputs = [
            *step.slices,
            *(x for group in (*step.windows, *step.states) for x in group),
            *(random.rebuilt(x, carried) for x in self.streams),
            *(nested.rebuilt(x, lambda _: next(leaves)) for x in self.given),
        ]
        outputs, _ = nested.lower(
            self.ctx, layout.graph, current_builder(), inputs, layout.positions
        )
        rest = iter(outputs)
        windows = [[next(rest) for _ in writes] for _, _, writes, _ in layout.windows]
        states = [[next(rest)] for _ in layout.states]
        stacks = [next(rest) for _ in layout.stacks]
        after = [x for _ in layout.carried for x in random.leaves(next(rest))]
        return StepValues([], windows, states, stacks, after, next(rest) if layout.ends else None)
