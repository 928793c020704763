"""JAX's own batching: from a program on one row to the program on all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax._src.interpreters import batching as _batching
from jax.extend import core as _extend

from jaxprgen._jax.core import ClosedJaxpr, Primitive
from jaxprgen._jax.lines import SourceInfo
from jaxprgen._jax.programs import closed_jaxpr

_TABLES = [
    table
    for name in ("fancy_primitive_batchers", "primitive_batchers")
    if isinstance(table := getattr(_batching, name), Mapping)
]
"""JAX's rules by primitive; there is one table from JAX 0.8 on."""


PROMISES_SLICES = jax.__version_info__ < (0, 9)
"""Whether the rule of ``dynamic_slice`` makes a ``gather`` that promises what the slice does not:
that it reads inside of the array."""


def has_batching_rule(primitive: Primitive) -> bool:
    """Return whether JAX batches equations of a primitive, other than custom derivatives."""
    return any(primitive in table for table in _TABLES)


def batched(closed: ClosedJaxpr, types: Sequence[Any], is_batched: Sequence[bool]) -> ClosedJaxpr:
    """Return the program that `jax.vmap` makes of another one, by tracing.

    Parameters
    ----------
    closed : ClosedJaxpr
        The program on one row, which reads at least one batched input.
    types : sequence of ShapedArray
        The types of the new program's inputs.
    is_batched : sequence of bool
        Which of them have rows along their first axis. All rows share the others.

    Returns
    -------
    ClosedJaxpr
        All its outputs have rows along their first axis. Its equations have the names and lines of
        those that they come from.
    """
    axes = tuple(0 if own else None for own in is_batched)
    found = jax.make_jaxpr(jax.vmap(_extend.jaxpr_as_fun(closed), axes))(*types)
    lines = {eqn.source_info.traceback for eqn in closed.jaxpr.eqns}
    jaxpr, equations = found.jaxpr, []
    for eqn in jaxpr.eqns:
        (_, *names), line = eqn.source_info.name_stack.stack, eqn.source_info.traceback
        stack = type(eqn.source_info.name_stack)(tuple(names))  # Without that of `jax.vmap`.
        source_info = SourceInfo(line if line in lines else None, stack)
        params = {name: _with_plain_numbers(x) for name, x in eqn.params.items()}
        equations.append(eqn.replace(params=params, source_info=source_info))
    constants = list(zip(jaxpr.constvars, found.consts, strict=True))
    return closed_jaxpr(jaxpr.invars, jaxpr.outvars, equations, constants, of=jaxpr)


def _with_plain_numbers(x: Any) -> Any:
    """Return a parameter in which integers are Python's, not NumPy's as some rules make them."""
    if isinstance(x, tuple):
        items = map(_with_plain_numbers, x)
        return tuple(items) if type(x) is tuple else type(x)(*items)
    return int(x) if isinstance(x, np.integer) else x
