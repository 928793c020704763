"""Where arrays live on a mesh of devices, as the option ``shardings`` says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from jaxprgen import _jax
from jaxprgen.errors import ArgumentTypeError, ShardingError, UnpicklableError


def sharding_of(given: Any, what: str, kind: str, rank: int, mesh: Any) -> NamedSharding:
    """Return the sharding that a user gives a variable.

    Parameters
    ----------
    given
        A `PartitionSpec` or a `NamedSharding`.
    what, kind
        The variable and its type, as error messages write them.
    rank
        The number of its dimensions.
    mesh
        The mesh for a `PartitionSpec` that names none; None if no mesh is known.

    Raises
    ------
    ArgumentTypeError
        It is something else.
    ShardingError
        There is no mesh, or the spec does not fit it or the variable.
    """
    spec = given.spec if isinstance(given, NamedSharding) else given
    if not isinstance(spec, PartitionSpec):
        raise ArgumentTypeError(
            f"shardings: {what} got {given!r}. Give a jax.sharding.PartitionSpec, or a "
            "NamedSharding of a mesh and a PartitionSpec."
        )
    mesh = given.mesh if isinstance(given, NamedSharding) else mesh
    start = f"shardings: {what}, {kind}, cannot be split by {_text(spec)}"
    if mesh is None:
        raise ShardingError(
            f"{start}: no mesh is set.\nCompile it within jax.set_mesh(mesh), or give "
            f"jax.sharding.NamedSharding(mesh, {_text(spec)})."
        )
    start += f" on the mesh of {_mesh_text(mesh)}"
    if len(spec) > rank:
        raise ShardingError(
            f"{start}: it has {rank} dimension{'' if rank == 1 else 's'}, the spec {len(spec)}.\n"
            "Give at most one entry for each dimension."
        )
    names = [name for axes in spec for name in _names(axes)]
    if PartitionSpec.UNCONSTRAINED in names:
        raise ShardingError(f"{start}: data lives somewhere.\nGive axes or None for UNCONSTRAINED.")
    unknown = [name for name in names if name not in mesh.axis_names]
    if unknown:
        raise ShardingError(f"{start}, which has no axis {unknown[0]!r}.\nName one that it has.")
    if len(set(names)) < len(names):
        raise ShardingError(f"{start}: an axis comes twice.\nSplit one dimension along each axis.")
    return given if isinstance(given, NamedSharding) else NamedSharding(mesh, spec)


def splits_evenly(shape: Sequence[Any], sharding: NamedSharding) -> bool:
    """Return whether a sharding splits an array of this shape into equal parts."""
    return len(sharding.spec) <= len(shape) and not _uneven(shape, sharding)


def parts_along(sharding: NamedSharding, axis: int) -> int:
    """Return into how many parts a sharding splits an axis."""
    axes = sharding.spec[axis] if axis < len(sharding.spec) else None
    return math.prod(sharding.mesh.shape[name] for name in _names(axes))


def require_even(shape: Sequence[Any], sharding: NamedSharding, what: str) -> None:
    """Raise a `ShardingError` unless a sharding splits an array of this shape evenly."""
    for axis, parts in _uneven(shape, sharding):
        size = shape[axis]
        raise ShardingError(
            f"{what} has shape {tuple(shape)}, which {_text(sharding.spec)} on the mesh of "
            f"{_mesh_text(sharding.mesh)} cannot split evenly: {parts} does not divide {size}, the "
            f"size along axis {axis}.\nPad it to a size of {-(-size // parts) * parts}, or split "
            "another axis."
        )


def _uneven(shape: Sequence[Any], sharding: NamedSharding) -> list[tuple[int, int]]:
    """Return the axes that are split unevenly, and into how many parts; not those of symbols."""
    splits = [(axis, parts_along(sharding, axis)) for axis in range(len(sharding.spec))]
    return [(d, n) for d, n in splits if not _jax.is_symbolic(shape[d]) and shape[d] % n]


def placed(x: Any, sharding: NamedSharding, what: str) -> Any:
    """Return an array on the devices of a mesh, each part on its own; a type says that it is.

    Parameters
    ----------
    x
        A NumPy or JAX array, or a `jax.ShapeDtypeStruct`. Tracers are returned as they are.
    sharding
        The sharding.
    what
        How an error message names the array.

    Raises
    ------
    ShardingError
        The mesh has no devices, or splits the array unevenly.
    """
    if isinstance(x, _jax.Tracer) or _jax.sharding_of(x) == _jax.shortest(sharding):
        return x
    require_even(x.shape, sharding, what)
    if isinstance(x, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)
    if isinstance(sharding.mesh, AbstractMesh):
        raise ShardingError(
            f"{what} cannot be put on the mesh of {_mesh_text(sharding.mesh)}, which is abstract: "
            "it has no devices.\nPass a jax.ShapeDtypeStruct or a tracer, or compile it with a "
            "mesh of devices, jax.make_mesh."
        )
    return _jax.placed(x, sharding)


def _names(axes: Any) -> tuple[Any, ...]:
    return axes if isinstance(axes, tuple) else () if axes is None else (axes,)


def _text(spec: PartitionSpec) -> str:
    return f"PartitionSpec({', '.join(map(repr, spec))})"


def _mesh_text(mesh: Any) -> str:
    return ", ".join(f"{name!r}: {size}" for name, size in mesh.shape.items())


# --- Pickling -----------------------------------------------------------------------------


class PortableSharding(NamedTuple):
    """What pickles in place of a sharding, whose devices do not.

    Attributes
    ----------
    sizes, names, types
        The axes of the mesh.
    devices
        The numbers of its devices; None if it is abstract.
    spec, memory
        The spec and the kind of memory.
    """

    sizes: tuple[int, ...]
    names: tuple[Any, ...]
    types: tuple[Any, ...]
    devices: tuple[int, ...] | None
    spec: tuple[Any, ...]
    memory: str | None

    @classmethod
    def of(cls, sharding: NamedSharding) -> PortableSharding:
        """Return what pickles in place of this sharding."""
        mesh: Any = sharding.mesh
        devices = None if isinstance(mesh, AbstractMesh) else tuple(d.id for d in mesh.devices.flat)
        return cls(
            *(mesh.axis_sizes, mesh.axis_names, mesh.axis_types, devices),
            *(tuple(sharding.spec), sharding.memory_kind),
        )

    def restored(self) -> NamedSharding:
        """Return the sharding, on the devices of this process that have the same numbers.

        Raises
        ------
        ShardingError
            There is no such device.
        """
        if self.devices is None:
            mesh: Any = AbstractMesh(self.sizes, self.names, axis_types=self.types)
        else:
            known = {device.id: device for device in jax.devices()}
            missing = [i for i in self.devices if i not in known]
            if missing:
                raise ShardingError(
                    f"This was pickled with data on {len(self.devices)} devices; this process has "
                    f"{len(known)}, and none with number {missing[0]}.\nUnpickle it where JAX has "
                    "these devices, or compile it anew for another mesh."
                )
            devices = np.array([known[i] for i in self.devices], object).reshape(self.sizes)
            mesh = jax.sharding.Mesh(devices, self.names, axis_types=self.types)
        return NamedSharding(mesh, PartitionSpec(*self.spec), memory_kind=self.memory)


class PortableArray(NamedTuple):
    """An array that several devices hold, and that is split alike when it is unpickled."""

    array: Any

    def __reduce__(self) -> Any:
        if not self.array.is_fully_addressable:
            raise UnpicklableError(
                f"An array of shape {self.array.shape} does not pickle: other processes hold parts "
                "of it.\nSave it with Orbax, and set it after unpickling."
            )
        sharding = self.array.sharding
        where = PortableSharding.of(sharding) if isinstance(sharding, NamedSharding) else None
        return _array, (np.asarray(self.array), where)


def _array(values: Any, where: PortableSharding | None) -> Any:
    return jax.numpy.asarray(values) if where is None else _jax.placed(values, where.restored())
