"""Graphs inside of an Op: each becomes a program in an equation of the one around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.emit.deferred import CountedRange, LoopRows
from jaxprgen.emit.random import Stream
from jaxprgen.emit.values import Value, value_of
from jaxprgen.errors import JaxprGenError
from jaxprgen.ir import Builder
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.static import FOLD_LIMIT


class _Program(NamedTuple):
    """The program of an inner graph, whose first inputs are the ``constants``.

    ``outputs`` stand for the graph's, in terms of the program's other ``inputs`` and of
    ``results``, which are what it returns.
    """

    closed: ClosedJaxpr
    constants: list[Any]
    inputs: Sequence[Var]
    outputs: list[Any]
    results: list[Var]
    staged: int


def call(ctx: RuleContext, graph: Any, inputs: Sequence[Any], name: str) -> list[Any]:
    """What a graph gives for these inputs, by one ``jit`` equation that holds its program.

    Small known inputs are part of the program, and so is what merely repeats others; what follows
    from them is known here as well. Equal inputs get the same program, which JAX lowers once.
    """
    b = ctx.builder
    operands = [leaf.atom() for x in inputs for leaf in leaves(x)]
    types = tuple(x.aval for x in operands)
    key = id(graph), types, tuple(map(_key, inputs))
    program = ctx.lowering.programs.get(key)
    if program is None:
        inner = b.nested(types)
        given = map(Value, inner.inputs)
        values = [rebuilt(x, lambda _: next(given)) for x in inputs]
        outputs, asked = lower(ctx, graph, inner, values)
        program = _close(inner, outputs, name)
        if not asked:  # Else it depends on values that the key does not tell.
            ctx.lowering.programs[key] = program
    b.inlined += program.staged
    found = dict(zip(program.inputs, map(value_of, operands), strict=True))
    if program.closed.jaxpr.eqns:
        params = _jax.jit_params(program.closed, name)
        arguments = [*map(b.constant, program.constants), *operands]
        results = b.call(_jax.jit_p, program.closed, arguments, params)
        found.update(zip(program.results, map(Value, results), strict=True))

    def outside(leaf: Value) -> Value:
        return found[leaf.source] if type(leaf.source) is Var else leaf

    return [rebuilt(x, outside) for x in program.outputs]


def lower(
    ctx: RuleContext,
    graph: Any,
    builder: Builder,
    inputs: Sequence[Any],
    positions: Sequence[int | None] | None = None,
) -> tuple[list[Any], bool]:
    """The outputs of a graph, emitted into a builder of its own.

    ``positions`` says which input of the node is which of the graph's, where they are not the
    same or some are none. Also whether a value was asked for that decides a shape and that none
    of the inputs shows.
    An error tells the node inside of the graph, then the one that holds the graph.
    """
    plan = ctx.lowering.plan
    assert plan.inner is not None
    try:
        with builder:
            inner = ctx.lowering.inside(ctx.step, plan.inner(graph), builder, inputs, positions)
            return inner.run(), inner.statics.asked
    except JaxprGenError as error:
        where = ctx.lowering.statics.describe(ctx.step)
        if where in str(error):  # A value was asked for from inside.
            raise
        raise error.at(where) from error


def _close(b: Builder, outputs: list[Any], name: str) -> _Program:
    """The program of what was emitted; it returns what is neither known nor an input."""
    sources = [leaf.source for x in outputs for leaf in leaves(x)]
    results = dict.fromkeys(v for v in sources if type(v) is Var)
    computed = [v for v in results if v not in b.inputs]
    closed, constants = _jax.hoist_constants(b.build(computed, name=name))
    return _Program(closed, constants, b.inputs, outputs, computed, b.inlined)


def rebuilt(x: Any, leaf: Callable[[Value], Value]) -> Any:
    """A value with others in place of the variables and the large arrays in it."""
    if type(x) is Value:
        stays = isinstance(x.source, np.ndarray) and x.source.size <= FOLD_LIMIT
        return x if stays else Value(leaf(Value(x.source)).source, x.shape)
    if type(x) is Stream:
        before = None if x.before is None else rebuilt(x.before, leaf)
        return Stream(rebuilt(x.key, leaf), x.taken, before)
    if isinstance(x, (CountedRange, LoopRows)):
        return x.mapped(lambda value: rebuilt(value, leaf))
    if isinstance(x, list):
        return [rebuilt(each, leaf) for each in x]  # pyright: ignore[reportUnknownVariableType]
    return x


def leaves(x: Any) -> list[Value]:
    """The variables and the large arrays in a value."""
    found: list[Value] = []

    def collect(leaf: Value) -> Value:
        found.append(leaf)
        return leaf

    rebuilt(x, collect)
    return found


def _key(x: Any) -> Any:
    """What a value is, beside the variables and the large arrays in it."""
    if type(x) is Value:
        source = x.source
        if type(source) is Var or source.size > FOLD_LIMIT:
            return x.shape, None
        return x.shape, source.dtype.str, source.shape, source.tobytes()
    if type(x) is Stream:
        return "stream", x.taken, x.before is None
    if isinstance(x, list):
        return tuple(map(_key, x))  # pyright: ignore[reportUnknownVariableType]
    return repr(x)
