"""Updates inside of `OpFromGraph`: a generator that advances there, or a counter.

Aesara lets a graph inside of an Op update the shared variables that it reads. Its functions run one
application after the other, and each leaves the variable as the next one finds it. Here every such
application returns the new value, and the next one takes it, so that the graph says what happens.
PyTensor's Ops have no such updates.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from jaxprgen.errors import InvalidGraphError
from jaxprgen.graphs.library import Variables, name_of
from jaxprgen.lowering.names import Apply, Variable, is_a, module_of
from jaxprgen.lowering.traversal import toposort


def updates_inside(op: Any) -> dict[int, int]:
    """Return the outputs of an Op's graph that are new values, each with the input it is for."""
    if not is_a(op, "compile.OpFromGraph"):
        return {}
    return getattr(op.fgraph, "update_mapping", None) or {}


def is_placeholder(variable: Variable) -> bool:
    """Return whether a variable stands for the new value of a shared one that an Op updates."""
    return variable.owner is not None and is_a(variable.owner.op, "compile.UpdatePlaceholder")


def with_updates_outside(
    outputs: Variables, inputs: Iterable[Variable]
) -> tuple[list[Variable], dict[Variable, Variable]]:
    """Return a graph whose Ops return the new values of what they update.

    Applications of such Ops run in the order of a traversal from the first output on. Applications
    to the same inputs are one, as Aesara's default modes merge equal nodes: aemcmc relies on it.
    Whatever else reads a variable that they update sees its old value.

    Parameters
    ----------
    outputs, inputs
        The graph, which does not change.

    Returns
    -------
    list, dict
        The outputs, and the last value of each variable that an Op updates.

    Raises
    ------
    InvalidGraphError
        An Op that updates a variable has derivatives of its own.
    """
    nodes = toposort(outputs, set(inputs))
    if not any(updates_inside(x.op) or is_placeholder(x.outputs[0]) for x in nodes):
        return list(outputs), {}
    opened: dict[Any, tuple[Any, list[int]]] = {}
    replaced: dict[Variable, Variable] = {}
    last: dict[Variable, Variable] = {}
    placeholders: list[Apply] = []
    merged: dict[Any, Apply] = {}
    for node in nodes:
        operands = [replaced.get(v, v) for v in node.inputs]
        # Equal inputs are those that Aesara's default modes merge: of equal Ops.
        same = merged.setdefault((node.op, *map(_content, operands)), node)
        if same is not node:
            pairs = zip(node.outputs, same.outputs, strict=True)
            replaced.update((v, replaced.get(w, w)) for v, w in pairs)
            continue
        op, updated = node.op, list[int]()
        if updates_inside(op):
            if op not in opened:
                opened[op] = _returning_updates(op)
            op, updated = opened[op]
        elif is_a(op, "compile.UpdatePlaceholder"):
            placeholders.append(node)
        for i in updated:
            operands[i] = last.get(node.inputs[i], operands[i])
        if op is not node.op:
            made = op.make_node(*operands)
        elif any(a is not b for a, b in zip(operands, node.inputs, strict=True)):
            made = node.clone_with_new_inputs(operands)
        else:
            continue
        for old, new in zip(node.outputs, made.outputs, strict=False):
            new.name, new.tag = old.name, copy.copy(old.tag)
            replaced[old] = new
        for i, new in zip(updated, made.outputs[len(node.outputs) :], strict=True):
            last[node.inputs[i]] = new
    # Aesara puts one where a function would have the new value if it inlined the Op.
    for node in placeholders:
        replaced[node.outputs[0]] = last.get(node.inputs[0], node.inputs[0])
    return [replaced.get(v, v) for v in outputs], last


def _content(variable: Variable) -> Any:
    """Return what is equal for equal constants, and for other variables if they are the same."""
    is_constant = is_a(variable, "graph.Constant") and hasattr(variable, "merge_signature")
    return variable.merge_signature() if is_constant else variable


def _returning_updates(op: Any) -> tuple[Any, list[int]]:
    """Return an Op that returns the new values as well, and the inputs that they are for."""
    inputs, updates = op.fgraph.inputs, updates_inside(op)
    outputs, _ = with_updates_outside(op.fgraph.outputs, inputs)
    count = len(outputs) - len(updates)
    changed = {o: i for o, i in updates.items() if outputs[o] is not inputs[i]}
    if not changed:  # It only reads shared variables.
        return op, []
    if not (op._lop_is_default and op._rop_is_default):
        raise InvalidGraphError(
            f"{op} updates a shared variable, and has derivatives of its own, which its new value "
            "does not fit.\n"
            "Return the new value as one more output of the OpFromGraph, and pass it by updates=."
        )
    make = module_of(op, "compile.builders").OpFromGraph
    returned = [*outputs[:count], *(outputs[o] for o in changed)]
    return make(inputs, returned, inline=op.is_inline, name=op.name), list(changed.values())


def require_not_updated_twice(new: Iterable[Variable], updated: Iterable[Variable]) -> None:
    """Raise if a variable that an Op updates has another new value as well.

    That of a generator takes precedence, as in Aesara: aeppl's Markov chains return it.
    """
    for variable in set(new).intersection(updated):
        if not is_a(variable.type, "tensor.RandomType"):
            name = name_of(variable)
            raise InvalidGraphError(
                f"{name} is updated twice: by the function, and inside of an OpFromGraph.\n"
                "Leave out one of the two."
            )
