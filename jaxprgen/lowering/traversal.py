"""Traversal of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxprgen.lowering.names import Apply, Variable, is_kind
from jaxprgen.lowering.registry import lowers_itself

WITH_GRAPH = ("compile.OpFromGraph", "scan.Scan")
"""Ops that hold a graph."""


def toposort(outputs: Sequence[Variable], known: set[Variable]) -> list[Apply]:
    """Return the nodes that compute ``outputs`` from ``known`` variables, each after its inputs.

    The order is depth first from the first output, so the same graph gives the same list in every
    process. The time is linear in nodes and edges, and there is no recursion.
    """
    order: list[Apply] = []
    seen: set[Apply] = set()
    for output in outputs:
        if output.owner is None or output in known or output.owner in seen:
            continue
        seen.add(output.owner)
        pending = [(output.owner, iter(output.owner.inputs))]
        while pending:
            node, rest = pending[-1]
            for variable in rest:
                owner = variable.owner
                if owner is not None and owner not in seen and variable not in known:
                    seen.add(owner)
                    pending.append((owner, iter(owner.inputs)))
                    break
            else:
                order.append(node)
                pending.pop()
    return order


def inner_nodes(nodes: Sequence[Apply]) -> list[tuple[Apply, Apply | None]]:
    """Return nodes and those inside of their Ops to any depth, with the node that holds each.

    Those inside of an Op with a rule of its own, which does not lower its graph, are left out.
    The nodes of an Op that several nodes share are listed once.
    """
    found: list[tuple[Apply, Apply | None]] = []
    seen: set[int] = set()
    pending: list[tuple[Apply, Apply | None]] = [(node, None) for node in reversed(nodes)]
    while pending:
        node, holder = pending.pop()
        found.append((node, holder))
        if id(node.op) not in seen:
            seen.add(id(node.op))
            pending.extend((inner, node) for inner in reversed(nodes_inside(node.op)))
    return found


def nodes_inside(op: Any) -> list[Apply]:
    """Return the sorted nodes inside of an Op; none if it has a rule that does not lower them."""
    if not is_kind(type(op), WITH_GRAPH) or lowers_itself(type(op), WITH_GRAPH):
        return []
    return toposort(op.fgraph.outputs, set(op.fgraph.inputs))
