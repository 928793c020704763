"""Containers of shared variables whose values may be JAX arrays."""

from __future__ import annotations

from typing import Any, cast

import jax
import numpy as np
from aesara.link.basic import Container
from aesara.tensor.type import TensorType

from jaxprgen import _jax
from jaxprgen.aesara.tables import container_copy
from jaxprgen.arguments.shardings import PortableArray
from jaxprgen.errors import ArgumentShapeError, ArgumentTypeError


class StateContainer(Container):
    """A container whose value may be a JAX array.

    An array that several devices hold is stored as it is; of another one, Aesara stores a copy in
    memory of the host. Aesara's containers cannot store a JAX array.
    """

    def _get(self) -> Any:
        return self.storage[0]

    def _set(self, value: Any) -> None:
        if _jax.is_spread(value) and not self.readonly:
            self.storage[0] = _admitted(value, self)
        else:
            Container.__set__(self, value)

    value = data = property(_get, _set)

    def __copy__(self) -> Container:
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Container:
        return container_copy(self, memo)

    def __getstate__(self) -> dict[str, Any]:
        (value,) = self.storage
        storage = [PortableArray(value)] if _jax.is_spread(value) else self.storage
        return {**vars(self), "storage": storage}


class DeviceContainer(StateContainer):
    """A container whose value, while one device holds it, is a NumPy array for who asks for it."""

    def _get(self) -> Any:
        storage = self.storage
        if isinstance(storage[0], jax.Array) and not _jax.is_spread(storage[0]):
            storage[0] = np.array(storage[0])
        return storage[0]

    value = data = property(_get, StateContainer._set)


def keep_on_device(container: Container, kind: type[StateContainer] = StateContainer) -> None:
    """Let the value in a container of Aesara be a JAX array from now on."""
    if type(container) in (Container, StateContainer):
        container.__class__ = kind


def _admitted(value: Any, container: Container) -> Any:
    """Return an array that several devices hold as a container's type declares it."""
    name, declared = container.name, cast("TensorType", container.type)
    if value.ndim != declared.ndim or any(
        n not in (None, m) for n, m in zip(declared.shape, value.shape, strict=True)
    ):
        raise ArgumentShapeError(
            f"Shared variable {name!r} is a {declared}; an array of shape {value.shape} cannot be "
            "its value."
        )
    if value.dtype == _jax.canonicalize_dtype(np.dtype(declared.dtype)):
        return value
    if not (container.allow_downcast or np.can_cast(value.dtype, declared.dtype)):
        raise ArgumentTypeError(
            f"Shared variable {name!r} has dtype {declared.dtype}, which cannot hold all values of "
            f"the array's {value.dtype}. Convert it with .astype({declared.dtype!r}) if the loss "
            "is meant."
        )
    with _jax.eval_context():
        return value.astype(_jax.canonicalize_dtype(np.dtype(declared.dtype)))
