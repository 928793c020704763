"""Loops and branches whose bodies are emitted rather than traced."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Size, Var
from jaxprgen.emit import elementwise as ew, index as ix, primitives as lax, reduce
from jaxprgen.emit.checks import Check
from jaxprgen.emit.custom_derivatives import forward_only
from jaxprgen.emit.shape import expand_dims, squeeze, stack
from jaxprgen.emit.sizes import at_least_one
from jaxprgen.emit.values import (
    BOOL,
    INT32,
    INT64,
    Value,
    atoms,
    broadcast_to,
    common_shape,
    full,
    value_of,
)
from jaxprgen.emit.windows import resize
from jaxprgen.errors import ReverseModeError, ShapeMismatchError
from jaxprgen.ir import Atom, Builder, current_builder
from jaxprgen.ir.loops import Condition, Loop
from jaxprgen.ir.programs import parts


def while_loop(
    condition: Callable[..., Value],
    body: Callable[..., Sequence[Value]],
    carries: Sequence[Value],
    fixed: Sequence[Value] = (),
) -> list[Value]:
    """Repeat ``body(*carries, *fixed)`` while ``condition(*carries, *fixed)`` holds.

    Each function emits into a builder of its own. The condition is a boolean scalar. The body
    returns values of the carries' types. A known number in ``fixed`` is no operand of the loop.
    """
    b, count = current_builder(), len(carries)
    operands = b.vary_alike(atoms([*carries, *(x for x in fixed if x.fill_value is None)]))
    types = [x.aval for x in operands]

    def given(inner: Builder) -> list[Value]:
        values = _values(inner)
        rest = iter(values[count:])
        return [*values[:count], *(next(rest) if x.fill_value is None else x for x in fixed)]

    with b.nested(types) as inner:
        condition_jaxpr = inner.build([condition(*given(inner)).atom()], name="condition")
    with b.nested(types) as inner:
        after = atoms(body(*given(inner)))
        body_jaxpr = inner.build([*after, *inner.inputs[count:]], name="body")
    return lax.while_loop(condition_jaxpr, body_jaxpr, operands)[:count]


def _values(b: Builder) -> list[Value]:
    """Return the inputs of the program that a builder makes."""
    return [Value(v) for v in b.inputs]


Values: TypeAlias = Sequence[Value]
StepFunction = Callable[..., tuple[Values, Values, Value | None]]
"""``step(*constants, *carries, *slices)`` emits one step into a builder of its own.

It returns the next carries, of the same types, the results of the step, and whether this is the
last step (None if it never is)."""


class LoopResult(NamedTuple):
    """The result of a loop.

    Attributes
    ----------
    steps
        The number of steps taken.
    carries
        The carries after the last step.
    last
        The results of the last step; zeros if there was no step.
    stacked
        The results of all steps. If only the running program knows the number of steps, zeros pad
        them to the bound; without a bound nothing is stacked.
    before
        For some carries, by position, the stacked values that they have before each step.
    """

    steps: Value
    carries: list[Value]
    last: list[Value]
    stacked: list[Value]
    before: Mapping[int, Value]


def scan(
    step: StepFunction, constants: Values, carries: Values, arrays: Values, length: Size
) -> LoopResult:
    """Loop over the rows of arrays for a known number of steps, as `jax.lax.scan`.

    Loop-invariant work is computed once, before the loop, and what its steps check is checked after
    it. Unused results are eliminated in the end.

    Parameters
    ----------
    step
        Emits one step; see `StepFunction`. It never ends the loop.
    constants
        The values that every step reads.
    carries
        The initial values of the carries.
    arrays
        The arrays of which step ``i`` reads row ``i``, each of shape (length, ...).
    length
        The number of steps. If it is symbolic, it has to be at least one.
    """
    b = current_builder()
    steps = at_least_one(length)
    if steps != length:

        def with_rows(x: Value, count: Size) -> Value:
            return resize(x, (count, *x.shape[1:]))

        found = scan(step, constants, carries, [with_rows(x, steps) for x in arrays], steps)
        before = {i: with_rows(x, length) for i, x in found.before.items()}
        stacked = [with_rows(x, length) for x in found.stacked]
        return found._replace(steps=full((), length, INT64), stacked=stacked, before=before)
    operands = b.vary_alike(atoms([*constants, *carries, *arrays]))
    count, first = len(constants), len(constants) + len(carries)
    types = [x.aval if i < first else _jax.slice_type(x.aval) for i, x in enumerate(operands)]
    inner = b.nested(types)
    checks = inner.postponed = list[Check]()
    with inner:
        given = inner.inputs
        after, results, _ = step(*_values(inner))
        checked = [x for c in checks for x in (c.failed, c.shown)]
        outs = _varying([*after, *results, *checked], given)
    after, results, checked = parts(outs, len(carries), len(results))
    own, carried, rows = map(dict, parts(list(zip(given, operands)), count, len(carries)))  # noqa: B905
    carried.update((inner.add_input(x.aval), x) for x in _blanks(results, operands))
    whole = _loop(inner, own, carried, [*after, *results])
    whole = replace(whole, rows=rows, stacked=[*results, *checked], length=length)
    loop = whole.merged().hoisted(b)
    entering = {i: v for i, v in enumerate(given[count:first]) if v in loop.carries}
    out = replace(loop, stacked=[*loop.stacked, *entering.values()]).emit(b)
    ends, rest = loop.ends(whole, out), map(Value, out[len(loop.carries) :])
    stacked = [*itertools.islice(rest, len(results))]
    for c in checks:  # Passes rearrange loops without effects only.
        c._replace(failed=next(rest), shown=next(rest)).emit()
    before = dict(zip(entering, rest, strict=True))
    moved, last = parts([*map(value_of, ends)], len(carries))
    return LoopResult(full((), length, INT64), moved, last, stacked, before)


def _loop(
    inner: Builder, constants: dict[Var, Atom], carries: dict[Var, Atom], after: Sequence[Atom]
) -> Loop:
    """Return the loop whose step a builder has collected, with that builder's constants."""
    b = current_builder()
    b.inlined += inner.inlined
    constants = {**constants, **inner.hoist_constants(b)}
    pairs = dict(zip(carries, after, strict=True))
    return Loop(constants, carries, {}, inner.equations_from(0), pairs)


