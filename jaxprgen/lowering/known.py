"""What is known while emitting, as NumPy and a graph library's own functions take it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit.deferred import Deferred
from jaxprgen.emit.random import Stream
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.values import Broadcast, dtype_of, known, shape_of

FOLD_LIMIT = 1024
"""Elements up to which a known result is computed while emitting rather than emitted."""


def known_and_small(xs: Sequence[Any]) -> list[Any] | None:
    """The inputs as NumPy arrays, or None: one is not known, or they are large together."""
    size = 0
    arrays: list[Any] = []
    for x in xs:
        if type(x) is Var:
            return None
        array = as_known(x)
        if array is None and x is not None:
            return None
        size += getattr(array, "size", 0)
        arrays.append(array)
    return arrays if size <= FOLD_LIMIT else None


def is_known(x: Any) -> bool:
    """Whether a value is known."""
    return as_known(x) is not None


def known_or_ones(x: Any) -> Any:
    """`as_known`, or ones, where no more than the shape matters or that a check holds."""
    if type(x) is Selected:
        raise x.refuse()
    if isinstance(x, Deferred):
        return np.broadcast_to(np.ones((), x.dtype), x.known_shape())
    if known(x) is None and isinstance(x, (Var, Broadcast)):
        return np.broadcast_to(np.ones((), dtype_of(x)), shape_of(x))
    return as_known(x)


def as_known(x: Any) -> Any:
    """A known value as NumPy has it; things that are no arrays (slices, None) as they are."""
    if isinstance(x, (Deferred, Selected, Stream)):
        return None
    return known(x) if type(x) is Broadcast else x
