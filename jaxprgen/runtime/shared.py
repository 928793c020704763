"""The values of shared variables on the device, as they are when a function is called."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import numpy as np
from jax.sharding import NamedSharding

from jaxprgen import _jax
from jaxprgen.arguments.shardings import placed
from jaxprgen.emit.values import Array
from jaxprgen.graphs.containers import Lock, lock_of
from jaxprgen.ir import canonical_dtype
from jaxprgen.runtime.generators import Keyed, is_generator, key_of, with_key
from jaxprgen.runtime.program import to_device

LARGE = 1 << 18
"""Bytes from which JAX's CPU device computes with memory of the host.

To compare fewer bytes takes at most 5 µs. A call that uses the host's memory waits for its results.
"""
_ALIGNMENT = 64
"""JAX's CPU device uses memory of the host if its address is a multiple of this."""


class _Copy(NamedTuple):
    """An array on the device.

    Attributes
    ----------
    array
        The array.
    source
        The value that it was made of, or the bytes of one that may since have been written into.
    memory
        The memory of the host that the array uses, if any: that of the value, or of a copy.
    """

    array: Any = None
    source: Any = None
    memory: Any = None

    def is_of(self, value: Any) -> bool:
        array, source, _ = self
        if source is None or value is None or array.shape != value.shape:
            return False
        if type(source) is bytearray:
            is_same = isinstance(value, np.ndarray) and source == np.ascontiguousarray(value)
        else:
            is_same = source is value
        return is_same and array.dtype == _jax.canonicalize_dtype(value.dtype)


class SharedValue:
    """The value in a container, as JAX takes it: an array, or the PRNG key of a generator.

    Anyone can write into an array that ``get_value(borrow=True)`` returned or that was shared with
    ``borrow=True``, and Aesara's updates do. Therefore each call compares the array with the bytes
    that were put on the device. Read-only memory is put there once. JAX's CPU device uses the
    memory of a large array; if it cannot, each call copies the array into memory that it can use.

    Parameters
    ----------
    storage : list
        It holds the value. A large array that nothing else refers to is moved to memory that the
        CPU device can use.
    lock : Lock
        The lock of the variable. Whoever reads the value, runs a program on it, and perhaps writes
        a new one, holds it all the while.
    """

    def __init__(self, storage: list[Any], lock: Lock) -> None:
        self._storage = storage
        self.lock = lock
        self._copy = self._used = _Copy()

    @property
    def value(self) -> Any:
        """The value in the container."""
        return self._storage[0]

    def place(self, sharding: NamedSharding, name: str) -> None:
        """Put the value of the variable of this name where it is to live, unless it is there."""
        value = self._storage[0]
        if isinstance(value, np.ndarray):
            canonical_dtype(value)  # It refuses integers that would be wrapped.
        self._storage[0] = placed(value, sharding, f"Shared variable {name!r}")

    def now(self) -> tuple[Any, Any, bool]:
        """Return the value, the array on the device, and whether it uses memory of the host.

        If it does, results must be complete before someone can write into that memory.
        """
        used = self._used
        if used.is_of(self._storage[0]):
            if used.memory is not used.source:
                used.memory[...] = used.source
            return used.source, used.array, True
        self._used = _Copy()
        # No variable here refers to the value, because references are counted.
        if _is_used_in_place(self._storage[0]):
            if sys.getrefcount(self._storage[0]) == _ALONE and self._storage[0].base is None:
                self._storage[0] = _aligned(self._storage[0])
            value = self._storage[0]
            memory = _aligned(value)
            (array,) = to_device([memory])
            if _jax.shares_memory(array, memory):
                self._used = _Copy(array, value, memory)
            return value, array, True
        value = self._storage[0]
        return value, value if _is_on_device(value) else self.copy(), False

    def copy(self) -> Any:
        """Return the value in memory on the device that nobody writes into."""
        value = source = self._storage[0]
        if is_generator(value):
            return self._key(value)
        if _is_on_device(value):
            return value
        if not self._copy.is_of(value):
            if isinstance(value, np.ndarray) and not _is_frozen(value):
                value = np.array(value, order="C")  # Another thread may write into the value.
                source = bytearray(value.data)
            self._copy = _Copy(to_device([value])[0], source)
        return self._copy.array

    def write(self, value: Any, on_host: Array | None = None) -> None:
        """Set the value for all functions of the variable.

        Parameters
        ----------
        value : jax.Array
            The value on the device, or a key.
        on_host : array, optional
            The same as an array of NumPy, which the container is to hold.
        """
        old = self._storage[0]
        if is_generator(old):
            self._storage[0] = with_key(old, value)
        elif on_host is None:
            self._storage[0] = value
        else:
            self._storage[0] = on_host
            if on_host.nbytes < LARGE:
                self._copy = _Copy(value, bytearray(on_host.data))

    def _key(self, generator: Any) -> Any:
        """Return the key that the generator stands for from now on."""
        key = key_of(generator)
        if not isinstance(generator, Keyed):
            self._storage[0] = with_key(generator, key)
        return key


_PROBE = [np.zeros(1)]
_ALONE = sys.getrefcount(_PROBE[0])
"""The count of references to an array that only one list refers to."""

_values: WeakKeyDictionary[Any, SharedValue] = WeakKeyDictionary()
"""By the container whose list each of them reads."""


def shared_value(container: Any) -> SharedValue:
    """Return the value in a container of Aesara, the same object for all functions."""
    found = _values.get(container)
    return found or _values.setdefault(
        container, SharedValue(container.storage, lock_of(container))
    )


def _is_on_device(value: Any) -> bool:
    return value is None or isinstance(value, jax.Array)


def _is_frozen(value: Any) -> bool:
    """Return whether nobody can write into a value's memory."""
    while isinstance(value, np.ndarray):
        if value.flags.writeable:
            return False
        value = value.base
    owner = value.obj if isinstance(value, memoryview) else value
    return owner is None or isinstance(owner, (bytes, jax.Array, np.generic))


def _is_used_in_place(value: Any) -> bool:
    """Return whether JAX computes with a value in memory of the host."""
    return (
        type(value) is np.ndarray
        and value.nbytes >= LARGE
        and value.dtype == _jax.canonicalize_dtype(value.dtype)
        and _jax.default_platform() == "cpu"
        and not _is_frozen(value)
    )


def _aligned(value: Array) -> Array:
    """Return the array, or a copy of it if JAX's CPU device cannot use its memory."""
    if value.flags.c_contiguous and value.ctypes.data % _ALIGNMENT == 0:
        return value
    memory = np.empty(value.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    copy[...] = value
    return copy
