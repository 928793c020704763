"""Arrays that several devices hold, and the meshes of these devices."""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax._src import mesh as _mesh, pjit as _pjit
from jax._src.array import ArrayImpl
from jax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
)

from jaxprgen._jax.types import Tracer, eval_context


def is_on_several_devices(x: Any) -> bool:
    """Return whether something is an array that several devices, or other processes, hold."""
    if type(x) is not ArrayImpl:
        return False
    sharding = x.sharding
    if type(sharding) is SingleDeviceSharding:
        return False
    return len(sharding.device_set) > 1 or not x.is_fully_addressable


def is_complete(x: Any) -> bool:
    """Return whether something is a JAX array of which this process holds all values."""
    is_array = isinstance(x, jax.Array) and not isinstance(x, Tracer)
    return is_array and (x.is_fully_addressable or x.is_fully_replicated)


def sharding_of(x: Any) -> Any:
    """Return the sharding of an array that several devices hold; None for all else.

    A tracer has one if the mesh of its type has explicit axes.
    """
    if is_on_several_devices(x):
        return shortest(x.sharding)
    if isinstance(x, Tracer):
        sharding = getattr(x.aval, "sharding", None)
        is_explicit = sharding is not None and AxisType.Explicit in sharding.mesh.axis_types
        return sharding if is_explicit else None
    return shortest(x.sharding) if isinstance(x, jax.ShapeDtypeStruct) else None


@functools.lru_cache(maxsize=1024)
def shortest(sharding: Any) -> Any:
    """Return an equal sharding whose spec does not end with None."""
    if not isinstance(sharding, NamedSharding):
        return sharding
    kept = len(sharding.spec)
    while kept and sharding.spec[kept - 1] is None:
        kept -= 1
    spec = PartitionSpec(*sharding.spec[:kept])
    return NamedSharding(sharding.mesh, spec, memory_kind=sharding.memory_kind)


def ambient_mesh() -> Mesh | AbstractMesh | None:
    """Return the mesh that is set in the current context, with its devices if they are known."""
    meshes = _mesh.get_concrete_mesh(), _mesh.get_abstract_mesh()
    return next((mesh for mesh in meshes if not mesh.empty), None)


def placed(x: Any, sharding: NamedSharding) -> Any:
    """Return an array on the devices of a mesh, outside of any trace that is going on.

    Each part of an array in memory of the host goes to its own device.
    """
    with eval_context():
        return jax.device_put(x, sharding)


def automatic(sharding: NamedSharding) -> NamedSharding | None:
    """Return the same sharding on a mesh whose axes XLA's partitioner splits along.

    Inside of ``shard_map``, values are parts already: its axes are left out. If it splits along all
    axes of the mesh, nothing is left.
    """
    ambient = _mesh.get_abstract_mesh()
    if AxisType.Manual in ambient.axis_types:
        if ambient.are_all_axes_manual:
            return None
        return NamedSharding(ambient, PartitionSpec(*(_left(x, ambient) for x in sharding.spec)))
    mesh: Any = sharding.mesh
    types = (AxisType.Auto,) * len(mesh.axis_names)
    if mesh.axis_types == types:
        return sharding
    return NamedSharding(mesh.update(axis_types=types), sharding.spec)


def _left(axes: Any, mesh: AbstractMesh) -> Any:
    """Return the axes of an entry of a spec that are not manual in a mesh."""
    if isinstance(axes, tuple):
        return tuple(axis for axis in axes if axis not in mesh.manual_axes)
    return None if axes in mesh.manual_axes else axes


sharding_constraint_p = _pjit.sharding_constraint_p


def sharding_constraint_params(sharding: NamedSharding) -> dict[str, Any]:
    """Return the parameters of the primitive that gives a value a sharding."""
    mesh = _mesh.get_abstract_mesh()
    return {
        "sharding": sharding,
        "layout": None,
        "context_mesh": _mesh.thread_resources.env.physical_mesh if mesh.empty else mesh,
        "unconstrained_dims": frozenset(),
    }
