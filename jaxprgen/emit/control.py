"""Loops whose bodies are emitted, not traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprgen.emit.values import Value, atom, atoms
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def while_loop(
    b: Builder,
    condition: Callable[..., Value],
    body: Callable[..., Sequence[Value]],
    carries: Sequence[Value],
) -> list[Value]:
    """Repeat ``body(builder, *carries)`` while ``condition(builder, *carries)`` holds.

    Both emit into a builder of their own, which they are given. The condition is a boolean
    scalar; the body returns values of the carries' types.
    """
    operands = atoms(b, carries)
    types = [x.aval for x in operands]
    test, step = b.nested(types), b.nested(types)
    condition_jaxpr = test.build([atom(test, condition(test, *test.inputs))], name="condition")
    body_jaxpr = step.build(atoms(step, body(step, *step.inputs)), name="body")
    return list(lax.while_loop(b, condition_jaxpr, body_jaxpr, operands))
