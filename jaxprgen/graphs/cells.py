"""Cells: each owns the value of one shared variable, for all functions and threads that use it."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import numpy as np
from jax.sharding import NamedSharding

from jaxprgen import _jax
from jaxprgen._jax import ArrayImpl
from jaxprgen.arguments.shardings import PortableArray, placed
from jaxprgen.arguments.sparse import MatrixParts, scipy_matrix
from jaxprgen.graphs.generators import is_generator, keyed, with_key
from jaxprgen.graphs.shardings import to_device
from jaxprgen.ir import canonical_dtype


class _Copy(NamedTuple):
    """An array on the device, made of a value in memory of the host.

    Attributes
    ----------
    array
        The array. Nobody but the cell has it.
    source
        The value.
    data
        The bytes of the value, if someone may write into it; else None.
    """

    array: Any
    source: Any
    data: bytearray | None

    def is_of(self, value: Any) -> bool:
        """Return whether this is a copy of a value as it is now."""
        if value is not self.source or self.array.dtype != _jax.canonicalize_dtype(value.dtype):
            return False
        return self.data is None or self.data == np.ascontiguousarray(value)


class Cell:
    """The owner of the value of a shared variable.

    The value is the one element of a list, the storage, where the graph library's functions look
    for it. It is one of these:

    - a JAX array. It stays on the device from call to call;
    - an array of NumPy, of which the cell has a copy on the device. If someone may have written
      into the value, its bytes are compared before each use of the copy;
    - a generator of NumPy, which stands for a PRNG key;
    - a sparse matrix of SciPy, which functions take apart themselves.

    The storage of a variable that functions of the library use holds arrays of NumPy, because the
    library can use no others.

    Parameters
    ----------
    storage : list
        The storage.
    is_told : bool
        Whether the variable's container tells the cell who asks for the value or the storage.
        Otherwise anyone may have them.
    as_numpy : bool
        Whether who asks for the value gets a NumPy array, unless several devices hold it.

    Attributes
    ----------
    lock : threading.RLock
        Whoever reads or writes the value holds it. A thread may take a lock that it holds.
    number : int
        How many cells there were before.
    is_in_use : bool
        Whether functions that the library runs may read and write the storage.
    """

    def __init__(self, storage: list[Any], is_told: bool, as_numpy: bool = False) -> None:
        self.storage = storage
        self.lock = threading.RLock()
        self.number = next(_numbers)
        self._is_told = is_told
        self._is_lent = self.is_in_use = not is_told
        self.as_numpy = as_numpy
        self._copy: _Copy | None = None

    @property
    def value(self) -> Any:
        """The value in the storage."""
        return self.storage[0]

    def __deepcopy__(self, memo: dict[int, Any]) -> Cell:
        with self.lock:
            return Cell(copy.deepcopy(self.storage, memo), self._is_told, self.as_numpy)

    def __reduce__(self) -> Any:
        storage, value = self.storage, self.show()
        if _jax.is_on_several_devices(value):
            storage = [PortableArray(value)]
        elif type(value) is ArrayImpl:
            storage = [np.asarray(value)]
        return Cell, (storage, self._is_told, self.as_numpy)

    # --- For the variable's container ---------------------------------------------------------

    def set(self, value: Any, *, is_lent: bool = True) -> None:
        """Set the value; with ``is_lent``, someone else may have it."""
        with self.lock:  # A function that updates the value is done, or has not begun.
            self.storage[0], self._copy = value, None
            self._is_lent = is_lent

    def lend(self) -> Any:
        """Return the value to someone who may keep it, and may write into it."""
        with self.lock:
            self._is_lent, self._copy = True, None
            if self.is_in_use or self.as_numpy:
                self._to_host()
            return self.storage[0]

    def show(self) -> Any:
        """Return the value to someone who may keep it, and does not write into it."""
        with self.lock:
            value = self.storage[0]
            self._is_lent |= type(value) is ArrayImpl
            return value

    def hand_over(self) -> list[Any]:
        """Return the storage to a function of the library, which may use it from now on."""
        with self.lock:
            self.is_in_use, self._copy = True, None
            self._to_host()
            return self.storage

    def _to_host(self) -> None:
        value = self.storage[0]
        if type(value) is ArrayImpl and not _jax.is_on_several_devices(value):
            self.storage[0] = np.array(value)

    # --- For functions of this package, which hold the lock -----------------------------------

    def place(self, sharding: NamedSharding, name: str) -> None:
        """Put the value of the variable of this name where it is to live, unless it is there."""
        value = self.storage[0]
        if isinstance(value, np.ndarray):
            canonical_dtype(value)  # It refuses integers that would be wrapped.
        self.storage[0] = placed(value, sharding, f"Shared variable {name!r}")

    def read(self) -> Any:
        """Return the value on the device, or the key that it stands for."""
        value = self.storage[0]
        if value is None or type(value) is ArrayImpl:
            return value
        if self._copy is not None and self._copy.is_of(value):
            return self._copy.array
        if is_generator(value):
            self.storage[0] = value = keyed(value)
            return value.key
        # JAX's CPU device may use the memory that it is given.
        memory, data = value, None
        if isinstance(value, np.ndarray) and not _is_frozen(value):
            memory = np.array(value, order="C")
            data = bytearray(memory.data) if self._is_lent or self.is_in_use else None
        self._copy = _Copy(to_device([memory])[0], value, data)
        return self._copy.array

    def lease(self) -> Any:
        """Return what `read` does, to someone who may keep it."""
        value = self.read()
        self._is_lent, self._copy = True, None
        return value

    def give(self) -> Any:
        """Return what `read` does; an array is in memory that a program may reuse."""
        value = self.storage[0]
        if type(value) is ArrayImpl:
            return jax.numpy.copy(value) if self._is_lent else value
        value, self._copy = self.read(), None
        return value

    def as_stored(self, old: Any, value: Any) -> Any:
        """Return a new value as the storage will hold it; it does not hold it yet.

        Parameters
        ----------
        old
            The value that the storage had when the new one was computed.
        value : jax.Array or MatrixParts
            The new value on the device, or a key.
        """
        self._copy = None
        if type(old) is not ArrayImpl:
            if isinstance(value, MatrixParts):
                return scipy_matrix(value, old)
            if is_generator(old):
                return with_key(old, value)
        if not self.is_in_use or _jax.is_on_several_devices(value):
            return value
        on_host = np.array(value, order="C")
        self._copy = _Copy(value, on_host, bytearray(on_host.data))
        return on_host

    def write(self, old: Any, new: Any) -> None:
        """Write a new value, unless another was set since the old one was read.

        That can happen if the variable's container is one of the library's own, which takes no
        lock. What was set then counts as set after this update.
        """
        if self.storage[0] is old:
            self.storage[0] = new
            self._is_lent = not self._is_told


def write_all(cells: Sequence[Cell], old: Sequence[Any], values: Sequence[Any]) -> None:
    """Write new values: all of them or none, also if the user interrupts it.

    Parameters
    ----------
    cells
        The cells, whose locks the caller holds.
    old
        The values that they had when the new ones were computed.
    values
        The new values, as `Cell.as_stored` takes them.
    """
    # All are copied before one is written.
    new = [c.as_stored(before, x) for c, before, x in zip(cells, old, values, strict=True)]
    try:
        for each in zip(cells, old, new, strict=True):
            Cell.write(*each)
    except BaseException:
        for each in zip(cells, old, new, strict=True):
            Cell.write(*each)
        raise


_numbers = itertools.count()
_cells: WeakKeyDictionary[Any, Cell] = WeakKeyDictionary()
"""By the containers of the libraries' own classes."""
_adding = threading.Lock()


