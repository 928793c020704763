"""What a user passes of a graph: its inputs and outputs, and sizes of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxprgen.errors import InvalidGraphError
from jaxprgen.graphs.library import Variables, library_for, name_of, named
from jaxprgen.lowering.graph import Plan
from jaxprgen.lowering.names import Apply, Variable, is_a, module_of
from jaxprgen.lowering.traversal import toposort
from jaxprgen.ops.advanced_subtensor import lone_mask


def ends_of(graph: Any, outputs: Any) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
    """Return the inputs and outputs of a graph, given as a `FunctionGraph` or as they are.

    Raises
    ------
    InvalidGraphError
        They are not variables, there are no outputs, or an input is a constant or given twice.
    """
    if is_a(graph, "graph.FunctionGraph"):
        if outputs is not None:
            raise InvalidGraphError("A FunctionGraph has outputs of its own; do not pass others.")
        graph, outputs = graph.inputs, graph.outputs
    inputs = _variables(graph if is_sequence(graph) else [graph], "inputs")
    outputs = _variables(flattened(outputs)[0], "outputs")
    if not outputs:
        raise InvalidGraphError("The graph has no outputs: there is nothing to compute.")
    seen: set[Variable] = set()
    for variable in inputs:
        if variable in seen:
            raise InvalidGraphError(f"{name_of(variable)} is given as an input twice.")
        if is_a(variable, "graph.Constant"):
            raise InvalidGraphError(f"{name_of(variable)} is a constant, not an input.")
        seen.add(variable)
    return inputs, outputs


def sorted_graph(inputs: Variables, outputs: Variables) -> tuple[Variables, list[Apply]]:
    """Return the outputs and the sorted nodes of a graph, after what its library rewrites.

    See `jaxprgen.graphs.library.GraphLibrary.lowered`.
    """
    known = set(inputs)
    nodes = toposort(outputs, known)
    kinds = {type(node.op) for node in nodes}
    found = library_for(outputs[0]).lowered(inputs, outputs, kinds)
    return (found, nodes) if found is outputs else (found, toposort(found, known))


def flattened(outputs: Any) -> tuple[list[Any], Any]:
    """Return the outputs in a list, and the structure in which they were given.

    Parameters
    ----------
    outputs
        One output, or a pytree of outputs. Another iterable counts as a list.

    Returns
    -------
    list, jax.tree_util.PyTreeDef
        The leaves, and the pytree's structure.
    """
    if is_sequence(outputs) and jax.tree_util.all_leaves([outputs]):
        outputs = list(outputs)
    return jax.tree.flatten(outputs, is_leaf=lambda x: x is None)


def is_sequence(given: Any) -> bool:
    """Return whether an argument holds variables and is not itself one."""
    return isinstance(given, Iterable) and not is_a(given, "graph.Variable")


def _variables(given: Iterable[Any], role: str) -> tuple[Variable, ...]:
    variables = tuple(given)
    for variable in variables:
        if not is_a(variable, "graph.Variable"):
            raise InvalidGraphError(
                "Pass a FunctionGraph, or variables of a graph as inputs and outputs; the "
                f"{role} contain {variable!r}."
            )
    return variables


def with_key(inputs: Variables, nodes: Sequence[Apply]) -> Variables:
    """Return the inputs that are arrays, after a key if nodes draw random numbers.

    The states of all generators follow from the key; none of them is an argument.
    """
    arrays = [v for v in inputs if not is_a(v.type, "tensor.RandomType")]
    given = set(inputs)
    leaves = (v for node in nodes for v in node.inputs if v.owner is None or v in given)
    if not any(is_a(v.type, "tensor.RandomType") for v in leaves):
        return arrays
    types = module_of(nodes[0].op, "tensor.random.type")
    return [types.random_generator_type("key"), *arrays]


def sizes_by_place(plan: Plan, sizes: Mapping[Variable | str, int]) -> dict[int, int]:
    """Return the sizes of results by their places in a plan.

    Parameters
    ----------
    sizes
        The sizes by the results' variables or names.

    Raises
    ------
    InvalidGraphError
        A variable or name is not that of one result that takes a size, or a size is not one.
    """
    if not sizes:
        return {}
    steps = (step for step in plan.steps if _takes_size(step.node))
    places = {plan.variables[place]: place for step in steps for place in step.outputs}
    found: dict[int, int] = {}
    for given, size in sizes.items():
        variable = given
        if isinstance(given, str):
            variable = named(given, places, "sizes", "results that take a size", _NO_SIZE)
        if variable not in places:
            raise InvalidGraphError(f"sizes: {name_of(variable)} {_NO_SIZE}.")
        if not np.issubdtype(type(size), np.integer) or size < 0:
            raise InvalidGraphError(
                f"sizes: the size of {name_of(variable)} must be an integer >= 0, got {size!r}."
            )
        found[places[variable]] = int(size)
    return found


_NO_SIZE = "is not the result of nonzero, of unique or of indexing with a single mask in this graph"


def _takes_size(node: Apply) -> bool:
    """Return whether the user may give a size to the first axis of a node's results."""
    if is_a(node.op, "tensor.AdvancedSubtensor"):
        return lone_mask(node, 1) is not None
    return is_a(node.op, "tensor.Nonzero", "tensor.Unique")
