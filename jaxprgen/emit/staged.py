"""Leaf routines that no primitive and no few primitives express: traced once, then copied in.

This is the one place where JAX traces on the way to a program, and what it may trace is a
routine of this package or of JAX, never a user's. `jaxprgen.runtime.report` shows which nodes did.
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


def staged(routine: Callable[..., Any], *operands: Value) -> list[Value]:
    """The outputs of a JAX routine. Equal routines on equal types are traced once."""
    arguments = atoms(operands)
    program = _trace(routine, tuple(x.aval for x in arguments), _jax.trace_context())
    outputs = current_builder().inline(program, arguments)
    return [value_of(x) for x in outputs]


class Sampler(NamedTuple):
    """A routine that draws: ``function(key, *parameters, shape=shape, dtype=dtype)``.

    Without a shape the parameters decide it.
    """

    function: Callable[..., Any]
    shape: tuple[int, ...] | None
    dtype: Any

    def __call__(self, key: Any, *parameters: Any) -> Any:
        """The draws."""
        return self.function(key, *parameters, shape=self.shape, dtype=self.dtype)


@functools.lru_cache(maxsize=1024)
def _trace(routine: Callable[..., Any], avals: Sequence[Any], _: Any) -> ClosedJaxpr:
    return jax.make_jaxpr(routine)(*avals)