def unrolled(
    step: StepFunction, constants: Values, carries: Values, arrays: Values, length: int
) -> LoopResult:
    """Emit steps one after the other, as `scan`; rows of known arrays are known.

    Raises
    ------
    ShapeMismatchError
        Steps return results of different shapes.
    """
    sources = [(x, x.static) for x in arrays]
    found: list[Sequence[Value]] = []
    for i in range(length):
        rows = [ix.take(x, [i]) if v is None else Value(np.asarray(v[i])) for x, v in sources]
        carries, results, _ = step(*constants, *carries, *rows)
        found.append(results)
    stacked = [_stacked(column) for column in zip(*found, strict=True)]
    return LoopResult(Value(np.asarray(length)), list(carries), list(found[-1]), stacked, {})


def _stacked(rows: Sequence[Value]) -> Value:
    shapes = dict.fromkeys(x.shape for x in rows)
    if len(shapes) > 1:
        raise ShapeMismatchError(
            f"Steps of the loop return rows of shapes {', '.join(map(str, shapes))}: the rows "
            "that a loop stacks must have one shape."
        )
    return stack(rows)


def _blanks(results: Sequence[Atom], operands: Sequence[Atom], *rows: Size) -> list[Atom]:
    """Return zeros of the types of the results, or that many rows of them."""
    b = current_builder()
    zeros = [full((*rows, *r.aval.shape), 0, r.aval.dtype) for r in results]
    return list(b.vary_alike([*atoms(zeros), *operands]))[: len(zeros)]


def _varying(xs: Sequence[Value], given: Sequence[Var]) -> list[Atom]:
    """Return the results of a step as atoms that vary over the mesh as its inputs do."""
    inner = current_builder()
    found = atoms(xs)
    return list(inner.vary_alike([*found, *given]))[: len(found)]


def until(
    step: StepFunction,
    constants: Values,
    carries: Values,
    arrays: Values,
    limit: Value,
    bound: Size | None,
    irreversible: Callable[[], Exception],
) -> LoopResult:
    """Loop for at most ``limit`` steps, as `scan`; the loop ends after a step that says so.

    JAX differentiates it in forward mode only.

    Parameters
    ----------
    step, constants, carries, arrays
        As for `scan`. The third result of ``step`` may end the loop.
    limit
        An integer scalar.
    bound
        The largest possible number of steps, or None if it is not known.
    irreversible
        Returns the error for reverse mode.
    """
    b = current_builder()
    counter = ew.canonical(INT64)
    limit = limit.astype(counter)
    start = [limit, full((), 0, counter), full((), True, BOOL)]
    operands = b.vary_alike(atoms([*constants, *arrays, *start, *carries]))
    inner = b.nested(x.aval for x in operands)
    with inner:
        given, values = inner.inputs, _values(inner)
        counts = len(constants), len(arrays), len(start)
        fixed, stacks, (end, i, goes), before = parts(values, *counts)
        after, results, stop = step(*fixed, *before, *(_row(x, i) for x in stacks))
        going = goes if stop is None else ~ew.truth(stop)
        outs = _varying([i + 1, going, *after, *results], given)
    results = outs[len(carries) + 2 :]
    added = _blanks(results, operands)
    if bound is not None:
        added += _blanks(results, operands, bound)
    more = [inner.add_input(x.aval) for x in added]
    pairs = list(zip(given, operands, strict=True))
    own, carried = map(dict, parts(pairs, len(constants) + len(arrays) + 1))
    carried.update(zip(more, added, strict=True))
    with inner:
        pairs = zip(more[len(results) :], results, strict=False)
        outs += _varying([_with_row(Value(v), value_of(r), i) for v, r in pairs], given)
    most = limit if limit.static is not None else end
    with b.nested(()) as test:
        ahead = i < most
        goes_on = (ahead if stop is None else ahead & goes).atom()
    whole = _loop(inner, own, carried, outs)
    whole = replace(whole, condition=Condition(test.equations_from(0), goes_on))
    loop = whole.merged().hoisted(b)
    out = [forward_only(Value(x), irreversible).atom() for x in loop.emit(b)]
    steps, _, *ends = map(value_of, loop.ends(whole, out))
    moved, last, stacked = parts(ends, len(carries), len(results))
    return LoopResult(steps, moved, last, stacked, {})


