"""What of a graph JAX can run, and why not the rest.

Everything here is linear in the size of the graph, and nothing is recursive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from aesara.compile.sharedvalue import SharedVariable
from aesara.graph.basic import Apply, Constant, Variable
from aesara.tensor.elemwise import Elemwise
from aesara.tensor.random.type import RandomType

from jaxprgen.aesara.callback import can_be_called_back
from jaxprgen.aesara.check.findings import BLOCKED, CHAIN, Deciding, GraphCheck, NodeCheck, Odd
from jaxprgen.aesara.check.selections import uncounted
from jaxprgen.aesara.check.stages import largest_subset
from jaxprgen.aesara.check.traces import deciding_steps, ends_alone
from jaxprgen.aesara.check.unruled import static_of
from jaxprgen.aesara.library import frame_of, is_array, name_of
from jaxprgen.aesara.plan import ends_of
from jaxprgen.aesara.traversal import inner_nodes, toposort
from jaxprgen.lowering.registry import (
    deciding_inputs,
    find_rule,
    is_supported,
    needed_inputs,
    static_inputs,
)


def check(graph: Any, outputs: Any = None) -> GraphCheck:
    """What of a graph JAX can run: without arguments, and also where `jaxprgen.compile` refuses.

    It says of every node whether it can be jitted, and if not why and what to do instead; which
    inputs decide shapes by their values, and by which nodes; and the largest part that can be
    compiled. The graph is not changed.

    That part is found by cutting the graph into stages, by the number of nodes that cannot be
    compiled on the way from the inputs, or, if that gives a larger part, to the outputs: a stage
    is one call. Its inputs and outputs are what `jaxprgen.compile` takes; among its inputs are
    results of other stages.

    Parameters
    ----------
    graph, outputs
        A `FunctionGraph`, or inputs and outputs, as `jaxprgen.compile` takes them.

    Raises
    ------
    InvalidGraphError
        These are no variables, there are no outputs, or an input is given twice or a constant.
        A missing input, or one that is no array, is no error but among the findings.
    """
    given, wanted = ends_of(graph, outputs)
    nodes = toposort(wanted, set(given))
    facts = _facts(nodes, set(given))
    flow = _Flow(nodes, given, facts)
    for node, static in ends_alone(nodes, wanted).items():
        facts[node] = facts[node]._replace(
            static=[i for i in facts[node].static if i not in static]
        )
    open_ended = {n: steps for n in nodes if (steps := deciding_steps(n))}
    unknown = {n for n in nodes if n in open_ended or flow.sources(n, facts[n].sizes)}
    deciding = [*flow.routes(lambda f: f.static), *flow.routes(lambda f: f.sizes)]
    for node in set(nodes) - uncounted(nodes, unknown, wanted, deciding):
        own, steps = facts[node], open_ended.get(node, ())
        facts[node] = own._replace(static=sorted({*own.static, *own.sizes, *steps}))
    checks = {node: _checked(node, facts[node], flow) for node in nodes}
    blocked = {node for node in nodes if checks[node].verdict in BLOCKED}
    leaves = dict.fromkeys([*given, *flow.leaves, *filter(flow.is_leaf, wanted)])
    missing = [v for v in leaves if v not in flow.given and not isinstance(v, SharedVariable)]
    ends = [(v, "input") for v in given] + [(v, "output") for v in wanted]
    return GraphCheck(
        tuple(checks.values()),
        tuple(_deciding(leaves, flow, checks)),
        tuple(_odd(v, "missing input") for v in missing),
        tuple(_odd(v, role) for v, role in ends if _is_odd(v, role)),
        largest_subset(nodes, blocked, (*given, *missing), wanted),
    )


def _odd(variable: Variable, role: str) -> Odd:
    return Odd(name_of(variable), str(variable.type), role)


# --- What is known of each node by itself -------------------------------------------------


class _Facts(NamedTuple):
    """A node's verdict by itself, and what its inputs are to it.

    ``static`` are the inputs whose values decide shapes, ``needs`` those whose values matter to
    each output. Those at ``sizes`` decide some, too, if anyone needs to know them.
    """

    verdict: str
    static: Sequence[int]
    needs: Sequence[Sequence[int]]
    reason: str = ""
    remedy: str = ""
    sizes: Sequence[int] = ()


def _facts(nodes: Sequence[Apply], given: set[Variable]) -> dict[Apply, _Facts]:
    facts: dict[Apply, _Facts] = {}
    for node in nodes:
        strange = next((v for v in node.inputs if _is_strange(v, given, facts)), None)
        facts[node] = _facts_of(node, strange)
    return facts


def _is_odd(variable: Variable, role: str) -> bool:
    """Whether it is no array, nor among the inputs the state of a generator."""
    is_state = isinstance(variable.type, RandomType) and role != "output"
    return not (is_array(variable) or is_state)


def _is_strange(variable: Variable, given: set[Variable], facts: dict[Apply, _Facts]) -> bool:
    """Whether it is no array and nothing, as a slice is, that a rule made for another."""
    if is_array(variable) or isinstance(variable, Constant):
        return False
    owner = variable.owner
    if variable in given or owner is None:
        return not isinstance(variable.type, RandomType)  # For the state of a generator is a key.
    return facts[owner].verdict in BLOCKED


def _facts_of(node: Apply, strange: Variable | None) -> _Facts:
    op_type = type(node.op)
    rule = find_rule(op_type)
    static = static_inputs(op_type, node) if rule else static_of(node)
    needs = [needed_inputs(op_type, node, i) for i in range(len(node.outputs))]
    if strange is None and not rule:
        strange = next((v for v in node.outputs if not is_array(v)), None)
    if strange is not None:
        return _Facts("refused", static, needs, *_no_array(node, strange))
    if rule:
        if not is_supported(node.op):
            reason = f"the rule of {op_type.__name__} does not take this one"
            return _no_rule(node, reason)._replace(static=static, needs=needs)
        for inner, _ in inner_nodes([node])[1:]:
            if not is_supported(inner.op):
                found = _no_rule(inner, f"inside of it, {inner.op} has no rule")
                return found._replace(static=static, needs=needs)
        return _Facts("jit", static, needs, sizes=deciding_inputs(op_type, node))
    return _no_rule(node, "no rule")._replace(static=static, needs=needs)


def _no_array(node: Apply, strange: Variable) -> tuple[str, str]:
    verb = "takes" if strange in node.inputs else "returns"
    return (
        f"it {verb} a {strange.type}, which is no array",
        "compute it outside of the graph, and give its results as inputs",
    )


def _no_rule(node: Apply, reason: str) -> _Facts:
    """A node that has no rule, or one that does not take it."""
    op = node.op.scalar_op if isinstance(node.op, Elemwise) else node.op
    if can_be_called_back(node):
        remedy = f'jaxprgen.compile(..., fallback="callback"), or {_register(op)}'
        return _Facts("callback", (), (), f"{reason}; its `perform` can run instead", remedy)
    reason = f"{reason}, and no Python implementation that could be called back"
    return _Facts("refused", (), (), reason, _register(op))


def _register(op: Any) -> str:
    return f"register a rule with @jaxprgen.lowers({type(op).__name__})"


# --- Whose values reach what decides a shape ----------------------------------------------


class _Route(NamedTuple):
    """The way from a variable to what it decides: how many nodes, the next one, those behind it."""

    length: int
    node: Apply
    onward: _Route | None
    last: Apply


class _Flow:
    """The values that flow through a graph: from where, and where they decide shapes.

    Attributes
    ----------
    leaves
        What nodes take that neither they nor constants give.
    """

    def __init__(
        self, nodes: Sequence[Apply], given: Sequence[Variable], facts: dict[Apply, _Facts]
    ) -> None:
        self.given = set(given)
        self._nodes = nodes
        self._facts = facts
        self.leaves = list(dict.fromkeys(v for n in nodes for v in n.inputs if self.is_leaf(v)))
        self._nearest: dict[Variable, tuple[int, Variable] | None] = {}
        for node in nodes:
            for output, needs in zip(node.outputs, facts[node].needs, strict=True):
                found = [self._source(node.inputs[i]) for i in needs]
                near = min(filter(None, found), key=lambda pair: pair[0], default=None)
                self._nearest[output] = near and (near[0] + 1, near[1])

    def is_leaf(self, variable: Variable) -> bool:
        """Whether a variable is given, shared or missing."""
        return variable in self.given or (
            variable.owner is None and not isinstance(variable, Constant)
        )

    def _source(self, variable: Variable) -> tuple[int, Variable] | None:
        if self.is_leaf(variable):
            return 0, variable
        return None if variable.owner is None else self._nearest[variable]

    def sources(self, node: Apply, positions: Iterable[int]) -> list[Variable]:
        """The nearest leaf that decides each of these inputs, where one does: they may share it."""
        found = (self._source(v) for i, v in enumerate(node.inputs) if i in positions)
        return list(dict.fromkeys(pair[1] for pair in found if pair))

    def routes(self, deciding: Callable[[_Facts], Sequence[int]]) -> dict[Variable, _Route]:
        """From each variable a shortest way to an input that decides a shape."""
        routes: dict[Variable, _Route] = {}

        def add(variable: Variable, route: _Route) -> None:
            if variable not in routes or route.length < routes[variable].length:
                routes[variable] = route

        for node in reversed(self._nodes):
            facts = self._facts[node]
            for i in deciding(facts):
                add(node.inputs[i], _Route(1, node, None, node))
            for output, needs in zip(node.outputs, facts.needs, strict=True):
                onward = None if self.is_leaf(output) else routes.get(output)
                if onward:
                    route = _Route(onward.length + 1, node, onward, onward.last)
                    for i in needs:
                        add(node.inputs[i], route)
        return routes


def _deciding(
    leaves: Iterable[Variable], flow: _Flow, checks: dict[Apply, NodeCheck]
) -> Iterable[Deciding]:
    routes = flow.routes(lambda facts: facts.static)
    for leaf in leaves:
        route = routes.get(leaf)
        if route:
            length, last, chain = route.length, route.last, [route.node]
            while route.onward and len(chain) < CHAIN - 1:
                route = route.onward
                chain.append(route.node)
            ends = chain if route.onward is None else [*chain, last]
            found = tuple(checks[n] for n in ends)
            yield Deciding(name_of(leaf), _role(leaf, flow.given), length, found)


def _role(leaf: Variable, given: set[Variable]) -> str:
    if leaf in given:
        return "input"
    return "shared variable" if isinstance(leaf, SharedVariable) else "missing input"


def _checked(node: Apply, facts: _Facts, flow: _Flow) -> NodeCheck:
    """The verdict on a node among the others."""
    frame = frame_of(*node.outputs)
    line = frame.place if frame else ""
    name = next((v.name for v in node.outputs if v.name), "")
    verdict, reason, remedy = facts.verdict, facts.reason, facts.remedy
    deciding = flow.sources(node, facts.static) if verdict == "jit" else ()
    if deciding:
        names = ", ".join(map(name_of, deciding))
        verdict, reason = "static", f"its shape is decided by the value of {names}"
    return NodeCheck(str(node.op), name, line, verdict, reason, remedy)
