"""Planning: walk an Aesara graph once, find every node's rule, number every variable."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jaxprgen import _jax, collector
from jaxprgen.arguments.inputs import KEY, Input
from jaxprgen.arguments.shardings import PortableSharding
from jaxprgen.errors import InvalidGraphError
from jaxprgen.graphs.callback import can_be_called_back, lower_by_callback
from jaxprgen.graphs.inner_updates import updates_inside, with_updates_outside
from jaxprgen.graphs.interface import ends_of, sizes_by_place, sorted_graph, with_key
from jaxprgen.graphs.known import KNOWN, known_nodes, unsupported_error, without_rule
from jaxprgen.graphs.library import (
    Variables,
    describe_op,
    frame_of,
    is_array,
    is_sparse,
    library_for,
    name_of,
    origin,
)
from jaxprgen.graphs.naming import Names
from jaxprgen.graphs.shardings import placed_constants, shardings_of
from jaxprgen.graphs.sparse import opened
from jaxprgen.graphs.tables import Tables, remade
from jaxprgen.graphs.typed_lists import is_typed_list
from jaxprgen.lowering.graph import OutputType, Plan, Shared, Step
from jaxprgen.lowering.names import Apply, FunctionGraph, Variable, is_a, library_of
from jaxprgen.lowering.origin import Origins
from jaxprgen.lowering.registry import Registration, supported
from jaxprgen.lowering.traversal import inner_nodes, toposort
from jaxprgen.ops.ifelse import gather, lower_if_else

Planned = Callable[[Variables, Variables, Sequence[Apply]], Plan]
"""A function that plans the graph of these inputs, outputs and sorted nodes."""


@collector.paused()
def plan_of(
    graph: Any,
    outputs: Any = None,
    *,
    callbacks: bool = False,
    sizes: Mapping[Variable | str, int] | None = None,
    states: bool = False,
    fixed: Mapping[Variable, Any] | None = None,
    shardings: Mapping[Any, Any] | None = None,
    carried: Mapping[int, int] | None = None,
) -> Plan:
    """Return the plan of a graph.

    Parameters
    ----------
    graph, outputs
        A `FunctionGraph`, or the inputs and the outputs of a graph.
    callbacks
        Run the Python implementation of nodes without a rule.
    sizes
        The sizes of results whose sizes depend on values; see `jaxprgen.compile`.
    states
        Let random generators be inputs and outputs, each a key. By default the graph takes one key,
        as its first input, if it draws random numbers.
    fixed
        Variables with one value for all calls, which need not be an array.
    shardings
        Where the data of variables live; see `jaxprgen.compile`.
    carried
        The outputs that are the next values of inputs; see `jaxprgen.lowering.graph.Plan`.

    Raises
    ------
    InvalidGraphError
        The inputs and outputs do not form a graph of tensors and scalars, or a size is not one.
    UnsupportedOpError
        A node has no rule.
    ShardingError
        Data cannot be split as asked.
    """
    ends = inputs, outputs = ends_of(graph, outputs)
    outputs, nodes = sorted_graph(inputs, outputs)
    if any(updates_inside(node.op) for node in nodes):
        outputs, _ = with_updates_outside(outputs, inputs)
        nodes = toposort(outputs, set(inputs))
    found = shardings_of(shardings or {}, inputs, outputs, nodes)
    where = {v: PortableSharding.of(sharding) for v, sharding in found.items()}
    options = {"callbacks": callbacks, "sizes": sizes, "states": states}
    options |= {"fixed": fixed, "carried": carried}
    matrices = opened(inputs, outputs, nodes)
    if matrices is not None:
        inputs, outputs = matrices.inputs, matrices.outputs
        nodes = toposort(outputs, set(inputs))
        carried = matrices.moved(carried or {})
        found = {matrices.replaced.get(v, v): sharding for v, sharding in found.items()}
        sizes = {matrices.replaced.get(v, v): n for v, n in (sizes or {}).items()}
    drawn = _own_generators(inputs, nodes) if states else []
    arrays, inputs = inputs, [*inputs, *drawn] if states else with_key(inputs, nodes)
    has_key = not states and len(inputs) > len(arrays)
    known = {**(fixed or {}), **placed_constants(found)}
    plan = _planner(callbacks, known)(inputs, outputs, nodes)
    for variable in outputs:
        if not is_array(variable) and not (states and is_a(variable.type, "tensor.RandomType")):
            raise InvalidGraphError(f"Output {_not_an_array(variable)}")
    return replace(
        plan,
        sizes=sizes_by_place(plan, sizes or {}),
        carried=carried or {},
        arguments={i + has_key: x for i, x in matrices.arguments.items()} if matrices else {},
        results=matrices.results if matrices else {},
        keys=len(drawn),
        shardings={p: found[v] for p, v in enumerate(plan.variables) if v in found},
        reduced=lambda: (remade, (_plan_again, Tables((*ends, where, options), ends[0]))),
    )


def _own_generators(inputs: Variables, nodes: Sequence[Apply]) -> list[Variable]:
    """Return the generators that Ops without one, which draw from NumPy's global one, get."""
    read = dict.fromkeys(v for node in nodes for v in node.inputs if v.owner is None)
    given = {*inputs}
    return [v for v in read if is_a(v.type, "tensor.RandomType") and v not in given]


