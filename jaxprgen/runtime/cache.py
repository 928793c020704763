"""A bounded cache: the programs of a compiled function, and what is known of their arguments."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MOST_PROGRAMS = 1024
"""How many programs a compiled function keeps.

A program is emitted for each combination of argument types and of values that decide shapes. The
bound is there for functions that meet ever new ones, such as batches of every size; nobody should
meet it otherwise. It is a constant because a smaller number would save little memory beside what
JAX keeps, and `CompiledFunction.cache_clear` drops all programs at once.
"""


class CacheInfo(NamedTuple):
    """Statistics of a compiled function's programs, as `functools.lru_cache` has them.

    Attributes
    ----------
    hits
        How often a call, or a method such as ``jaxpr``, found its program in the cache.
    misses
        How many programs were emitted.
    maxsize
        How many programs are kept; the least recently used one is dropped for a new one.
    currsize
        How many programs there are now.
    """

    hits: int
    misses: int
    maxsize: int
    currsize: int


class Cache(Generic[K, V]):
    """A dictionary that drops the entry used least recently when it is full. Thread-safe."""

    def __init__(self, maxsize: int) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()
        self._maxsize = maxsize
        self._hits = self._misses = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of a key, which counts as a hit, or None."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
                self._hits += 1
            return found

    def put(self, key: K, value: V) -> None:
        """Set the value of a key. A new key counts as a miss."""
        with self._lock:
            self._misses += key not in self._entries
            self._entries[key] = value
            self._entries.move_to_end(key)
            if len(self._entries) > self._maxsize:
                self._entries.popitem(last=False)

    def discard(self, is_stale: Callable[[K], bool]) -> None:
        """Drop the entries with these keys."""
        with self._lock:
            for key in list(filter(is_stale, self._entries)):
                del self._entries[key]

    def clear(self) -> None:
        """Drop all entries and reset the counts."""
        with self._lock:
            self._entries.clear()
            self._hits = self._misses = 0

    def info(self) -> CacheInfo:
        """Return the counts."""
        with self._lock:
            return CacheInfo(self._hits, self._misses, self._maxsize, len(self._entries))
