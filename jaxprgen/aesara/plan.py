"""From an Aesara graph to a plan: walk it once, find every rule, number every variable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from aesara.compile.sharedvalue import SharedVariable
from aesara.graph.basic import Apply, Constant, Variable
from aesara.graph.fg import FunctionGraph
from aesara.scalar.basic import ScalarType
from aesara.tensor.basic import Nonzero
from aesara.tensor.extra_ops import Unique
from aesara.tensor.random.op import RandomVariable
from aesara.tensor.random.type import RandomType, random_generator_type
from aesara.tensor.subtensor import AdvancedSubtensor

from jaxprgen._jax import identity
from jaxprgen.aesara.advanced_subtensor import lone_mask
from jaxprgen.aesara.callback import can_be_called_back, lower_by_callback
from jaxprgen.aesara.ifelse import gather, lower_if_else
from jaxprgen.aesara.library import LIBRARY, describe_op, frame_of, is_array, name_of, origin
from jaxprgen.aesara.traversal import inner_nodes, toposort
from jaxprgen.errors import InvalidGraphError, UnsupportedOpError
from jaxprgen.lowering.driver import fold_constants
from jaxprgen.lowering.graph import KEY, Input, OutputType, Plan, Shared, Step
from jaxprgen.lowering.origin import Origins
from jaxprgen.lowering.registry import Rule, find_rule, folds, is_supported


def plan_of(
    graph: Any,
    outputs: Any = None,
    *,
    callbacks: bool = False,
    sizes: Mapping[Variable, int] | None = None,
    states: bool = False,
    held: Mapping[Variable, Any] | None = None,
) -> Plan:
    """The plan of a `FunctionGraph`, or of inputs and outputs; see `jaxprgen.compile`.

    With ``callbacks``, nodes without a rule call their Python implementation. With ``states``,
    those of generators are inputs and outputs as others are, each a key. Variables that are
    ``held`` have one value for all calls, which may be no array.
    """
    inputs, outputs = ends_of(graph, outputs)
    nodes = toposort(outputs, set(inputs))
    inputs = inputs if states else _with_key(inputs, nodes)
    plan = _Planner(callbacks, held or {}).plan(inputs, outputs, nodes)
    for variable in outputs:
        if not is_array(variable) and not (states and isinstance(variable.type, RandomType)):
            raise InvalidGraphError(f"Output {_no_array(variable)}")
    return replace(plan, sizes=_sizes(plan, sizes)) if sizes else plan


def _sizes(plan: Plan, sizes: Mapping[Variable, int]) -> dict[int, int]:
    """The sizes by place.

    Raises
    ------
    InvalidGraphError
        One is not the size of anything, or no size.
    """
    places = {
        plan.variables[place]: place
        for step in (*plan.steps, *plan.folded)
        for place in step.outputs
        if takes_size(step.node)
    }
    for variable, size in sizes.items():
        if variable not in places:
            raise InvalidGraphError(
                f"{name_of(variable)} is given a size, but is no result in this graph of nonzero, "
                "of unique or of taking what a single mask selects."
            )
        if not np.issubdtype(type(size), np.integer) or size < 0:
            raise InvalidGraphError(f"The size of {name_of(variable)} is given as {size!r}.")
    return {places[variable]: int(size) for variable, size in sizes.items()}


def takes_size(node: Apply) -> bool:
    """Whether the first axis of what a node gives can be given a size."""
    if isinstance(node.op, AdvancedSubtensor):
        return lone_mask(node, 1) is not None
    return isinstance(node.op, (Nonzero, Unique))


class _Planner:
    """Makes the plans of a graph and of those inside of it, each once."""

    def __init__(self, callbacks: bool, held: Mapping[Variable, Any]) -> None:
        self._callbacks = callbacks
        self._held = held
        self._inner: dict[int, tuple[Any, Plan]] = {}

    def inner(self, graph: FunctionGraph) -> Plan:
        """The plan of a graph inside of an Op."""
        found = self._inner.get(identity(graph))
        if found is None:
            nodes = toposort(graph.outputs, set(graph.inputs))
            plan = self.plan(tuple(graph.inputs), tuple(graph.outputs), nodes)
            found = self._inner[identity(graph)] = graph, plan
        return found[1]

    def plan(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        nodes: Sequence[Apply],
    ) -> Plan:
        """The plan of a graph of these nodes, which are in the order of computing."""
        made = _plan(inputs, outputs, nodes, self._callbacks, self._held, self.inner)
        return fold_constants(made)


def _with_key(inputs: Sequence[Variable], nodes: Sequence[Apply]) -> Sequence[Variable]:
    """The inputs that are arrays, behind a key if there are draws.

    Of generators none is an argument: a key stands for the states of all.
    """
    arrays = [v for v in inputs if not isinstance(v.type, RandomType)]
    states = [v for v in inputs if isinstance(v.type, RandomType)]
    draws = any(
        isinstance(v.type, RandomType) and (v.owner is None or v in states)
        for node in nodes
        for v in node.inputs
    )
    return [*([random_generator_type("key")] if draws else []), *arrays]


def _plan(
    inputs: Sequence[Variable],
    outputs: Sequence[Variable],
    given: Sequence[Apply],
    callbacks: bool,
    held: Mapping[Variable, Any],
    inner: Callable[[Any], Plan],
) -> Plan:
    numbering = _Numbering(held)
    for variable in inputs:
        numbering.add_leaf(variable)
    arguments = tuple(_input(v) for v in inputs)
    found = _rules_of(given, callbacks)
    nodes = gather(given, outputs)
    rules = [found.get(n, lower_if_else) for n in nodes]
    ends = [numbering.add_node(node) for node in nodes]
    output_places = tuple([numbering.place_of(v) for v in outputs])
    if numbering.missing:
        raise InvalidGraphError(_missing_text(numbering.missing))
    variables, source_infos = numbering.variables, numbering.origins.source_infos()
    types = [tuple([_output_type(v) for v in node.outputs]) for node in nodes]
    steps = [
        Step(
            node,
            rule,
            folds(rule),
            places,
            results,
            declared,
            source_infos[next((p for p in results if variables[p].name), results[0])],
        )
        for node, rule, declared, (places, results) in zip(nodes, rules, types, ends, strict=True)
    ]
    return Plan(
        LIBRARY,
        tuple(variables),
        source_infos,
        arguments,
        tuple(range(len(arguments))),
        output_places,
        tuple(numbering.shared),
        numbering.values,
        tuple(steps),
        inner=inner,
        generators=tuple(numbering.generators),
    )


def ends_of(graph: Any, outputs: Any) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
    """The inputs and outputs that are given, by a `FunctionGraph` or as they are.

    Raises
    ------
    InvalidGraphError
        These are no variables, there are no outputs, or an input is given twice or a constant.
    """
    if isinstance(graph, FunctionGraph):
        if outputs is not None:
            raise InvalidGraphError("A FunctionGraph has outputs of its own; leave out others.")
        graph, outputs = graph.inputs, graph.outputs
    inputs, outputs = _variables(graph, "inputs"), _variables(outputs, "outputs")
    if not outputs:
        raise InvalidGraphError("The graph has no outputs: there is nothing to compute.")
    seen: set[Variable] = set()
    for variable in inputs:
        if variable in seen:
            raise InvalidGraphError(f"{name_of(variable)} is given as an input twice.")
        if isinstance(variable, Constant):
            raise InvalidGraphError(f"{name_of(variable)} is a constant, not an input.")
        seen.add(variable)
    return inputs, outputs


def _variables(given: Any, what: str) -> tuple[Variable, ...]:
    if isinstance(given, Variable) or not isinstance(given, Iterable):
        given = (given,)
    variables: tuple[Any, ...] = tuple(given)
    for variable in variables:
        if not isinstance(variable, Variable):
            raise InvalidGraphError(
                "A graph is a FunctionGraph, or Aesara variables as inputs and outputs; among "
                f"the {what} is {variable!r}."
            )
    return variables


class _Numbering:
    """A place for every variable of a graph, in the order of computing."""

    def __init__(self, held: Mapping[Variable, Any]) -> None:
        self._held = held
        self.places: dict[Variable, int] = {}
        self.variables: list[Variable] = []
        self.values: list[Any] = []
        self.shared: list[Shared] = []
        self.generators: list[int] = []
        self.missing: list[tuple[Variable, Apply | None]] = []
        self.origins = Origins()

    def _add(self, variable: Variable) -> int:
        place = len(self.variables)
        # An input that a node computes beside others keeps its place: what is given counts.
        self.places.setdefault(variable, place)
        self.variables.append(variable)
        self.values.append(None)
        return place

    def add_leaf(self, variable: Variable) -> int:
        """A place for a variable that no node computes."""
        self.origins.add_leaf(variable.name, frame_of(variable))
        return self._add(variable)

    def add_node(self, node: Apply) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Places for the outputs of a node; those of its inputs, and these."""
        inputs = tuple([self.place_of(v, node) for v in node.inputs])
        names = [v.name for v in node.outputs]
        self.origins.add_node(inputs, names, frame_of(*node.outputs))
        return inputs, tuple([self._add(v) for v in node.outputs])

    def place_of(self, variable: Variable, client: Apply | None = None) -> int:
        """The variable's place; one that no node computes gets it here."""
        place = self.places.get(variable)
        if place is not None:
            return place
        place = self.add_leaf(variable)
        if isinstance(variable.type, RandomType):
            self.generators.append(place)
        elif variable in self._held:
            self.values[place] = self._held[variable]
        elif isinstance(variable, Constant):
            self.values[place] = np.asarray(variable.data) if is_array(variable) else variable.data
        elif isinstance(variable, SharedVariable):
            self.shared.append(_shared(variable, place))
        elif variable.owner is None:
            self.missing.append((variable, client))
        return place