def _plan_again(
    inputs: Any, outputs: Any, where: Mapping[Variable, PortableSharding], options: dict[str, Any]
) -> Plan:
    shardings = {v: sharding.restored() for v, sharding in where.items()}
    return plan_of(inputs, outputs, shardings=shardings, **options)


def plan_of_nodes(inputs: Variables, outputs: Variables, nodes: Sequence[Apply]) -> Plan:
    """Return the plan of a part of a graph: these sorted nodes, all of which have rules."""
    return _planner(False, {})(with_key(inputs, nodes), outputs, nodes)


# --- Steps --------------------------------------------------------------------------------


def _planner(callbacks: bool, fixed: Mapping[Variable, Any]) -> Planned:
    """Return a function that plans a graph, and each graph inside of its Ops once."""
    names = Names()

    def plan(inputs: Variables, outputs: Variables, nodes: Sequence[Apply]) -> Plan:
        rules = _rules_of(nodes, callbacks)
        names.add(nodes)
        arguments = tuple(_input(v) for v in inputs)
        numbering = _Numbering(fixed, names)
        for variable in inputs:
            numbering.add_leaf(variable)
        gathered, of_branches = gather(nodes, outputs)
        places = [numbering.add_node(node) for node in gathered]
        output_places = tuple(numbering.place_of(v) for v in outputs)
        if numbering.missing:
            raise InvalidGraphError(_missing_text(numbering.missing))
        source_infos = numbering.origins.source_infos()
        steps: list[Step] = []
        for node, (read, made) in zip(gathered, places, strict=True):
            rule = rules.get(node, Registration(lower_if_else))
            types = tuple([_output_type(v) for v in node.outputs])
            named = (p for p, v in zip(made, node.outputs, strict=True) if v.name)
            info = source_infos[next(named, made[0])]
            steps.append(Step(node, rule, read, made, types, info, node in of_branches))
        ends = tuple(range(len(arguments))), output_places
        return Plan(
            library_for(outputs[0]),
            *(tuple(numbering.variables), source_infos, arguments, *ends, tuple(numbering.shared)),
            numbering.values,
            tuple(steps),
            inner=inner,
            generators=tuple(numbering.generators),
        )

    @functools.cache
    def inner(graph: FunctionGraph) -> Plan:
        return plan(graph.inputs, graph.outputs, toposort(graph.outputs, set(graph.inputs)))

    return plan