def cell_of(container: Any) -> Cell:
    """Return the cell of a container, the same one for all functions of the variable."""
    own = getattr(container, "cell", None)
    if own is not None:
        return own
    with _adding:
        found = _cells.get(container)
        if found is None:
            found = _cells[container] = Cell(container.storage, False)
        return found


def locks_of(cells: Iterable[Cell]) -> list[Any]:
    """Return the locks of cells in the order of their numbers, so that no two functions wait."""
    by_number = {cell.number: cell.lock for cell in cells}
    return [by_number[number] for number in sorted(by_number)]


def holding(locks: Sequence[Any], function: Callable[..., Any], *args: Any) -> Any:
    """Return what a function returns that is called while all locks are held.

    No bytecode comes between a lock and the list of those that are taken, or between the function's
    end and their release: an interrupt of the user's comes with all of them, or none.
    """
    taken: list[Any] = []
    releases = map(_RELEASE, taken)  # Of the locks that the list will hold.
    try:
        taken.extend(filter(_ACQUIRE, locks))
        return function(*args)
    finally:
        _ = [*releases]


_ACQUIRE, _RELEASE = type(threading.RLock()).acquire, type(threading.RLock()).release


def _is_frozen(value: Any) -> bool:
    """Return whether nobody can write into an array's memory."""
    while isinstance(value, np.ndarray):
        if value.flags.writeable:
            return False
        value = value.base
    owner = value.obj if isinstance(value, memoryview) else value
    return owner is None or isinstance(owner, (bytes, jax.Array, np.generic))