def _rules_of(nodes: Sequence[Apply], callbacks: bool) -> dict[Apply, Rule]:
    """The rule of each node."""
    rules: dict[Apply, Rule] = {}
    by_op: dict[int, Rule | None] = {}  # Nodes share Ops.
    unsupported: list[Apply] = []
    rows: list[str] = []
    for node, holder in inner_nodes(nodes):
        if identity(node.op) not in by_op:
            by_op[identity(node.op)] = find_rule(type(node.op)) if is_supported(node.op) else None
        rule = by_op[identity(node.op)]
        if rule is None:
            rule = lower_by_callback
            if not (callbacks and can_be_called_back(node)):
                unsupported.append(node)
                rows.append(f"  {describe_op(node)}\n    {origin(node)}")
                rows += [f"    inside of {describe_op(holder)}"] if holder else []
        if holder is None:
            rules[node] = rule
    if unsupported:
        raise UnsupportedOpError(
            f"{len(unsupported)} node(s) of this graph have no rule:\n"
            + "\n".join(rows)
            + "\nRegister one with @jaxprgen.lowers(OpClass)"
            + _samples_text(unsupported)
            + _callbacks_text(unsupported, callbacks)
            + "\njaxprgen.check says what else there is to do, and what of the graph compiles."
        )
    return rules


