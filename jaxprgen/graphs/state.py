"""Graphs with shared variables: those that a function reads, and those that it updates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from jaxprgen.arguments.inputs import free_name
from jaxprgen.arguments.shardings import PortableSharding
from jaxprgen.errors import InvalidGraphError
from jaxprgen.graphs.inner_updates import (
    is_placeholder,
    require_not_updated_twice,
    with_updates_outside,
)
from jaxprgen.graphs.library import Variables, name_of
from jaxprgen.graphs.shardings import shardings_of
from jaxprgen.graphs.tables import Tables, remade
from jaxprgen.lowering.names import Variable, is_a, library_of, module_of
from jaxprgen.lowering.traversal import toposort

Pairs: TypeAlias = Mapping[Any, Any] | Iterable[tuple[Any, Any]]


class StatefulGraph(NamedTuple):
    """A graph, and the shared variables that it reads and updates.

    Attributes
    ----------
    inputs, names
        The variables of the arguments, and the arguments' names.
    defaults
        Default values of arguments, by position.
    outputs
        The variables of the results.
    shared
        The shared variables that are read or updated, by name.
    updates
        The new values of shared variables.
    shardings
        Where the data of variables live.
    """

    inputs: tuple[Variable, ...]
    names: tuple[str, ...]
    defaults: dict[int, Any]
    outputs: tuple[Variable, ...]
    shared: dict[str, Any]
    updates: dict[Any, Variable]
    shardings: dict[Variable, PortableSharding]

    def __reduce__(self) -> Any:
        return remade, (StatefulGraph, Tables(tuple(self), self.inputs))


def stateful_graph(
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    updates: Pairs | None,
    givens: Pairs | None,
    no_default_updates: bool | Sequence[Any],
    shardings: Mapping[Any, Any] | None = None,
) -> StatefulGraph:
    """Return the graph of a function; the parameters are those of `jaxprgen.function`.

    Raises
    ------
    InvalidGraphError
        An updated variable is not shared or is updated twice, or a new value has another type.
    """
    given = [x if is_a(x, "compile.In") else module_of(x, "compile.io").In(x) for x in inputs]
    chosen = [(x.variable, x.update) for x in given if x.update is not None]
    new = _updates([*_pairs(updates), *chosen])
    results = [x.variable if is_a(x, "compile.SymbolicOutput") else x for x in outputs]
    replaced = _pairs(givens)
    known = {x.variable for x in given}
    while True:
        whole = substitute([*results, *new.values()], replaced)
        leaves = _shared_leaves(whole, known)
        kept = no_default_updates
        kept = {*(leaves if kept is True else kept or ())} | new.keys()
        missing = [v for v in leaves if v.default_update is not None and v not in kept]
        if not missing:
            break
        new |= _updates([(v, v.default_update) for v in missing])
    whole, advanced = with_updates_outside(whole, known)
    require_not_updated_twice((v for v, x in new.items() if not is_placeholder(x)), advanced)
    values = zip(new, whole[len(results) :], strict=True)
    new = {v: x for v, x in values if x is not v}  # What an Op only reads has itself as new value.
    whole = [*whole[: len(results)], *new.values()]
    shared = list(dict.fromkeys([*leaves, *new]))
    variables = [x.variable for x in given]
    # A name may be that of an argument, and ``givens`` may have replaced an output.
    meant = {x.name: x.variable for x in given} | dict(zip(results, whole, strict=False))
    wanted = {meant.get(key, key): x for key, x in (shardings or {}).items()}
    nodes = toposort(whole, {*variables})
    found = shardings_of(wanted, [*variables, *shared], whole[: len(results)], nodes)
    return StatefulGraph(
        tuple(variables),
        tuple(x.name or f"argument_{i}" for i, x in enumerate(given)),
        {i: x.value for i, x in enumerate(given) if x.value is not None},
        tuple(whole[: len(results)]),
        dict(zip(names_of(shared), shared, strict=True)),
        dict(zip(new, whole[len(results) :], strict=True)),
        {v: PortableSharding.of(sharding) for v, sharding in found.items()},
    )


def _pairs(given: Pairs | None) -> list[tuple[Any, Any]]:
    return list(given.items() if isinstance(given, Mapping) else given or ())


def _updates(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Variable]:
    found: dict[Any, Variable] = {}
    for variable, value in pairs:
        if not is_a(variable, "compile.SharedVariable"):
            raise InvalidGraphError(
                f"{name_of(variable)} cannot be updated: it is not a shared variable. Make it one "
                f"with {library_of(variable)}.shared."
            )
        if variable in found:
            raise InvalidGraphError(f"{name_of(variable)} is updated twice.")
        try:
            found[variable] = variable.type.filter_variable(value, allow_convert=True)
        except TypeError as error:
            kind = getattr(value, "type", type(value).__name__)
            raise InvalidGraphError(
                f"{name_of(variable)} is a {variable.type}; a {kind} cannot be its new value. Cast "
                "the update to that dtype and number of axes."
            ) from error
    return found


def _shared_leaves(outputs: Variables, known: Iterable[Variable]) -> list[Any]:
    """Return the shared variables that outputs depend on, in the order of computation."""
    found: dict[Any, None] = {}
    known = set(known)
    nodes = toposort(outputs, known)
    for variable in [*(v for node in nodes for v in node.inputs), *outputs]:
        if is_a(variable, "compile.SharedVariable") and variable not in known:
            found[variable] = None
    return list(found)


def names_of(variables: Variables) -> list[str]:
    """Return distinct names of variables, numbered where one is missing or taken."""
    found: dict[str, None] = {}  # An ordered set.
    for i, variable in enumerate(variables):
        found[free_name(variable.name or f"shared_{i}", found, i)] = None
    return list(found)


def substitute(outputs: Variables, replaced: Sequence[tuple[Variable, Any]]) -> list[Variable]:
    """Return outputs with some variables replaced; the graph itself does not change.

    Raises
    ------
    InvalidGraphError
        A replacement has another type than its variable.
    """
    found = substitution(outputs, replaced)
    return [found.get(v, v) for v in outputs]


def substitution(
    outputs: Variables, replaced: Sequence[tuple[Variable, Any]]
) -> dict[Variable, Variable]:
    """Return what takes the place of each variable that depends on others that are replaced.

    The parameters and errors are those of `substitute`.
    """
    found: dict[Variable, Variable] = {}
    for old, value in replaced:
        try:
            found[old] = old.type.filter_variable(value, allow_convert=True)
        except TypeError as error:
            raise InvalidGraphError(
                f"{name_of(old)} is a {old.type}; {value!r} cannot replace it."
            ) from error
    for node in toposort(outputs, set(found)) if found else ():
        inputs = [found.get(v, v) for v in node.inputs]
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            clone = node.clone_with_new_inputs(inputs)
            for mine, theirs in zip(node.outputs, clone.outputs, strict=True):
                found.setdefault(mine, theirs)
    return found
