"""The order in which to lower the nodes of a graph."""

from __future__ import annotations

from collections.abc import Sequence

from aesara.graph.basic import Apply, Variable


def toposort(outputs: Sequence[Variable], known: set[Variable]) -> list[Apply]:
    """The nodes that compute ``outputs`` from ``known`` variables, each after those it needs.

    Depth first from the first output, inputs in order: the same graph gives the same list in
    every process. Linear in nodes and edges, and not recursive.
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
