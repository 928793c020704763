"""Meshes of devices whose axes are explicit: types of values then hold shardings."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from jax._src import core as _core, mesh as _mesh, pjit as _pjit
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from jaxprgen._jax.core import JaxprEqn
from jaxprgen._jax.types import ShapedArray, Var, ambient_mesh_is_empty, eqn_context, no_effects

AbstractMesh = _mesh.AbstractMesh


def explicit_mesh(meshes: Iterable[Any]) -> AbstractMesh | None:
    """Return the mesh with explicit axes that is set, or else the first of these; None if none."""
    known = (_mesh.get_abstract_mesh(), *(mesh.abstract_mesh for mesh in meshes))
    found = next((mesh for mesh in known if not mesh.empty), None)
    return found if found is not None and AxisType.Explicit in found.axis_types else None


def partitioned(mesh: AbstractMesh | None) -> AbstractContextManager[Any]:
    """Return a context in which XLA's partitioner splits along the explicit axes of a mesh.

    Without a mesh, the context changes nothing.
    """
    return nullcontext() if mesh is None else in_mesh(_automatic(mesh))


def in_mesh(mesh: AbstractMesh) -> AbstractContextManager[Any]:
    """Return a context in which equations belong to a mesh."""
    return _mesh.use_abstract_mesh(mesh)


def _automatic(mesh: AbstractMesh) -> AbstractMesh:
    return mesh.update_axis_types(dict.fromkeys(mesh.explicit_axes, AxisType.Auto))


def unsharded(types: Sequence[ShapedArray], mesh: AbstractMesh | None) -> Sequence[ShapedArray]:
    """Return types as they are where `partitioned` applies: without explicit axes of a mesh.

    Without such a mesh, types have no mesh at all: those of automatic axes say nothing, and passes
    would leave loops alone. Under a mesh that is set, as in `jax.shard_map`, types stay.
    """
    if mesh is None:
        return [_plain(aval) for aval in types] if ambient_mesh_is_empty() else types
    inside = _automatic(mesh)

    def spec(aval: ShapedArray) -> Any:
        if aval.sharding.mesh.empty:
            return PartitionSpec(*[None] * len(aval.shape))
        return _core.modify_spec_for_auto_manual(aval.sharding.spec, inside)

    return [aval.update(sharding=NamedSharding(inside, spec(aval))) for aval in types]  # type: ignore[misc,arg-type]


def _plain(aval: ShapedArray) -> ShapedArray:
    if aval.sharding.mesh.empty:
        return aval
    return ShapedArray(aval.shape, aval.dtype, weak_type=aval.weak_type)


def sharded(aval: ShapedArray, mesh: AbstractMesh, spec: Iterable[Any]) -> ShapedArray:
    """Return a type that is split over the axes of a mesh."""
    return aval.update(sharding=NamedSharding(mesh, PartitionSpec(*spec)))  # type: ignore[arg-type]


def reshard(x: Var, out: Var, source_info: Any) -> JaxprEqn:
    """Return the equation that gives a value the sharding of another variable's type."""
    params = {"dst_sharding": out.aval.sharding, **_RESHARD}
    return JaxprEqn([x], [out], _RESHARD_P, params, no_effects, source_info, eqn_context())


# JAX < 0.8 has another primitive for values that change the kinds of axes.
_RESHARD_P: Any = getattr(_pjit, "mesh_cast_p", _pjit.reshard_p)
_TAKEN = inspect.signature(_pjit._reshard_abstract_eval).parameters  # type: ignore[attr-defined]
_RESHARD: dict[str, Any] = {"concrete_mesh": None} if "concrete_mesh" in _TAKEN else {}
