"""Nodes that choose between two graphs: each becomes a ``cond`` equation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jaxprgen.emit import control, elementwise as ew, random
from jaxprgen.emit.deferred import CountedRange, LoopRows
from jaxprgen.emit.random import Stream
from jaxprgen.emit.sparse import Sparse
from jaxprgen.emit.values import BOOL, Array, Value, full
from jaxprgen.errors import JaxprGenError
from jaxprgen.ir import current_builder
from jaxprgen.lowering import nested
from jaxprgen.lowering.context import RuleContext


def lower_branches(
    ctx: RuleContext, graphs: Sequence[Any], positions: Sequence[Sequence[int]], xs: Sequence[Any]
) -> list[Any]:
    """Emit the first graph if the first input holds, else the second.

    If the condition is static, the branch that is taken is emitted alone. So it is if one branch
    cannot be emitted, or their results have different shapes, and concrete arguments decide the
    condition.

    Parameters
    ----------
    graphs
        The graphs of the two branches.
    positions
        The positions of the node's inputs that each graph takes.
    xs
        The node's inputs.

    Raises
    ------
    StaticShapeError
        The shapes of results differ, and only the program that runs knows the condition.
    """
    choice = ctx.made(xs[0]).static
    which = ctx.decided([0], _which) if choice is None else _which([choice])
    # Results of a loop stay deferred: a branch may read their last rows only.
    xs = [x if isinstance(x, (CountedRange, LoopRows)) else ctx.made(x) for x in xs]

    def lower(which: int, xs: Sequence[Any]) -> list[Any]:
        given = [xs[i] for i in positions[which]]
        for x in given:
            if isinstance(x, JaxprGenError):  # In place of the result of a node that failed.
                raise x
        return nested.lower(ctx, graphs[which], current_builder(), given, positions[which])[0]

    if which is not None:
        return lower(which, xs)
    leaves = [leaf for x in xs for leaf in nested.leaves(x)]
    found: list[list[Any]] = []

    def branch(which: int) -> Any:
        def emit(*operands: Value) -> list[Value]:
            rest = iter(operands)
            values = [nested.rebuilt(x, lambda _: next(rest)) for x in xs]
            if xs[0].dtype == BOOL:
                values[0] = full(xs[0].shape, which == 0, BOOL)  # It takes this branch.
            try:
                found.append(lower(which, values))
            except JaxprGenError:  # The other branch may be the one that is taken.
                ctx.undecided([0])
                raise
            _compare(ctx, found)
            return [x for value in found[-1] for x in _leaves(value)]

        return emit

    results = iter(control.cond(ew.truth(xs[0]), branch(0), branch(1), leaves))
    return [_rebuilt(x, results) for x in found[-1]]


def _leaves(x: Any) -> list[Value]:
    """Return the arrays of a branch's result."""
    return [x.data, *x.indices] if isinstance(x, Sparse) else random.leaves(x)


def _rebuilt(x: Any, arrays: Iterator[Value]) -> Any:
    """Return a result like ``x`` with the next arrays in place of its own."""
    if not isinstance(x, Sparse):
        return random.rebuilt(x, arrays)
    data, rows, columns = (next(arrays) for _ in range(3))
    return Sparse(data, (rows, columns), x.shape)


def _shape(x: Any) -> Any:
    """Return what must agree between branches: of a matrix, also how many entries it has."""
    if isinstance(x, Sparse):
        return *x.shape, x.slots
    return None if type(x) is Stream else x.shape


def _which(values: Sequence[Array]) -> int:
    """Return the branch that is taken for the value of a condition."""
    return 0 if values[0].any() else 1


def _compare(ctx: RuleContext, found: Sequence[Sequence[Any]]) -> None:
    """Let the condition decide if the branches' results have different shapes, or refuse."""
    shapes = [[*map(_shape, xs)] for xs in found]
    if shapes[0] != shapes[-1]:
        a, c = next((a, c) for a, c in zip(shapes[-1], shapes[0], strict=True) if a != c)
        raise ctx.undecided(
            [0],
            f"One branch gives shape {a} and the other {c}, and only the program that runs knows "
            "which is taken.\nMake them of one shape, by padding, or choose outside of the graph.",
        )
