"""Leaf routines that no few primitives express: JAX traces them once, and the trace is copied in.

This is the only place where JAX traces on the way to a program: samplers of JAX, and the functions
that users register by `jaxprgen.implements` and `jaxprgen.samples`. `jaxprgen.runtime.report` shows
the nodes that need it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr
from jaxprgen.emit.values import Value, atoms, value_of
from jaxprgen.ir import current_builder
from jaxprgen.ir.rewriting import without_lines


def staged(routine: Callable[..., Any], *operands: Value) -> list[Value]:
    """Return the outputs of a JAX routine. Equal routines on equal types are traced once."""
    arguments = atoms(operands)
    program = _trace(routine, tuple(x.aval for x in arguments), _jax.trace_context())
    outputs = current_builder().inline(program, arguments)
    return [value_of(x) for x in outputs]


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


@functools.lru_cache(maxsize=1024)
def _trace(routine: Callable[..., Any], avals: Sequence[Any], _: Any) -> ClosedJaxpr:
    return without_lines(jax.make_jaxpr(routine)(*avals))
