"""The rule for `aesara.ifelse`.

Aesara's graph lists the values that an `IfElse` chooses from. `gather` moves the nodes that only
one branch needs into that branch, so that the other branch does not compute them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jaxprgen.emit.deferred import Deferred
from jaxprgen.emit.values import Value
from jaxprgen.lowering.branching import lower_branches
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import Apply, Variable, is_a, is_kind
from jaxprgen.lowering.registry import lowers

IF_ELSE = ("ifelse.IfElse", "conditional.IfElse")
"""The Op's names in Aesara and in versions of PyTensor."""

# --- Branches -----------------------------------------------------------------------------


class Region:
    """A part of a graph as a graph: the variables it takes from around it, and its outputs."""

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)


class Branches:
    """An `IfElse` with the nodes that only its branches need, in place of its Op.

    Attributes
    ----------
    regions
        The graph that is computed if the condition holds, and the other one.
    positions
        For each region, the positions of its inputs among the inputs of the node.
    """

    def __init__(self, op: Any, regions: Sequence[Region], places: dict[Variable, int]) -> None:
        self.op = op
        self.regions = tuple(regions)
        self.positions = tuple([places[v] for v in region.inputs] for region in self.regions)

    def __str__(self) -> str:
        return str(self.op)


@dataclass(frozen=True, eq=False)
class Gathered:
    """A node with `Branches` as its Op; its inputs are the condition and those of the regions."""

    op: Branches
    inputs: list[Variable]
    outputs: list[Variable]


_Branch = tuple[Apply, bool]
"""A branch: the node of its `IfElse`, and whether it is taken if the condition holds."""


def gather(
    nodes: Sequence[Apply], outputs: Sequence[Variable]
) -> tuple[list[Any], frozenset[Apply]]:
    """Return sorted nodes with a `Gathered` in place of every outermost `IfElse` and its nodes.

    Also return those of them that only branches of several `IfElse` need.
    """
    if not any(is_kind(type(node.op), IF_ELSE) for node in nodes):
        return list(nodes), frozenset()
    owners, shared = _owners(nodes, outputs)
    own: dict[_Branch, list[Apply]] = {}
    for node in nodes:
        branch = owners.get(node)
        if branch is not None:
            own.setdefault(branch, []).append(node)
    outside = [node for node in nodes if owners.get(node) is None]
    return [_gathered(n, own) if is_a(n.op, *IF_ELSE) else n for n in outside], shared


def _owners(
    nodes: Sequence[Apply], outputs: Sequence[Variable]
) -> tuple[dict[Apply, _Branch | None], frozenset[Apply]]:
    """Return for each node the branch of an outermost `IfElse` that alone needs it, or None.

    Also return the nodes that only branches of several need.
    """
    users: dict[Apply, set[_Branch | Literal["several"] | None]] = {}
    for variable in outputs:
        if variable.owner is not None:
            users.setdefault(variable.owner, set()).add(None)
    owners: dict[Apply, _Branch | None] = {}
    shared: set[Apply] = set()
    for node in reversed(nodes):
        found = users.get(node, {None})
        holders = {user[0] if isinstance(user, tuple) else user for user in found}
        is_shared = None not in found and ("several" in found or len(holders) > 1)
        if is_shared:
            shared.add(node)
        only = next(iter(found)) if len(found) == 1 else None
        owner = owners[node] = only if isinstance(only, tuple) else None
        is_outermost = owner is None and is_a(node.op, *IF_ELSE)
        inside = "several" if is_shared and not is_outermost else owner
        for i, variable in enumerate(node.inputs):
            if variable.owner is not None:
                branch = (node, i <= node.op.n_outs) if is_outermost and i else inside  # type: ignore[union-attr]
                users.setdefault(variable.owner, set()).add(branch)
    return owners, frozenset(shared)


def _gathered(node: Apply, own: dict[_Branch, list[Apply]]) -> Gathered:
    count = node.op.n_outs  # type: ignore[union-attr]
    ends = node.inputs[1 : count + 1], node.inputs[count + 1 :]
    regions = [
        _region(own.get((node, is_then), ()), outputs)
        for is_then, outputs in zip((True, False), ends, strict=True)
    ]
    taken = dict.fromkeys([node.inputs[0], *(v for r in regions for v in r.inputs)])
    places = {v: i for i, v in enumerate(taken)}
    return Gathered(Branches(node.op, regions, places), list(taken), node.outputs)  # type: ignore[arg-type]


def _region(nodes: Sequence[Apply], outputs: Sequence[Variable]) -> Region:
    made = {v for node in nodes for v in node.outputs}
    read = [*(v for node in nodes for v in node.inputs), *outputs]
    inputs = [v for v in dict.fromkeys(read) if v not in made and not is_a(v, "graph.Constant")]
    return Region(inputs, outputs)


# --- Rule ---------------------------------------------------------------------------------


@lowers(Branches, lazy=Deferred)
@lowers(*IF_ELSE, Branches, folds=False)
def lower_if_else(ctx: RuleContext, *xs: Value) -> list[Any]:
    """Compute the branch that is taken, and not the other."""
    op: Branches = ctx.op  # Plans hold no other form of `IfElse`.
    return lower_branches(ctx, op.regions, op.positions, xs)
