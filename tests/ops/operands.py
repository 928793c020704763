"""What Ops are tried on: values of every dtype, and programs run without compiling each whole."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

INTEGERS = [0, 1, 2, 3, 5, 7, 20]
SIGNED = [*INTEGERS, -1, -2, -3, -5, -7, -20]
FLOATS = [0.0, -0.0, 1, -1, 0.5, -0.5, 2.5, -3.5, 1.5, 0.25, np.inf, -np.inf, np.nan, 0.75]
COMPLEX = [0, 1, -1, 1j, -1j, 1 + 2j, 0.5 - 0.25j, -2 - 1j, 0.3 + 0.1j, 2, -0.5j, 3 - 2j, 0.25, 1.5j]
COUNT = 14


def values(dtype: str) -> np.ndarray:
    """``COUNT`` numbers of a dtype: of each sign, whole and not, its largest and smallest, NaN."""
    kind = np.dtype(dtype).kind
    if kind in "iu":
        limits = np.iinfo(dtype)
        numbers = SIGNED if kind == "i" else INTEGERS
        exact = np.resize(np.array([*numbers, limits.max, limits.min], dtype), COUNT - 1)
        return np.append(exact, np.array([limits.max], dtype))
    return np.resize({"b": [True, False], "f": FLOATS, "c": COMPLEX}[kind], COUNT).astype(dtype)


def run_by_equation(f: Any, *args: Any) -> list[Any]:
    """The outputs of a compiled function's program, computed equation by equation.

    JAX then compiles each primitive once for each of its types, not each program: a hundred
    combinations of dtypes share most of their equations.
    """
    closed = f.jaxpr(*args)
    jaxpr = closed.jaxpr
    found = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    found.update(zip(jaxpr.invars, args, strict=True))

    def read(x: Any) -> Any:
        return x.val if isinstance(x, jax.extend.core.Literal) else found[x]

    for eqn in jaxpr.eqns:
        out = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
        found.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
    return [read(x) for x in jaxpr.outvars]
