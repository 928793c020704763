"""Leaf routines that no few primitives express: JAX traces them, and the trace is copied in.

This is the only place where JAX traces on the way to a program: samplers and matrix exponentials of
JAX, and the functions that users register by `jaxprgen.implements` and `jaxprgen.samples`.
`jaxprgen.runtime.report` shows the nodes that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.emit.values import Value, atoms, value_of
from jaxprgen.ir import current_builder, outermost_builder
from jaxprgen.ir.rewriting import without_lines


def staged(routine: Callable[..., Any], *operands: Value) -> list[Value]:
    """Return the outputs of a JAX routine.

    Within one program, JAX traces routines that are the same once for each list of operand types.
    Two named tuples of one class are the same if their items are. Numbers, strings and tuples of
    them are compared by type and value, and everything else by identity. No trace outlives its
    program, because what a routine computes may depend on objects that change.
    """
    arguments = atoms(operands)
    types = tuple(x.aval for x in arguments)
    whole: Any = routine
    parts = tuple(whole) if isinstance(whole, tuple) else (whole,)
    key = "staged", type(whole), _key(parts), types, _jax.trace_context()
    # The entry holds the routine, so that its parts keep their addresses.
    program, _ = outermost_builder().memoized(key, lambda: (_trace(routine, types), routine))
    return [value_of(x) for x in current_builder().inline(program, arguments)]


def _key(x: Any) -> Hashable:
    """Return what only the same part of a routine has."""
    if type(x) is tuple:
        return tuple(map(_key, x))
    if type(x) in (int, bool, str, float, complex):
        return type(x), repr(x)  # This tells zeros of either sign apart.
    return _jax.identity(x)


def _trace(routine: Callable[..., Any], types: Sequence[Any]) -> ClosedJaxpr:
    # A new function, because JAX keeps traces of functions that compare equal.
    return without_lines(jax.make_jaxpr(lambda *operands: routine(*operands))(*types))


class Sampler(NamedTuple):
    """A routine that draws: ``function(key, *parameters, shape=shape, dtype=dtype)``.

    If ``shape`` is None, the parameters decide the shape.
    """

    function: Callable[..., Any]
    shape: tuple[int, ...] | None
    dtype: Any

    def __call__(self, key: Any, *parameters: Any) -> Any:
        """Return the draws."""
        return self.function(key, *parameters, shape=self.shape, dtype=self.dtype)
