"""Find which nodes of a graph JAX can run, and why it cannot run the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from jaxprgen.graphs.callback import can_be_called_back
from jaxprgen.graphs.check.abstract import Lowered, Need, lower_abstractly
from jaxprgen.graphs.check.findings import (
    BLOCKED,
    CHAIN,
    Deciding,
    GraphCheck,
    NodeCheck,
    Odd,
    Subset,
)
from jaxprgen.graphs.interface import ends_of, sorted_graph
from jaxprgen.graphs.known import known_nodes, without_rule
from jaxprgen.graphs.library import Variables, frame_of, is_array, name_of
from jaxprgen.graphs.plan import plan_of_nodes
from jaxprgen.graphs.sparse import opened
from jaxprgen.lowering.names import Apply, Variable, is_a
from jaxprgen.lowering.registry import find_rule, needed_inputs
from jaxprgen.lowering.traversal import toposort
from jaxprgen.ops.refused import refusal_of
from jaxprgen.texts import visible

Trouble: TypeAlias = tuple[str, str, str]
"""A verdict that is not "jit", the reason and the remedy."""
_OUTSIDE = "compute it outside of the graph, and give its results as inputs"


def check(graph: Any, outputs: Any = None) -> GraphCheck:
    """Find which part of a graph JAX can run, as `jaxprgen.check` does without a point."""
    given, wanted = ends_of(graph, outputs)
    wanted, nodes = sorted_graph(given, wanted)
    matrices = opened(given, wanted, nodes)
    if matrices is not None:
        given, wanted, *_ = matrices
        nodes = toposort(wanted, set(given))
    read = [v for ends in (*(node.inputs for node in nodes), wanted) for v in ends]
    leaves = dict.fromkeys([*given, *filter(_is_leaf, read)])
    roles = {v: _role(v) for v in leaves} | dict.fromkeys(given, "input")
    missing = [v for v in leaves if roles[v] == "missing input"]
    troubles = _without_rules(nodes, set(given))
    lowered = _lower(nodes, [*given, *missing], wanted, set(troubles))
    troubles |= _troubles_of(lowered, leaves)
    checks = {node: _check_of(node, troubles.get(node, ("jit", "", ""))) for node in nodes}
    blocked = {node for node in nodes if checks[node].verdict in BLOCKED}
    ends = [(v, "input") for v in given] + [(v, "output") for v in wanted]
    return GraphCheck(
        tuple(checks.values()),
        tuple(
            Deciding(name_of(leaf), roles[leaf], len(chain), tuple(checks[n] for n in _cut(chain)))
            for leaf, chain in _chains(lowered.needs, leaves)
        ),
        tuple(Odd(name_of(v), str(v.type), roles[v]) for v in missing),
        tuple(Odd(name_of(v), str(v.type), role) for v, role in ends if _is_odd(v, role)),
        _largest_subset(nodes, blocked, [*given, *missing], wanted),
    )


def _is_leaf(variable: Variable) -> bool:
    return variable.owner is None and not is_a(variable, "graph.Constant")


def _role(variable: Variable) -> str:
    if is_a(variable, "compile.SharedVariable"):
        return "shared variable"
    return "generator" if is_a(variable.type, "tensor.RandomType") else "missing input"


def _is_odd(variable: Variable, role: str) -> bool:
    """Return whether `compile` refuses an input or output because of its type."""
    is_state = is_a(variable.type, "tensor.RandomType") and role != "output"
    return not (is_array(variable) or is_state)


def _check_of(node: Apply, trouble: Trouble) -> NodeCheck:
    frame = frame_of(*node.outputs)
    name = next((name_of(v) for v in node.outputs if v.name), "")
    return NodeCheck(visible(node.op), name, frame.place if frame else "", *trouble)


# --- Nodes without a rule ----------------------------------------------------------------


def _without_rules(nodes: Sequence[Apply], given: set[Variable]) -> dict[Apply, Trouble]:
    """Return the nodes that have no rule, or take variables that are not arrays."""
    found: dict[Apply, Trouble] = {}
    known = known_nodes(nodes)

    def is_strange(variable: Variable) -> bool:
        """Return whether no rule makes it: it is neither an array nor, say, a slice."""
        if is_array(variable) or is_a(variable, "graph.Constant"):
            return False
        if variable in given or variable.owner is None:
            # The state of a generator is a key.
            return not is_a(variable.type, "tensor.RandomType")
        return variable.owner in found

    for node in nodes:
        if node in known:
            continue
        strange = next(filter(is_strange, node.inputs), None)
        is_usual = strange is None or refusal_of(node.op)
        trouble = _no_rule(node) if is_usual else _not_array("takes", strange)
        if trouble:
            found[node] = trouble
    return found


def _not_array(verb: str, variable: Variable) -> Trouble:
    return "refused", f"it {verb} a {variable.type}, which is not an array", _OUTSIDE


def _no_rule(node: Apply) -> Trouble | None:
    """Return why no rule takes a node, or one inside of it; None if rules take them."""
    missing = without_rule([node], lambda _: False)
    if not missing:
        return None
    unsupported, _ = missing[0]
    refusal = refusal_of(unsupported.op)
    if refusal is not None:
        inside = "" if unsupported is node else f"inside of it, {unsupported.op}: "
        return "refused", inside + refusal.why, refusal.instead
    reason = "no rule"
    if unsupported is not node:
        reason = f"inside of it, {unsupported.op} has no rule"
    elif find_rule(type(node.op)):
        reason = f"the rule of {type(node.op).__name__} does not take this one"
    elif not all(map(is_array, node.outputs)):
        return _not_array("returns", next(v for v in node.outputs if not is_array(v)))
    op = unsupported.op.scalar_op if is_a(unsupported.op, "tensor.Elemwise") else unsupported.op
    remedy = f"register a rule with @jaxprgen.lowers({type(op).__name__})"
    if can_be_called_back(unsupported):
        reason = f"{reason}; its `perform` can run instead"
        return "callback", reason, f'jaxprgen.compile(..., fallback="callback"), or {remedy}'
    return "refused", f"{reason}, and no Python implementation that can be called back", remedy


# --- Nodes with a rule -------------------------------------------------------------------


def _lower(
    nodes: Sequence[Apply], given: Variables, wanted: Variables, blocked: set[Apply]
) -> Lowered:
    """Lower the nodes that are not blocked. Results of the others are inputs."""
    others = [node for node in nodes if node in blocked]
    made = [*given, *(v for node in others for v in node.outputs)]
    read = [*wanted, *(v for node in others for v in node.inputs)]
    inputs = [v for v in dict.fromkeys(made) if is_array(v) or is_a(v.type, "tensor.RandomType")]
    outputs = [v for v in dict.fromkeys(read) if is_array(v)]
    lowered = [node for node in nodes if node not in blocked]
    return lower_abstractly(plan_of_nodes(inputs, outputs, lowered), set(lowered))


def _troubles_of(lowered: Lowered, leaves: Mapping[Variable, None]) -> dict[Apply, Trouble]:
    """Return the verdicts on nodes that need values, and on nodes that cannot be lowered."""
    troubles: dict[Apply, Trouble] = {}
    for node, need in lowered.needs.items():
        reached = _routes(need.leaves, leaves)
        names = ", ".join(name_of(v) for v in leaves if v in reached)
        troubles[node] = "static", f"its shape is decided by the value of {names}", ""
    for node, error in lowered.unclear.items():
        reason = f"it may fail: with sizes chosen by `check`, {_told(error)[0]}"
        troubles[node] = "unclear", reason, "declare the sizes of the inputs in their types"
    for node, error in lowered.refused.items():
        troubles[node] = "refused", *_told(error)
    return troubles


def _told(error: Exception) -> tuple[str, str]:
    """Return what an error says is wrong, and its advice."""
    reason, _, advice = str(error).partition("\n  in ")[0].partition("\n")
    return reason, " ".join(advice.split()) or _OUTSIDE


# --- From what decides a shape to the shape -----------------------------------------------


def _routes(
    ends: Iterable[Variable], leaves: Mapping[Variable, None]
) -> dict[Variable, Variable | None]:
    """Return the variables that the ends depend on, each with the next on a shortest way there."""
    after: dict[Variable, Variable | None] = dict.fromkeys(ends)
    pending = list(after)
    for variable in pending:  # It grows.
        node = variable.owner
        if variable not in leaves and node is not None:
            for i in needed_inputs(type(node.op), node, node.outputs.index(variable)):
                if node.inputs[i] not in after:
                    after[node.inputs[i]] = variable
                    pending.append(node.inputs[i])
    return after


def _chains(
    needs: Mapping[Apply, Need], leaves: Mapping[Variable, None]
) -> Iterator[tuple[Variable, list[Apply]]]:
    """Return the leaves that decide shapes, each with the nodes on a shortest way to a shape."""
    chains: dict[Variable, list[Apply]] = {}
    for node, need in needs.items():
        after = _routes(need.inputs, leaves)
        for leaf in filter(leaves.__contains__, _routes(need.leaves, leaves)):
            chain, variable = [], after.get(leaf)
            while variable is not None and variable.owner is not None:
                chain.append(variable.owner)
                variable = after[variable]
            chain.append(node)
            if leaf not in chains or len(chain) < len(chains[leaf]):
                chains[leaf] = chain
    return ((leaf, chains[leaf]) for leaf in leaves if leaf in chains)


def _cut(chain: list[Apply]) -> list[Apply]:
    """Return the first nodes of a long chain and the last: many whole ones take much memory."""
    return chain if len(chain) <= CHAIN else [*chain[: CHAIN - 1], chain[-1]]


# --- The largest part that compiles -------------------------------------------------------


def _largest_subset(
    nodes: Sequence[Apply], blocked: set[Apply], given: Variables, wanted: Variables
) -> Subset:
    """Return the largest stage, or the whole graph if no node is blocked.

    The nodes of a stage have equally many blocked nodes before them, or after them. No path
    leaves a stage and comes back, so one call computes it.
    """
    known = set(given)
    if not blocked:
        outputs = tuple(filter(is_array, wanted))
        return Subset(tuple(filter(is_array, given)), outputs, len(nodes) if outputs else 0)
    before = {n: [v.owner for v in n.inputs if v.owner and v not in known] for n in nodes}
    after: dict[Apply, list[Apply]] = {node: [] for node in nodes}
    for node in nodes:
        for other in before[node]:
            after[other].append(node)
    ways = (nodes, before), (nodes[::-1], after)
    stage = max((_largest_stage(order, blocked, way) for order, way in ways), key=len)
    needed = _needed([n for n in nodes if n in stage], known)
    used = {v for n in nodes if n not in stage for v in n.inputs} | set(wanted)
    made = [v for n in nodes if n in stage for v in n.outputs if v in used and v not in known]
    first = [v for v in given if v in needed]
    return Subset((*first, *(v for v in needed if v not in known)), tuple(made), len(stage))


def _largest_stage(
    order: Sequence[Apply], blocked: set[Apply], before: Mapping[Apply, Sequence[Apply]]
) -> set[Apply]:
    """Return the most nodes that compile and have equally many blocked nodes before them.

    A node that makes a slice belongs to no stage. Calls do not take or return slices, so each
    stage makes those that it uses.
    """
    levels: dict[Apply, int] = {}
    stages: dict[int, set[Apply]] = {}
    for node in order:
        levels[node] = max((levels[n] + (n in blocked) for n in before[node]), default=0)
        if node not in blocked and all(map(is_array, node.outputs)):
            stages.setdefault(levels[node], set()).add(node)
    return max(stages.values(), key=len, default=set())


def _needed(stage: Sequence[Apply], known: set[Variable]) -> dict[Variable, None]:
    """Return the variables that a stage needs and does not compute, in order."""
    needed: dict[Variable, None] = {}
    seen: set[Apply] = set()
    pending = [v for n in reversed(stage) for v in reversed(n.inputs)]
    while pending:
        variable = pending.pop()
        is_given = variable in known
        if not is_given and is_a(variable, "graph.Constant", "compile.SharedVariable"):
            continue
        if is_given or variable.owner is None or is_array(variable):
            if is_given or variable.owner not in stage:
                needed[variable] = None
        elif variable.owner not in seen:
            seen.add(variable.owner)
            pending.extend(reversed(variable.owner.inputs))
    return needed
