"""Data of programs: small arrays as constants of theirs, others on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen.emit.values import Array

_SMALL = 1 << 14


def is_small(array: Any) -> bool:
    """Whether an array is best a constant in what JAX lowers, as JAX itself has all arrays.

    Each one that a call hands over instead takes it a microsecond. Those of more than 16 kB would
    fill the StableHLO, and keep XLA busy.
    """
    return isinstance(array, np.ndarray) and array.nbytes <= _SMALL


def narrow(array: Array) -> Array:
    """The array as JAX's settings have it."""
    return np.asarray(array, _jax.canonicalize_dtype(array.dtype))


def types_of(arrays: Sequence[Array]) -> list[jax.ShapeDtypeStruct]:
    """What stands for arrays that are on the device, for JAX to lower a program by."""
    return [jax.ShapeDtypeStruct(x.shape, _jax.canonicalize_dtype(x.dtype)) for x in arrays]


def to_device(arrays: Sequence[Array]) -> list[Any]:
    """The arrays on the device: outside of any trace that is going on, and by one equation."""
    with _jax.eval_context():
        return jax.device_put(list(arrays))
