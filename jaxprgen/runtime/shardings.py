"""Equations that split arguments and results over a mesh, as the option ``shardings`` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.sharding import NamedSharding

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.arguments.shardings import require_even, splits_evenly
from jaxprgen.emit.values import Value
from jaxprgen.ir import Atom, current_builder, primitives
from jaxprgen.lowering.driver import Lowering
from jaxprgen.lowering.graph import Plan


def explicit_mesh(plan: Plan, types: Sequence[Any], shared: Sequence[Any]) -> Any:
    """Return the mesh with explicit axes that is set, or else that of data; None if none.

    Parameters
    ----------
    plan
        The plan, which has the constants.
    types, shared
        The types of arguments, and the values of shared variables.
    """
    held = types_of_held([*shared, *plan.values]).values()
    return _jax.explicit_mesh(aval.sharding.mesh for aval in (*types, *held))


def types_of_held(arrays: Sequence[Any]) -> dict[int, Any]:
    """Return the types of those arrays that several devices hold, by position."""
    return {i: _jax.type_of(x) for i, x in enumerate(arrays) if _jax.is_spread(x)}


def constrain_leaves(lowering: Lowering) -> None:
    """Let the inputs and shared variables of a plan be split as the user says."""
    plan, values = lowering.plan, lowering.values
    for place, sharding in plan.shardings.items():
        value = values[place]
        if place in plan.leaves and value.static is None:
            what = _what(plan, place, "Input")
            values[place] = Value(_constrained(value.atom(), sharding, what))


def constrained_output(plan: Plan, i: int, atom: Atom, arguments: Sequence[Any]) -> Atom:
    """Return an output, split as the user says, or as the argument is that it replaces."""
    place = plan.output_places[i]
    if place in plan.shardings:
        return _constrained(atom, plan.shardings[place], _what(plan, place, "Output"))
    kept = _jax.sharding_of(arguments[plan.carried[i]]) if i in plan.carried else None
    if isinstance(kept, NamedSharding) and splits_evenly(atom.aval.shape, kept):
        return _constrained(atom, kept, "")
    return atom


def _what(plan: Plan, place: int, role: str) -> str:
    return f"{role} {plan.library.label(plan.variables[place])!r}"


def _constrained(x: Atom, sharding: NamedSharding, what: str) -> Var:
    require_even(x.aval.shape, sharding, what)
    return primitives.sharding_constraint(current_builder(), x, _jax.automatic(sharding))