def _samples_text(unsupported: Sequence[Apply]) -> str:
    """What to do about random variables among them."""
    if any(isinstance(node.op, RandomVariable) for node in unsupported):
        return (
            ", or, for a RandomVariable, a function of jax.random with @jaxprgen.samples(OpClass)"
        )
    return ""


def _callbacks_text(unsupported: Sequence[Apply], callbacks: bool) -> str:
    """What callbacks could do about them."""
    if callbacks:
        return "; these cannot be called back: they take or give what is no array."
    if any(map(can_be_called_back, unsupported)):
        return ', or run its Python implementation on the host: compile(..., fallback="callback").'
    return "."


def _missing_text(missing: Sequence[tuple[Variable, Apply | None]]) -> str:
    rows = [
        f"  {name_of(v)}, a {v.type}"
        + (f", used in {describe_op(n)}\n    {origin(n)}" if n else ", an output itself")
        for v, n in missing
    ]
    return (
        "The outputs depend on variables that are not among the inputs:\n"
        + "\n".join(rows)
        + "\nAdd them to the inputs, or replace them by constants or shared variables."
    )


def _input(variable: Variable) -> Input:
    if isinstance(variable.type, RandomType):
        return Input(name_of(variable), KEY, ())
    if not is_array(variable):
        raise InvalidGraphError(f"Input {_no_array(variable)}")
    shape = () if isinstance(variable.type, ScalarType) else tuple(variable.type.shape)
    return Input(name_of(variable), np.dtype(variable.type.dtype), shape)


def _no_array(variable: Variable) -> str:
    return (
        f"{name_of(variable)} has type {variable.type}, which is no array; jaxprgen takes and "
        "returns tensors and scalars."
    )


def _output_type(variable: Variable) -> OutputType | None:
    if not is_array(variable):
        return None
    return OutputType(np.dtype(variable.type.dtype), variable.type.ndim)


def _shared(variable: SharedVariable, place: int) -> Shared:
    declared = _input(variable)

    def read() -> Any:
        return variable.get_value(borrow=True, return_internal_type=True)

    return Shared(declared.name, declared.dtype, place, read)
