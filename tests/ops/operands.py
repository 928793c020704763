"""What Ops are tried on, and how to try many of them cheaply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxprgen._jax import Literal, eval_eqn

UNSIGNED = [0, 1, 2, 3, 5, 7, 20]
SIGNED = [*UNSIGNED, -1, -2, -3, -5, -7, -20]
FLOATS = [0.0, -0.0, 1, -1, 0.5, -0.5, 2.5, -3.5, 1.5, 0.25, np.inf, -np.inf, np.nan, 0.75]
COMPLEX = [
    0,
    1,
    -1,
    1j,
    -1j,
    1 + 2j,
    0.5 - 0.25j,
    -2 - 1j,
    0.3 + 0.1j,
    2,
    -0.5j,
    3 - 2j,
    0.25,
    1.5j,
]
NUMBERS = {"b": [True, False], "u": UNSIGNED, "i": SIGNED, "f": FLOATS, "c": COMPLEX}
COUNT = 14


def values(dtype: str, *, limits: bool = False) -> np.ndarray:
    """``COUNT`` numbers of a dtype: small ones of each sign, for floats also infinities and NaN.

    With ``limits`` the last two of integers are the dtype's smallest and largest.
    """
    kind = np.dtype(dtype).kind
    numbers = np.resize(np.array(NUMBERS[kind]), COUNT).astype(dtype)
    if limits and kind in "iu":
        numbers[-2:] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return numbers


def run_by_equation(f: Any, *args: Any) -> list[Any]:
    """The outputs of a compiled function's program, computed one equation after the other.

    JAX then compiles every primitive once for each of its types, and not every program: the
    hundreds of combinations of dtypes that an Op takes share most of their equations.
    """
    closed = f.jaxpr(*args)
    jaxpr = closed.jaxpr
    found = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    found.update(zip(jaxpr.invars, args, strict=True))

    def read(x: Any) -> Any:
        return x.val if isinstance(x, Literal) else found[x]

    for eqn in jaxpr.eqns:
        found.update(zip(eqn.outvars, eval_eqn(eqn, list(map(read, eqn.invars))), strict=True))
    return [read(x) for x in jaxpr.outvars]


def jit_quickly(function: Callable[..., Any]) -> Any:
    """`jax.jit` that does not optimize: large programs are then compiled in a third of the time."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})
