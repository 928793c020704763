"""Functions with derivatives of their own, as `jax.custom_jvp` gives them; nothing is traced."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ShapedArray
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import Value, atom, full_rank, like
from jaxprgen.errors import UnsupportedOpError
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax

Emit = Callable[..., Value]


def with_derivatives(function: Emit, derivatives: Callable[[], Sequence[Emit]]) -> Emit:
    """An elementwise function whose partial derivatives are other functions.

    Parameters
    ----------
    function
        ``function(builder, *operands)``, of operands of one float dtype and one shape, whose
        equations JAX need not be able to differentiate.
    derivatives
        Gives the partial derivatives, one per operand, called in the same way. They may have
        derivatives of their own. It is called when JAX differentiates, and only those for
        operands with a tangent are emitted.
    """

    def emit(b: Builder, *operands: Value) -> Value:
        return full_rank(b, construct, *operands)

    def construct(b: Builder, *operands: Atom) -> Value:
        types = [x.aval for x in operands]
        inner = b.nested(types)
        body = inner.build([atom(inner, function(inner, *inner.inputs))], name=function.__name__)
        closed, constants = _jax.hoist_constants(body)
        leading = [b.constant(c) for c in constants]
        return lax.custom_jvp_call(b, closed, functools.cache(_rule(types)), leading, operands)

    def _rule(types: Sequence[ShapedArray]) -> Callable[..., Any]:
        def rule(*zeros: bool) -> tuple[Any, Any, Any]:
            moving = [i for i, zero in enumerate(zeros) if not zero]
            b = Builder([*types, *(types[i] for i in moving)])
            xs, tangents = b.inputs[: len(types)], b.inputs[len(types) :]
            partials = derivatives()
            terms = [
                ew.multiply(b, partials[i](b, *xs), tangent)
                for i, tangent in zip(moving, tangents, strict=True)
            ]
            outputs = [emit(b, *xs), *([functools.reduce(_add(b), terms)] if terms else [])]
            closed = b.build([atom(b, y) for y in outputs], name=function.__name__)
            return closed.jaxpr, closed.consts, (not terms,)

        return rule

    emit.__name__, emit.__doc__ = function.__name__, function.__doc__
    return emit


def constant_in(b: Builder, *operands: Value) -> Value:
    """The derivative with respect to an operand that is a choice: zero."""
    return like(operands[0], 0)


def refused(message: str) -> Emit:
    """A derivative that is not there."""

    def emit(b: Builder, *operands: Value) -> Value:
        raise UnsupportedOpError(message)

    return emit


def _add(b: Builder) -> Callable[[Value, Value], Value]:
    return lambda x, y: ew.add(b, x, y)
