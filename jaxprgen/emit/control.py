"""Loops whose bodies are emitted, not traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprgen import _jax
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
    operands = b.vary_alike(atoms(b, carries))
    types = [x.aval for x in operands]
    test, step = b.nested(types), b.nested(types)
    condition_jaxpr = test.build([atom(test, condition(test, *test.inputs))], name="condition")
    body_jaxpr = step.build(atoms(step, body(step, *step.inputs)), name="body")
    return list(lax.while_loop(b, condition_jaxpr, body_jaxpr, operands))


def scan(
    b: Builder,
    step: Callable[..., tuple[Sequence[Value], Sequence[Value]]],
    constants: Sequence[Value],
    carries: Sequence[Value],
    arrays: Sequence[Value],
    length: int,
) -> tuple[list[Value], list[Value]]:
    """Carries along the first axis of arrays, and the results of every step, stacked.

    ``step(builder, *constants, *carries, *slices)`` emits into a builder of its own, which it is
    given, and returns carries of the types they had, and results.
    """
    operands = b.vary_alike(atoms(b, [*constants, *carries, *arrays]))
    first = len(constants) + len(carries)
    types = [x.aval if i < first else _jax.slice_type(x.aval) for i, x in enumerate(operands)]
    inner = b.nested(types)
    after, results = step(inner, *inner.inputs)
    body = inner.build(atoms(inner, [*after, *results]), name="body")
    groups = operands[: len(constants)], operands[len(constants) : first], operands[first:]
    out = lax.scan(b, body, *groups, length)
    return list(out[: len(carries)]), list(out[len(carries) :])
