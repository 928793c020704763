"""Containers of shared variables whose values may be JAX arrays."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen.arguments.shardings import PortableArray
from jaxprgen.errors import ArgumentShapeError, ArgumentTypeError
from jaxprgen.graphs.library import library_for
from jaxprgen.graphs.tables import container_copy
from jaxprgen.lowering.names import module_of


class Lock(NamedTuple):
    """The lock of a container. A thread may take a lock that it holds.

    Attributes
    ----------
    number : int
        How many containers had a lock before.
    lock : threading.RLock
        The lock.
    """

    number: int
    lock: Any


def lock_of(container: Any) -> Lock:
    """Return the lock of a container, the same one for all functions of the variable."""
    with _adding:
        found = _locks.get(container)
        if found is None:
            found = _locks[container] = Lock(next(_numbers), threading.RLock())
        return found


class Locks:
    """Several locks, for a ``with`` block.

    All functions take them in the order of their numbers, so that no two wait for each other.

    Parameters
    ----------
    locks : iterable of Lock
        The locks.
    """

    __slots__ = ("_locks",)

    def __init__(self, locks: Iterable[Lock]) -> None:
        by_number = {each.number: each.lock for each in locks}
        self._locks = [by_number[number] for number in sorted(by_number)]

    def __enter__(self) -> None:
        for lock in self._locks:
            lock.acquire()

    def __exit__(self, *_: object) -> None:
        for lock in reversed(self._locks):
            lock.release()


_locks: WeakKeyDictionary[Any, Lock] = WeakKeyDictionary()
_numbers = itertools.count()
_adding = threading.Lock()


class StateMixin:
    """Makes of a graph library's container one whose value may be a JAX array.

    An array that several devices hold is stored as it is; of another one, the library stores a copy
    in memory of the host. The libraries' own containers cannot store a JAX array.
    """

    storage: list[Any]
    readonly: bool

    def _get(self) -> Any:
        return self.storage[0]

    def _set(self, value: Any) -> None:
        with lock_of(self).lock:  # A function that updates the value is done, or has not begun.
            if _jax.is_spread(value) and not self.readonly:
                self.storage[0] = _admitted(value, self)
            else:
                super().__set__(value)  # type: ignore[misc]

    value = data = property(_get, _set)

    def __copy__(self) -> Any:
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return container_copy(self, memo)

    def __getstate__(self) -> dict[str, Any]:
        (value,) = self.storage
        storage = [PortableArray(value)] if _jax.is_spread(value) else self.storage
        return {**vars(self), "storage": storage}


class DeviceMixin(StateMixin):
    """Makes a container give its value as a NumPy array, unless several devices hold it."""

    def _get(self) -> Any:
        storage = self.storage
        with lock_of(self).lock:  # No function writes a new value in between.
            if isinstance(storage[0], jax.Array) and not _jax.is_spread(storage[0]):
                storage[0] = np.array(storage[0])
            return storage[0]

    value = data = property(_get, StateMixin._set)


def keep_on_device(container: Any, *, as_numpy: bool = False) -> None:
    """Let the value in a graph library's container be a JAX array from now on.

    With ``as_numpy``, who asks for it gets a NumPy array, unless several devices hold it.
    """
    kinds = library_for(container).containers
    own = module_of(container, "link.basic").Container
    if type(container) in (own, kinds.state):
        container.__class__ = kinds.device if as_numpy else kinds.state


def _admitted(value: Any, container: Any) -> Any:
    """Return an array that several devices hold as a container's type declares it."""
    name, declared = container.name, container.type
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
