"""Arrays that several devices hold, and the meshes of these devices."""

from __future__ import annotations

from typing import Any

import jax
from jax._src import mesh as _mesh
from jax._src import pjit as _pjit
from jax._src.array import ArrayImpl
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding

from jaxprgen._jax.types import Tracer, eval_context


def is_spread(x: Any) -> bool:
    """Return whether something is an array that several devices, or other processes, hold."""
    if type(x) is not ArrayImpl:
        return False
    return len(x.sharding.device_set) > 1 or not x.is_fully_addressable


def is_complete(x: Any) -> bool:
    """Return whether something is a JAX array of which this process holds all values."""
    is_array = isinstance(x, jax.Array) and not isinstance(x, Tracer)
    return is_array and (x.is_fully_addressable or x.is_fully_replicated)


def sharding_of(x: Any) -> Any:
    """Return the sharding of an array that several devices hold; None for all else."""
    return x.sharding if is_spread(x) else None


def ambient_mesh() -> Mesh | AbstractMesh | None:
    """Return the mesh that is set in the current context, with its devices if they are known."""
    meshes = _mesh.get_concrete_mesh(), _mesh.get_abstract_mesh()
    return next((mesh for mesh in meshes if not mesh.empty), None)


def placed(x: Any, sharding: NamedSharding) -> Any:
    """Return an array on the devices of a mesh, outside of any trace that is going on.

    Each part of an array in memory of the host goes to its own device. An array that is placed so
    is returned as it is.
    """
    if type(x) is ArrayImpl and x.sharding == sharding:
        return x
    with eval_context():
        return jax.device_put(x, sharding)


def automatic(sharding: NamedSharding) -> NamedSharding:
    """Return the same sharding on a mesh whose axes XLA's partitioner splits along."""
    mesh: Any = sharding.mesh
    types = (AxisType.Auto,) * len(mesh.axis_names)
    if mesh.axis_types == types:
        return sharding
    if isinstance(mesh, AbstractMesh):
        mesh = AbstractMesh(mesh.axis_sizes, mesh.axis_names, axis_types=types)
    else:
        mesh = Mesh(mesh.devices, mesh.axis_names, axis_types=types)
    return NamedSharding(mesh, sharding.spec)


sharding_constraint_p = _pjit.sharding_constraint_p


def sharding_constraint_params(sharding: NamedSharding) -> dict[str, Any]:
    """Return the parameters of the primitive that gives a value a sharding."""
    return {
        "sharding": sharding,
        "layout": None,
        "context_mesh": _mesh.get_abstract_mesh(),
        "unconstrained_dims": frozenset(),
    }
