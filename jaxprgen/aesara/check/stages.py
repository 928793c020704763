"""The largest part of a graph that one call can compute."""

from __future__ import annotations

from collections.abc import Sequence

from aesara.compile.sharedvalue import SharedVariable
from aesara.graph.basic import Apply, Constant, Variable

from jaxprgen.aesara.check.findings import Subset
from jaxprgen.aesara.library import is_array


def largest_subset(
    nodes: Sequence[Apply],
    blocked: set[Apply],
    given: Sequence[Variable],
    wanted: Sequence[Variable],
) -> Subset:
    """The largest stage, or the whole graph where nothing is blocked.

    ``given`` are all inputs of the graph, the missing ones too. A stage are nodes with the same
    number of blocked ones before them, or after them: no way leads out of it and back, so one
    call computes it.
    """
    known = set(given)
    if not blocked:
        outputs = tuple(filter(is_array, wanted))
        return Subset(tuple(filter(is_array, given)), outputs, len(nodes) if outputs else 0)
    levels = _levels_from_inputs(nodes, blocked, known), _levels_to_outputs(nodes, blocked, known)
    stage = max((_largest_stage(nodes, blocked, level) for level in levels), key=len)
    needed = _needed(stage, known)
    used = {v for n in nodes if n not in stage for v in n.inputs} | set(wanted)
    made = [v for n in stage for v in n.outputs if v in used and v not in known]
    first = [v for v in given if v in needed]
    return Subset((*first, *(v for v in needed if v not in known)), tuple(made), len(stage))


def _levels_from_inputs(
    nodes: Sequence[Apply], blocked: set[Apply], known: set[Variable]
) -> dict[Apply, int]:
    """The most blocked nodes on a way from the inputs to each node."""
    levels: dict[Apply, int] = {}
    for node in nodes:
        before = [v.owner for v in node.inputs if v.owner and v not in known]
        levels[node] = max((levels[n] + (n in blocked) for n in before), default=0)
    return levels


def _levels_to_outputs(
    nodes: Sequence[Apply], blocked: set[Apply], known: set[Variable]
) -> dict[Apply, int]:
    """The most blocked nodes on a way from each node to the outputs."""
    levels = dict.fromkeys(nodes, 0)
    for node in reversed(nodes):
        level = levels[node] + (node in blocked)
        for variable in node.inputs:
            if variable.owner and variable not in known:
                levels[variable.owner] = max(levels[variable.owner], level)
    return levels


def _largest_stage(
    nodes: Sequence[Apply], blocked: set[Apply], levels: dict[Apply, int]
) -> dict[Apply, None]:
    """The most nodes of one level that can be compiled, in order.

    One that makes no array, a slice, belongs to no stage: it is made again where it is used,
    because no call takes or returns it.
    """
    stages: dict[int, dict[Apply, None]] = {}
    for node in nodes:
        if node not in blocked and all(map(is_array, node.outputs)):
            stages.setdefault(levels[node], {})[node] = None
    return max(stages.values(), key=len, default={})


def _needed(stage: dict[Apply, None], known: set[Variable]) -> dict[Variable, None]:
    """What the stage does not compute itself, in order."""
    needed: dict[Variable, None] = {}
    seen: set[Apply] = set(stage)
    pending = [v for n in reversed(stage) for v in reversed(n.inputs)]
    while pending:
        variable = pending.pop()
        if isinstance(variable, (Constant, SharedVariable)) and variable not in known:
            continue
        if variable not in known and variable.owner in stage:
            continue
        owner = variable.owner
        if is_array(variable) or owner is None:
            needed[variable] = None
        elif owner not in seen:
            seen.add(owner)
            pending.extend(reversed(owner.inputs))
    return needed
