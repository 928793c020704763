"""Typed lists as arguments: each array in them is an input."""

from __future__ import annotations

from typing import Any

from jaxprgen.lowering.names import Variable, is_a, module_of


def is_typed_list(variable: Variable) -> bool:
    """Return whether a variable is a list of arrays, or of such lists."""
    return is_a(variable.type, "typed_list.TypedListType")


def opened_list(variable: Variable, structure: Any) -> tuple[list[Variable], Variable]:
    """Return variables for the arrays in a typed list, and a list that is made of them.

    Parameters
    ----------
    variable
        The list.
    structure : jax.tree_util.PyTreeDef
        That of its value.
    """
    items: list[Variable] = []
    make = module_of(variable, "typed_list.basic").MakeList()
    apply = module_of(variable, "graph.basic").Apply

    def made(kind: Any, structure: Any, name: str) -> Variable:
        if not is_a(kind, "typed_list.TypedListType"):
            items.append(kind.make_variable(name))
            return items[-1]
        children = enumerate(structure.children())
        parts = [made(kind.ttype, child, f"{name}[{i}]") for i, child in children]
        return apply(make, parts, [kind.make_variable(name)]).outputs[0]

    return items, made(variable.type, structure, variable.name or "list")