class _Numbering:
    """A place for every variable of a graph, in the order of computation."""

    def __init__(self, fixed: Mapping[Variable, Any], names: Names) -> None:
        self._fixed, self._names = fixed, names
        self._places: dict[Variable, int] = {}
        self.variables: list[Variable] = []
        self.values: list[Any] = []
        self.shared: list[Shared] = []
        self.generators: list[int] = []
        self.missing: list[tuple[Variable, Apply | None]] = []
        self.origins = Origins()

    def _add(self, variable: Variable) -> int:
        place = len(self.variables)
        # An input that a node also computes keeps its place: the given value counts.
        self._places.setdefault(variable, place)
        self.variables.append(variable)
        self.values.append(None)
        return place

    def add_leaf(self, variable: Variable) -> int:
        """Add a variable that no node computes, and return its place."""
        self.origins.add_leaf(self._names.of(variable), frame_of(variable))
        return self._add(variable)

    def add_node(self, node: Apply) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Add the outputs of a node, and return the places of its inputs and of its outputs."""
        inputs = tuple([self.place_of(v, node) for v in node.inputs])
        names = [self._names.of(v) for v in node.outputs]
        self.origins.add_node(inputs, names, frame_of(*node.outputs))
        return inputs, tuple([self._add(v) for v in node.outputs])

    def place_of(self, variable: Variable, client: Apply | None = None) -> int:
        """Return the place of a variable, after adding it if it is a leaf seen for the first time.

        ``client`` is the node that needs it; None for an output.
        """
        place = self._places.get(variable)
        if place is not None:
            return place
        place = self.add_leaf(variable)
        if is_a(variable.type, "tensor.RandomType"):
            self.generators.append(place)
        elif variable in self._fixed:
            self.values[place] = self._fixed[variable]
        elif is_a(variable, "graph.Constant"):
            self.values[place] = _data(variable)
        elif is_a(variable, "compile.SharedVariable"):
            self.shared.append(_shared(variable, place))
        elif variable.owner is None:
            self.missing.append((variable, client))
        return place


def _data(constant: Any) -> Any:
    """Return the data of a constant; as a NumPy array, unless several devices hold it."""
    is_known_array = is_array(constant) and not _jax.is_on_several_devices(constant.data)
    return np.asarray(constant.data) if is_known_array else constant.data


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


# --- Rules --------------------------------------------------------------------------------


def _rules_of(nodes: Sequence[Apply], callbacks: bool) -> dict[Apply, Registration]:
    """Return the rule of each node.

    Raises
    ------
    UnsupportedOpError
        A node, or one inside of its Op to any depth, has no rule.
    """
    found: dict[int, Registration | None] = {}  # Many nodes share an Op.
    for node, _ in inner_nodes(nodes):
        if id(node.op) not in found:
            found[id(node.op)] = supported(node.op)
    if all(found.values()):
        return {node: found[id(node.op)] for node in nodes}  # type: ignore[misc]
    missing = without_rule(nodes, lambda node: callbacks and can_be_called_back(node))
    if missing:
        raise unsupported_error(missing, callbacks)
    known, called = known_nodes(nodes), Registration(lower_by_callback)
    return {n: KNOWN if n in known else found[id(n.op)] or called for n in nodes}


# --- Declared types -----------------------------------------------------------------------


def _input(variable: Variable) -> Input:
    if is_a(variable.type, "tensor.RandomType"):
        return Input(name_of(variable, None), KEY, ())
    if not is_array(variable) and not is_sparse(variable):
        raise InvalidGraphError(f"Input {_not_an_array(variable)}")
    shape = () if is_a(variable.type, "scalar.ScalarType") else tuple(variable.type.shape)
    return Input(name_of(variable, None), np.dtype(variable.type.dtype), shape)


def _not_an_array(variable: Variable) -> str:
    return (
        f"{name_of(variable)} has type {variable.type}, which is not an array; jaxprgen takes and "
        "returns tensors and scalars." + _instead(variable)
    )


def _instead(variable: Variable) -> str:
    """Return the line that made a variable which is not an array, and what to do about a list."""
    frame = None if is_a(variable, "graph.Constant") else frame_of(variable)
    remedy = ""
    if is_typed_list(variable) and variable.owner is not None:
        remedy = "\nReturn its arrays one by one."
    elif is_typed_list(variable):
        make = f"{library_of(variable)}.typed_list.make_list"
        remedy = f"\nTake its arrays as inputs, and let {make} make the list; or compile in mode "
        remedy += '"JAXPR", which takes lists.'
    return remedy + (f"\n  {frame.built}" if frame else "")


def _output_type(variable: Variable) -> OutputType | None:
    if not is_array(variable):
        return None
    return OutputType(np.dtype(variable.type.dtype), variable.type.ndim)


def _shared(variable: Any, place: int) -> Shared:
    declared = _input(variable)

    def read() -> Any:
        return variable.get_value(borrow=True, return_internal_type=True)

    return Shared(declared.name, declared.dtype, place, read)
