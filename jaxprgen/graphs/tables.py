"""Graphs as tables, which pickle without recursion and share all but state with deep copies."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprgen._jax import Frame
from jaxprgen.errors import UnpicklableError
from jaxprgen.graphs.library import Variables, describe_op, is_array, line_of, name_of, origin
from jaxprgen.lowering.names import LIBRARIES, Apply, Variable, is_a, module_of
from jaxprgen.lowering.portable import portable
from jaxprgen.lowering.registry import ADOPTED, adopt, registered
from jaxprgen.lowering.traversal import toposort
from jaxprgen.ops.random import SAMPLERS


class _Place(NamedTuple):
    """Stands for a variable in a structure."""

    place: int


class Tables:
    """A structure of variables and other values, and the graph of the variables.

    Aesara's objects refer to each other, so pickling one recurses through the graph. Here nodes are
    rows, each after its inputs. Nothing above the inputs is kept, and nothing that the variables do
    not depend on, such as default updates and test values.

    Parameters
    ----------
    structure
        Tuples, lists and dictionaries of variables and other values.
    inputs
        The variables at which the graph ends. They lose their values and owners.
    """

    def __init__(self, structure: Any, inputs: Variables) -> None:
        found: list[Any] = []
        _mapped(structure, found.append)
        found = [x for x in found if is_a(x, "graph.Variable")]
        nodes, given = toposort(found, set(inputs)), set(inputs)
        computed = {v for node in nodes for v in node.outputs} - given
        reached = itertools.chain(inputs, *(node.inputs for node in nodes), found)
        leaves = [v for v in dict.fromkeys(reached) if v not in computed]
        places: dict[Any, int] = {}
        for place, v in enumerate(itertools.chain(leaves, *(node.outputs for node in nodes))):
            places.setdefault(v, place)  # The given value of an input counts.
        # The first node of each Op, for error messages.
        self._nodes = [*{id(node.op): node for node in reversed(nodes)}.values()]
        self._ops = [node.op for node in self._nodes]
        ops = {id(op): i for i, op in enumerate(self._ops)}
        types: dict[Any, Any] = {}  # Equal types become one object.
        self._rows: list[tuple[int, list[int], list[Any]]] = []
        for node in nodes:
            kinds = (types.setdefault(v.type, v.type) for v in node.outputs)
            made = [(kind, v.name, line_of(v)) for v, kind in zip(node.outputs, kinds, strict=True)]
            self._rows.append((ops[id(node.op)], [places[v] for v in node.inputs], made))
        self._leaves = [_alone(v, v in given) for v in leaves]
        self._structure = _mapped(
            structure, lambda x: _Place(places[x]) if is_a(x, "graph.Variable") else x
        )

    def structure(self) -> Any:
        """Return the structure, with the graph made anew."""
        found = list(self._leaves)
        for op, inputs, outputs in self._rows:
            made = [_on_line(kind.make_variable(name), line) for kind, name, line in outputs]
            apply = module_of(self._ops[op], "graph.basic").Apply
            apply(self._ops[op], [found[i] for i in inputs], made)
            found += made
        return _mapped(self._structure, lambda x: found[x.place] if type(x) is _Place else x)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tables:
        """Return tables with copies of the values of shared variables, and of no Op or constant."""
        twin = object.__new__(Tables)
        twin.__dict__.update(vars(self))
        twin._leaves = [_with_own_value(v, memo) for v in self._leaves]
        twin._structure = copy.deepcopy(self._structure, memo)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        same: dict[bytes, Any] = {}  # Aesara makes Ops for every node, some with much C code.
        ops = [_portable_op(node, same) for node in self._nodes]
        parts = {"_nodes": (), "_ops": ops, "_leaves": [*map(_portable_leaf, self._leaves)]}
        return {"rules": portable_rules(self._ops), **vars(self), **parts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        adopt_rules(state.pop("rules"))
        self.__dict__.update(state)


def remade(make: Callable[..., Any], tables: Tables) -> Any:
    """Call a function with the elements of a tuple that became tables."""
    return make(*tables.structure())


def _mapped(structure: Any, change: Callable[[Any], Any]) -> Any:
    """Return containers with the elements, to any depth, that a function makes of theirs."""
    if isinstance(structure, Mapping):
        return {_mapped(k, change): _mapped(v, change) for k, v in structure.items()}
    if type(structure) in (list, tuple):
        return type(structure)(_mapped(x, change) for x in structure)
    return change(structure)


# --- Variables that no node computes ------------------------------------------------------


def _alone(variable: Variable, is_input: bool) -> Variable:
    """Return the variable without what it refers to, but for a shared variable's container."""
    if is_a(variable, "graph.NominalVariable"):  # There is one of each name and type.
        return variable
    twin: Any = variable.type.make_variable(variable.name) if is_input else copy.copy(variable)
    if is_a(twin, "compile.SharedVariable"):
        twin.default_update = None
    return _on_line(twin, line_of(variable))


