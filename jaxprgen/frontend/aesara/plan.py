"""From an Aesara graph to a plan: walk it once, find every rule, number every variable."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from aesara.compile.sharedvalue import SharedVariable
from aesara.graph.basic import Apply, Constant, Variable
from aesara.graph.fg import FunctionGraph
from aesara.scalar.basic import ScalarType
from aesara.tensor.type import TensorType

from jaxprgen.errors import InvalidGraphError, UnsupportedOpError
from jaxprgen.frontend.aesara.library import LIBRARY, describe_op, name_of, origin
from jaxprgen.frontend.aesara.order import toposort
from jaxprgen.frontend.folding import fold_constants
from jaxprgen.frontend.graph import Input, OutputType, Plan, Shared, Step
from jaxprgen.frontend.registry import Rule, find_rule, folds


def plan_of(graph: Any, outputs: Any = None) -> Plan:
    """The plan of a `FunctionGraph`, or of inputs and outputs; see `jaxprgen.compile`."""
    if isinstance(graph, FunctionGraph):
        if outputs is not None:
            raise InvalidGraphError("A FunctionGraph has outputs of its own; leave out others.")
        return _plan(tuple(graph.inputs), tuple(graph.outputs))
    return _plan(_variables(graph, "inputs"), _variables(outputs, "outputs"))


def _variables(given: Any, what: str) -> tuple[Variable, ...]:
    if isinstance(given, Variable) or not isinstance(given, Iterable):
        given = (given,)
    variables: tuple[Any, ...] = tuple(given)
    for variable in variables:
        if not isinstance(variable, Variable):
            raise InvalidGraphError(
                "compile takes a FunctionGraph, or Aesara variables as inputs and outputs; among "
                f"the {what} is {variable!r}."
            )
    return variables


def _plan(inputs: tuple[Variable, ...], outputs: tuple[Variable, ...]) -> Plan:
    if not outputs:
        raise InvalidGraphError("The graph has no outputs: there is nothing to compute.")
    places: dict[Variable, int] = {}
    for variable in inputs:
        if variable in places:
            raise InvalidGraphError(f"{name_of(variable)} is given as an input twice.")
        if isinstance(variable, Constant):
            raise InvalidGraphError(f"{name_of(variable)} is a constant, not an input.")
        places[variable] = len(places)
    declared = tuple(_input(v) for v in inputs)
    values: list[Any] = [None] * len(inputs)
    shared: list[Shared] = []
    missing: list[tuple[Variable, Apply | None]] = []

    def place_of(variable: Variable, client: Apply | None) -> int:
        """The variable's place; one that no node computes gets it here."""
        place = places.get(variable)
        if place is not None:
            return place
        place = places[variable] = len(places)
        values.append(None)
        if isinstance(variable, Constant):
            values[place] = _constant(variable)
        elif isinstance(variable, SharedVariable):
            shared.append(_shared(variable, place))
        elif variable.owner is None:
            missing.append((variable, client))
        return place

    nodes = toposort(outputs, set(inputs))
    rules = _rules_of(nodes)
    steps: list[Step] = []
    for node in nodes:
        rule = rules[type(node.op)]
        steps.append(
            Step(
                node,
                rule,
                folds(rule),
                tuple([place_of(v, node) for v in node.inputs]),
                tuple([place_of(v, None) for v in node.outputs]),
                tuple([_output_type(v.type) for v in node.outputs]),
            )
        )
    output_places = tuple([place_of(v, None) for v in outputs])
    for variable in outputs:
        if _output_type(variable.type) is None:
            raise InvalidGraphError(f"Output {_no_array(variable)}")
    if missing:
        raise InvalidGraphError(_missing_text(missing))
    plan = Plan(
        LIBRARY,
        declared,
        tuple(range(len(inputs))),
        output_places,
        tuple(shared),
        values,
        tuple(steps),
    )
    return fold_constants(plan)


def _rules_of(nodes: Sequence[Apply]) -> dict[type, Rule]:
    rules: dict[type, Rule] = {}
    unsupported: list[Apply] = []
    for node in nodes:
        op_type = type(node.op)
        if op_type not in rules:
            rule = find_rule(op_type)
            if rule is None:
                unsupported.append(node)
                continue
            rules[op_type] = rule
        supports = getattr(rules[op_type], "supports", None)
        if supports is not None and not supports(node.op):
            unsupported.append(node)
    if unsupported:
        rows = [f"  {describe_op(node)}\n    {origin(node)}" for node in unsupported]
        raise UnsupportedOpError(
            f"{len(unsupported)} node(s) of this graph have no rule:\n"
            + "\n".join(rows)
            + "\nRegister one with @jaxprgen.lowers(OpClass)."
        )
    return rules


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
    kind = variable.type
    if isinstance(kind, TensorType):
        return Input(name_of(variable), np.dtype(kind.dtype), tuple(kind.shape))
    if isinstance(kind, ScalarType):
        return Input(name_of(variable), np.dtype(kind.dtype), ())
    raise InvalidGraphError(f"Input {_no_array(variable)}")


def _no_array(variable: Variable) -> str:
    return (
        f"{name_of(variable)} has type {variable.type}, which is no array; jaxprgen takes and "
        "returns tensors and scalars."
    )


def _output_type(kind: Any) -> OutputType | None:
    return _declared(kind.dtype, kind.ndim) if isinstance(kind, (TensorType, ScalarType)) else None


@functools.lru_cache(maxsize=1024)
def _declared(dtype: str, rank: int) -> OutputType:
    return OutputType(np.dtype(dtype), rank)


def _constant(variable: Constant) -> Any:
    if isinstance(variable.type, (TensorType, ScalarType)):
        return np.asarray(variable.data)
    return variable.data


def _shared(variable: SharedVariable, place: int) -> Shared:
    declared = _input(variable)

    def read() -> Any:
        return variable.get_value(borrow=True, return_internal_type=True)

    return Shared(declared.name, declared.dtype, place, read)
