"""Graphs inside of an Op: each becomes a program inside of an equation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.emit.deferred import CountedRange, LoopRows
from jaxprgen.emit.random import Stream
from jaxprgen.emit.sparse import Sparse
from jaxprgen.emit.values import Value, value_of
from jaxprgen.errors import JaxprGenError
from jaxprgen.ir import Builder
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.static import FOLD_LIMIT, Row


class _Program(NamedTuple):
    """The program of an inner graph.

    Attributes
    ----------
    closed
        The program, without constants of its own.
    constants
        The arrays for its first inputs.
    inputs
        Its other inputs.
    outputs
        The graph's outputs, in terms of ``inputs`` and ``results``.
    results
        The outputs of the program.
    staged
        How many routines JAX traced for it.
    """

    closed: ClosedJaxpr
    constants: list[Any]
    inputs: Sequence[Var]
    outputs: list[Any]
    results: list[Var]
    staged: int


def call(ctx: RuleContext, graph: Any, inputs: Sequence[Any], name: str) -> list[Any]:
    """Return the outputs of a graph, computed by one ``jit`` equation that holds its program.

    Small static inputs are part of the program, and results that follow from them are static here
    as well. Equal inputs share one program, which JAX lowers once.
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
        if not asked:  # Else it depends on values that are not in the key.
            ctx.lowering.programs[key] = program
    b.inlined += program.staged
    found = dict(zip(program.inputs, map(value_of, operands), strict=True))
    if program.closed.jaxpr.eqns or program.results:  # A result may be a constant.
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
    positions: Sequence[int | Row | None] | None = None,
) -> tuple[list[Any], bool]:
    """Emit a graph into a builder.

    An error names the node inside of the graph, then the node that holds the graph.

    Parameters
    ----------
    ctx
        The context of the node that holds the graph.
    graph, builder, inputs
        The graph, the builder to emit into, and the values of the graph's inputs.
    positions
        The input of the node that each input of the graph is, or is a row of, or None where it is
        none of them; by default they are the same.

    Returns
    -------
    list, bool
        The outputs, and whether the value of an input was asked for.
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
    """Build the program of the emitted equations, which returns what they compute."""
    sources = [leaf.source for x in outputs for leaf in leaves(x)]
    results = dict.fromkeys(v for v in sources if type(v) is Var)
    computed = [v for v in results if v not in b.inputs]
    closed, constants = _jax.hoist_constants(b.build(computed, name=name))
    return _Program(closed, constants, b.inputs, outputs, computed, b.inlined)


def rebuilt(x: Any, leaf: Callable[[Value], Value]) -> Any:
    """Return a value in which ``leaf`` replaces the variables and the large arrays."""
    if type(x) is Value:
        stays = isinstance(x.source, np.ndarray) and x.source.size <= FOLD_LIMIT
        return x if stays else Value(leaf(Value(x.source)).source, x.shape)
    if type(x) is Stream:
        before = None if x.before is None else rebuilt(x.before, leaf)
        return Stream(rebuilt(x.key, leaf), x.taken, before)
    if isinstance(x, (CountedRange, LoopRows)):
        return x.mapped(lambda value: rebuilt(value, leaf))
    if isinstance(x, Sparse):
        return x.mapped(lambda value: rebuilt(value, leaf))
    if isinstance(x, list):
        return [rebuilt(each, leaf) for each in x]  # pyright: ignore[reportUnknownVariableType]
    return x


def leaves(x: Any) -> list[Value]:
    """Return the variables and the large arrays in a value."""
    found: list[Value] = []

    def collect(leaf: Value) -> Value:
        found.append(leaf)
        return leaf

    rebuilt(x, collect)
    return found


def _key(x: Any) -> Any:
    """Return a key of a value apart from the variables and the large arrays in it."""
    if type(x) is Value:
        source = x.source
        if type(source) is Var or source.size > FOLD_LIMIT:
            return x.shape, None
        return x.shape, source.dtype.str, source.shape, source.tobytes()
    if type(x) is Stream:
        return "stream", x.taken, x.before is None
    if isinstance(x, Sparse):
        return x.shape, x.order, *map(_key, leaves(x))
    if isinstance(x, list):
        return tuple(map(_key, x))  # pyright: ignore[reportUnknownVariableType]
    return repr(x)