def _starts(x: Value, i: Value) -> list[Value]:
    return [i, *[i.like(0)] * (x.ndim - 1)]


def _row(x: Value, i: Value) -> Value:
    """Return ``x[i]`` for an ``i`` that is in bounds."""
    return squeeze(lax.dynamic_slice(x, _starts(x, i), (1, *x.shape[1:])), [0])


def _with_row(x: Value, row: Value, i: Value) -> Value:
    """Return ``x`` with ``x[i]`` replaced, for an ``i`` that is in bounds."""
    return lax.dynamic_update_slice(x, expand_dims(row, [0]), _starts(x, i))


def cond(
    predicate: Value,
    then: Callable[..., Values],
    otherwise: Callable[..., Values],
    operands: Values,
) -> list[Value]:
    """Return ``then(*operands)`` if a boolean scalar is true, else ``otherwise(*operands)``.

    Each branch emits into a builder of its own, and only the branch taken is computed. Both return
    values of the same types.
    """
    b = current_builder()
    given = b.vary_alike(atoms([predicate, *operands]))
    types = [x.aval for x in given[1:]]
    inners = [b.nested(types), b.nested(types)]
    outs: list[list[Atom]] = []
    for inner, branch in zip(inners, (otherwise, then), strict=True):
        with inner:
            outs.append(_varying(branch(*_values(inner)), inner.inputs))
    fixed = [inner.hoist_constants(b) for inner in inners]
    extra = [v for f in fixed for v in f]
    outside = [x for f in fixed for x in f.values()]
    programs: list[ClosedJaxpr] = []
    for inner, found, own in zip(inners, outs, fixed, strict=True):
        others = [v if v in own else Var(v.aval) for v in extra]
        programs.append(inner.build(found, name="branch", inputs=[*others, *inner.inputs]))
        b.inlined += inner.inlined
    index = lax.convert_element_type(value_of(given[0]), dtype=INT32)
    return lax.cond(index, programs, [*outside, *given[1:]])


Step = Callable[..., tuple[Sequence[Value], Value | None]]
"""``step(*changing, *fixed)`` returns the next ``changing`` and where a loop ends."""


def elementwise_loop(
    step: Step, steps: Value, changing: Sequence[Value], fixed: Sequence[Value], *, ends: bool
) -> list[Value]:
    """Repeat a step for every element until its number of steps is reached, or the step ends it.

    JAX differentiates the loop in forward mode only.

    Parameters
    ----------
    step
        The step. It is computed for all elements as long as one of them goes on.
    steps : int
        The numbers of steps.
    changing, fixed
        Arrays that change, and others that every step reads; all broadcast.
    ends
        Whether the step says where loops end.

    Returns
    -------
    list
        The changed arrays and, if steps may end loops, whether they did; a loop of no step did.
    """
    shape = common_shape(steps, *changing, *fixed)
    counter = ew.canonical(INT64)
    ended = broadcast_to(steps <= 0, shape) if ends else full(shape, False, BOOL)

    def going(k: Value, steps: Value, ended: Value) -> Value:
        return (k < steps) & ~ended

    def more(k: Value, steps: Value, ended: Value, *_: Value) -> Value:
        return reduce.bitwise_or(going(k, steps, ended), range(len(shape)))

    def body(k: Value, steps: Value, ended: Value, *values: Value) -> list[Value]:
        after, stop = step(*values)
        active = going(k, steps, ended)
        pairs = zip(after, values, strict=False)
        moved = [broadcast_to(ew.where(active, y.astype(x.dtype), x), shape) for y, x in pairs]
        # An element that reaches its number of steps has not ended.
        ended = ended if stop is None else ew.where(active, stop, ended)
        return [k + 1, steps, broadcast_to(ended, shape), *moved]

    start = [broadcast_to(x, shape) for x in changing]
    limits = broadcast_to(steps.astype(counter), shape)
    found = while_loop(more, body, [full((), 0, counter), limits, ended, *start], fixed)
    _, _, ended, *rest = [forward_only(x, lambda: ReverseModeError(_REASON)) for x in found]
    return [*rest, ended] if ends else rest


_REASON = (
    "JAX cannot differentiate a ScalarLoop in reverse, as jax.grad does: elements take different "
    "numbers of steps. Forward mode works, as in jax.jvp and jax.jacfwd."
)
