"""How many programs a compiled function keeps."""

from __future__ import annotations

from typing import NamedTuple

MOST_PROGRAMS = 1024
"""How many programs a compiled function keeps.

A program is emitted for each combination of argument types and of values that decide shapes. The
bound is there for functions that meet ever new ones, such as batches of every size; nobody should
meet it otherwise. It is a constant because a smaller number would save little memory beside what
JAX keeps, and `CompiledFunction.cache_clear` drops all programs at once.
"""


class CacheInfo(NamedTuple):
    """Statistics of a compiled function's programs.

    Attributes
    ----------
    misses
        How many programs were emitted since all of them were dropped.
    maxsize
        How many programs are kept. When there are as many, all are dropped.
    currsize
        How many programs there are now.
    """

    misses: int
    maxsize: int
    currsize: int
