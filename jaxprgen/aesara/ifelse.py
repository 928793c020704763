"""Rules for `aesara.ifelse`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aesara.ifelse import IfElse

from jaxprgen.aesara.branches import Branches
from jaxprgen.aesara.builders import positions_inside
from jaxprgen.emit.deferred import Deferred
from jaxprgen.emit.values import Value
from jaxprgen.lowering.branching import lower_branches
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


def _inside(how: str) -> Callable[[Any], Sequence[int]]:
    def positions(node: Any) -> Sequence[int]:
        if not isinstance(node.op, Branches):
            return ()
        pairs = zip(node.op.regions, node.op.positions, strict=True)
        found = {places[i] for graph, places in pairs for i in positions_inside(graph, how)}
        return sorted(found)

    return positions


@lowers(Branches, lazy=Deferred)
@lowers(IfElse, Branches, folds=False, static=_inside("static"), decides=_inside("decides"))
def lower_if_else(ctx: RuleContext, *xs: Value) -> list[Any]:
    """The branch that is taken, and what only that needs; the other is not computed."""
    op: Branches = ctx.op  # The plan has gathered what belongs to every `IfElse`.
    return lower_branches(ctx, op.regions, op.positions, xs)