def _on_line(variable: Variable, line: Frame | None) -> Variable:
    """Return the variable, with that line as its only tag."""
    variable.tag = module_of(variable, "graph.utils").Scratchpad()
    if line is not None:
        variable.tag.trace = [[tuple(line)]]
    return variable


def _with_own_value(variable: Variable, memo: dict[int, Any]) -> Variable:
    if not is_a(variable, "compile.SharedVariable"):
        return variable
    twin = copy.copy(variable)
    twin.container = container_copy(variable.container, memo)
    return twin


def container_copy(container: Any, memo: dict[int, Any]) -> Any:
    """Return a deep copy of a container, which may hold a JAX array: Aesara's copies refuse it."""
    if id(container) not in memo:
        memo[id(container)] = twin = copy.copy(container)
        state = vars(twin)
        own = "cell" if "cell" in state else "storage"
        state[own] = copy.deepcopy(state[own], memo)
    return memo[id(container)]


def _portable_leaf(variable: Variable) -> Any:
    if is_array(variable) or is_a(variable.type, "tensor.RandomType"):
        return variable  # It pickles; to try would copy the data.
    return portable(variable, f"The variable {name_of(variable)}")


# --- Ops ----------------------------------------------------------------------------------


def _portable_op(node: Apply, same: dict[bytes, Any]) -> Any:
    op, what = node.op, f"The Op of {describe_op(node)}"
    if not is_a(op, "compile.OpFromGraph", "scan.Scan"):
        return portable(op, what, origin(node), same)
    rest = {k: v for k, v in vars(op).items() if k not in _MADE_OF_GRAPH}
    ends = tuple(op.fgraph.inputs), tuple(op.fgraph.outputs)
    return _WithGraph(portable((type(op), rest), what, origin(node)), Tables(ends, ends[0]))


_MADE_OF_GRAPH = ("fgraph", "_fn", "_cmodule_key")
"""The attributes with the graph of an Op, and with what Aesara compiled and hashed of it."""


class _WithGraph(NamedTuple):
    """An Op that holds a graph: its class and attributes, and the graph."""

    parts: Any
    graph: Tables

    def __reduce__(self) -> Any:
        return _op_with_graph, (self.parts, self.graph)


def _op_with_graph(parts: Any, graph: Tables) -> Any:
    kind, attributes = parts
    op = kind.__new__(kind)
    fgraph = module_of(op, "graph.fg").FunctionGraph(*graph.structure(), clone=False)
    vars(op).update(attributes, fgraph=fgraph)
    return op


def portable_rules(ops: Sequence[Any]) -> list[Any]:
    """Return the rules and samplers of users' Ops, as far as they pickle.

    The process that unpickles may know an Op without its rule: cloudpickle carries classes of the
    main module along, but not what was registered for them. Ops of the graph libraries have their
    rules in every process.
    """
    found: list[Any] = []
    for base in dict.fromkeys(base for op in ops for base in type(op).__mro__):
        entry = base, registered(base), SAMPLERS.get(base)
        if any(entry[1:]) and base.__module__.partition(".")[0] not in (*LIBRARIES, "jaxprgen"):
            with contextlib.suppress(UnpicklableError):
                found.append(portable(entry, "The rule"))
    return found


def adopt_rules(found: Sequence[Any]) -> None:
    """Register rules and samplers of Ops that have none in this process."""
    for base, rules, sampler in found:
        adopt(base, rules)
        if sampler is not None and base not in SAMPLERS:
            SAMPLERS[base] = sampler
            ADOPTED.add(base)
