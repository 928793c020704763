"""Passes: from a program to one that computes the same in another way.

A pass is a frozen dataclass of options, and a function of a `ClosedJaxpr` that gives one; the one
given is never changed. They work on any program of JAX's.
"""

from collections.abc import Callable
from typing import TypeAlias

from jaxprgen._jax import ClosedJaxpr
from jaxprgen.passes.loops import DistributeScan, MapToVmap
from jaxprgen.passes.simplify import Simplify
from jaxprgen.passes.stabilize import Stabilize

Pass: TypeAlias = Callable[[ClosedJaxpr], ClosedJaxpr]

DEFAULT: tuple[Pass, ...] = (
    Stabilize(),
    MapToVmap(reassociate=True),
    DistributeScan(reassociate=True),
)
"""What `jaxprgen.compile` does to the program it emitted."""

__all__ = ["DEFAULT", "DistributeScan", "MapToVmap", "Pass", "Simplify", "Stabilize"]
