"""Equations that split arguments and results over a mesh, as the option ``shardings`` says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jax.sharding import AxisType, NamedSharding

from jaxprgen import _jax
from jaxprgen.arguments.shardings import require_even, splits_evenly
from jaxprgen.emit.values import value_of
from jaxprgen.errors import ShardingError
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

    Raises
    ------
    ShardingError
        Data is on several meshes, one of which has explicit axes.
    """
    held = types_of_held([*shared, *plan.values])
    typed = dict(enumerate(types)) | {len(types) + i: aval for i, aval in held.items()}
    meshes = {i: aval.sharding.mesh.abstract_mesh for i, aval in typed.items()}
    known = {_described(mesh): i for i, mesh in meshes.items() if not mesh.empty}
    kinds = {kind for mesh in meshes.values() for kind in mesh.axis_types}
    if len(known) > 1 and AxisType.Explicit in kinds and AxisType.Manual not in kinds:
        names = [*(repr(x.name) for x in (*plan.inputs, *plan.shared))]
        names += ["a constant"] * len(plan.values)
        (first, i), (second, j), *_ = known.items()
        raise ShardingError(
            f"Data is on two meshes: that of {names[i]} has axes {first}; that of {names[j]}, "
            f"{second}.\nPut both on one mesh by jax.device_put, or let all axes be AxisType.Auto."
        )
    return _jax.explicit_mesh(meshes.values())


def _described(mesh: Any) -> str:
    """Return the axes of a mesh, such as ``rows=8 (Explicit)``."""
    axes = zip(mesh.axis_names, mesh.axis_sizes, mesh.axis_types, strict=True)
    return ", ".join(f"{name}={size} ({kind.name})" for name, size, kind in axes)


def types_of_held(arrays: Sequence[Any]) -> dict[int, Any]:
    """Return the types of those arrays that several devices hold, by position."""
    return {i: _jax.type_of(x) for i, x in enumerate(arrays) if _jax.is_on_several_devices(x)}


def require_arguments(function: str, data: Iterable[tuple[str, Any, str]]) -> None:
    """Raise if JAX would copy arrays that are split over devices into the program that it makes.

    Parameters
    ----------
    function
        The name of the function that JAX traces.
    data
        For each array the name, the value and how to pass it as an argument.

    Raises
    ------
    ShardingError
        JAX would gather an array on the host, and give each device all of it.
    """
    if not _jax.embeds_constants():
        return
    for name, x, remedy in data:
        if _jax.is_on_several_devices(x) and not x.is_fully_replicated:
            raise ShardingError(
                f"JAX traces {function!r}, and would copy {name!r} into the program that it makes, "
                f"such as that of an outer jit: an array of shape {x.shape} that "
                f"{len(x.sharding.device_set)} devices hold in parts.\n{remedy}\nOr set "
                "JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS=1 in the environment before JAX is imported: "
                "JAX then makes arguments of such arrays."
            )


def constrain_leaves(lowering: Lowering) -> None:
    """Let the inputs and shared variables of a plan be split as the user says."""
    plan, values = lowering.plan, lowering.values
    for place, sharding in plan.shardings.items():
        value = values[place]
        if place in plan.leaves and value.static is None:
            what = _what(plan, place, "Input")
            values[place] = value_of(_constrained(value.atom(), sharding, what))


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


def _constrained(x: Atom, sharding: NamedSharding, what: str) -> Atom:
    inside = _jax.automatic(sharding)
    if inside is None:
        return x
    require_even(x.aval.shape, inside, what)
    return primitives.sharding_constraint(current_builder(), x, inside)
