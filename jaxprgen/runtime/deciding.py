"""Arguments that decide programs by their values: what tells them apart, and which cannot."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxprgen._jax import Tracer, is_key
from jaxprgen.emit.values import Array

DECIDING_LIMIT = 64
"""Elements up to which a program is of the value of an argument that decides a shape."""
ASKING_LIMIT = 1 << 20
"""Elements up to which it is of no more than what is decided by the value, as a number of elements.

What tells a million of them from others takes 10 ms."""

MOST_VALUES = 4096
"""Values of arguments for which is kept what they decide; others are asked anew."""


def values_key(deciding: Sequence[int], arguments: Sequence[Any]) -> Any:
    """What tells the values of these arguments from others of the same types."""
    return tuple(
        None
        if isinstance(arguments[i], (Tracer, jax.ShapeDtypeStruct)) or is_key(arguments[i])
        else _digest(np.asarray(arguments[i]))
        for i in deciding
    )


def _digest(x: Array) -> bytes:
    """The same for equal arrays of one type, and short."""
    return x.tobytes() if x.size <= DECIDING_LIMIT else hashlib.sha256(x.tobytes()).digest()


def hindrance_of(x: Any, kind: str, name: str, position: int, decides: bool) -> str:
    """Why a shape cannot depend on an argument, and what to do; nothing if it can.

    With ``decides``, it is to depend on no more than what a node decides by its value.
    """
    what = "array" if np.ndim(x) else "number"
    if is_key(x):
        why = (
            "a PRNG key.\nDraw in a function of its own, and pass what it returns; or use no more "
            "of what the loop leaves than single rows and reductions."
        )
    elif isinstance(x, Tracer):
        static = f"mark it with jax.jit(..., static_argnums={position})"
        way = "call this outside of the transformation" if np.ndim(x) else static
        why = (
            f"a tracer ({type(x).__name__}) under a JAX transformation.\n"
            f"Pass {name!r} as a concrete {what}: {way}, close over it, or give the array a size "
            "that does not depend on it."
        )
    elif isinstance(x, jax.ShapeDtypeStruct):
        why = f"a ShapeDtypeStruct, which has none.\nPass {name!r} as a concrete {what}."
    elif decides and np.size(x) > ASKING_LIMIT:
        why = (
            f"an array of {np.size(x)} elements.\nUp to {ASKING_LIMIT} elements decide how many "
            "elements there are, how many steps a loop takes, or which way a branching goes."
        )
    elif not decides and np.size(x) > DECIDING_LIMIT:
        why = (
            f"an array of {np.size(x)} elements.\nA program is compiled for each value that "
            f"decides a shape; {DECIDING_LIMIT} elements are the most that is done for."
        )
    else:
        return ""
    return f"A shape depends on the value of {kind} {name!r}, which is {why}"
