"""The values of shared variables on the device, as they are when a function is called."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen.emit.values import Array
from jaxprgen.errors import SharedValueWarning
from jaxprgen.runtime.announcements import levels_to_user
from jaxprgen.runtime.program import to_device

LARGE = 1 << 18
"""Bytes from which JAX's CPU device uses the memory of an array instead of a copy.

To compare fewer bytes takes at most 5 µs. A call that uses the memory waits for its results."""
_ALIGNMENT = 64
"""JAX's CPU device uses memory of the host if its address is a multiple of this."""


class _Copy(NamedTuple):
    """An array on the device.

    Attributes
    ----------
    array
        The array.
    source
        What it was made of: a value that cannot be written into or whose memory it shares, or else
        the bytes of the value at that time.
    layout
        The strides of a value of which there are the bytes.
    """

    array: Any
    source: Any
    layout: Any = None

    def is_of(self, value: Any) -> bool:
        if self.source is None:
            return False
        if type(self.source) is bytearray:
            is_same = self.layout == getattr(value, "strides", None)
            is_same = is_same and self.source == value.ravel("K")
        else:
            is_same = self.source is value
        return (
            is_same
            and self.array.shape == value.shape
            and self.array.dtype == _jax.canonicalize_dtype(value.dtype)
        )


def _compared(array: Any, source: Any, layout: Any) -> _Copy:
    return _Copy(array, bytearray(memoryview(source.ravel("K"))), layout)


class SharedArray:
    """The array in a container, as JAX takes it.

    Anyone can write into an array that ``get_value(borrow=True)`` returned or that was shared with
    ``borrow=True``, and Aesara's updates do. Therefore each call compares the array with the bytes
    that were copied to the device. There are two exceptions: read-only memory is copied once, and
    JAX's CPU device uses the memory of a large array itself.

    Parameters
    ----------
    storage : list
        It holds the array. A large array that nothing else refers to is moved to memory that the
        CPU device can use.
    """

    def __init__(self, storage: list[Any]) -> None:
        self._storage = storage
        self._copy = self._same = self._spare = _Copy(None, None)

    @property
    def value(self) -> Any:
        """The value in the container."""
        return self._storage[0]

    def now(self) -> tuple[Any, Any, bool]:
        """Return the value, the array on the device, and whether they share memory.

        If they do, results must be complete before someone can write into the value.
        """
        # No variable here refers to the value, because `_share` counts references.
        held = self._same
        if held.is_of(self._storage[0]) or (held := self._share()):
            return held.source, held.array, True
        value = self._storage[0]
        if value is None or isinstance(value, jax.Array):
            return value, value, False
        return value, self.copy(), False

    def copy(self) -> Any:
        """Return the value in memory on the device that nobody writes into or donates."""
        value, held = self._storage[0], self._copy
        if not held.is_of(value):
            if isinstance(value, np.ndarray) and not _is_frozen(value):
                source = np.array(value)  # Another thread may write into the value.
                held = _compared(to_device([source])[0], source, value.strides)
            else:
                held = _Copy(_copied(value), value)
            self._copy = held
        return held.array

    def take(self) -> Any:
        """Return the value in memory on the device that the caller may donate."""
        value, spare = self._storage[0], self._spare
        self._spare = _Copy(None, None)
        if value is None or isinstance(value, jax.Array):
            return value
        return spare.array if spare.is_of(value) else _copied(value)

    def on_host(self) -> Any:
        """Return the value as a NumPy array; if it was on the device, `take` finds it there."""
        array = self._storage[0]
        if isinstance(array, jax.Array):
            self._storage[0] = value = np.array(array)
            self._spare = _compared(array, value, value.strides)
        return self._storage[0]

    def _share(self) -> _Copy | None:
        """Let the device use the value's memory if it can."""
        is_alone = sys.getrefcount(self._storage[0]) == _ALONE
        value = self._storage[0]
        self._same = _Copy(None, None)
        if (
            type(value) is not np.ndarray
            or value.nbytes < LARGE
            or _is_frozen(value)
            or value.dtype != _jax.canonicalize_dtype(value.dtype)
            or not _uses_host_memory(_jax.default_platform())
        ):
            return None
        if not (value.flags.c_contiguous and value.ctypes.data % _ALIGNMENT == 0):
            if not is_alone or value.base is not None:
                return None
            self._storage[0] = value = _aligned(value)
        (array,) = to_device([value])
        if not _jax.shares_memory(array, value):
            return None
        self._same = held = _Copy(array, value)
        return held


_PROBE = [np.zeros(1)]
_ALONE = sys.getrefcount(_PROBE[0])
"""The count of references to an array that only one list refers to."""

_arrays: WeakKeyDictionary[Any, SharedArray] = WeakKeyDictionary()
"""By the container whose list each of them reads."""


def shared_array(container: Any) -> SharedArray:
    """Return the array in a container of Aesara, the same object for all functions."""
    found = _arrays.get(container)
    return found or _arrays.setdefault(container, SharedArray(container.storage))


def _copied(value: Any) -> Any:
    """Return a copy of an array on the device, made outside of any trace that is going on."""
    if isinstance(value, jax.Array):
        with _jax.eval_context():
            return jax.numpy.copy(value)
    # Of a copy, because JAX may use the memory of an array that is aligned by chance.
    return to_device([np.array(value)])[0]


class FixedValues:
    """Warns once if an outer program keeps the present values of shared variables.

    Parameters
    ----------
    function : str
        The name of the function that reads them.
    names : sequence of str
        The names of the variables.
    remedy : str
        How to pass the values as arguments.
    """

    def __init__(self, function: str, names: Sequence[str], remedy: str) -> None:
        several = "s" if len(names) > 1 else ""
        self._message = (
            f"JAX traces {function!r}, and the program that it makes, such as that of an outer "
            f"jit, keeps the present value{several} of {', '.join(map(repr, names))}. It will not "
            f"notice new values.\n{remedy}"
        )
        self._is_news = bool(names)

    def warn(self) -> None:
        """Issue the warning if JAX is making a program, unless it was issued before."""
        if self._is_news and _jax.is_staged():
            self._is_news = False
            warnings.warn(self._message, SharedValueWarning, stacklevel=levels_to_user())


def _is_frozen(value: Any) -> bool:
    """Return whether nobody can write into a value's memory."""
    while isinstance(value, np.ndarray):
        if value.flags.writeable:
            return False
        value = value.base
    owner = value.obj if isinstance(value, memoryview) else value
    return owner is None or isinstance(owner, (bytes, jax.Array, np.generic))


def _aligned(value: Array) -> Array:
    """Return a copy of an array in memory that JAX's CPU device can use."""
    memory = np.empty(value.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    copy[...] = value
    return copy


@functools.cache
def _uses_host_memory(platform: str) -> bool:
    """Return whether the default device, on this platform, uses the memory of aligned arrays."""
    probe = _aligned(np.zeros(1, np.int32))
    (array,) = to_device([probe])
    return _jax.shares_memory(array, probe)
