"""Loops and branches whose bodies are emitted, not traced."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit.shape import expand_dims, squeeze, stack
from jaxprgen.emit.values import (
    INT32,
    INT64,
    Value,
    atom,
    atoms,
    known,
    like,
    shape_of,
    splat,
    value_of,
)
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Atom, Builder
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


Step = Callable[..., tuple[Sequence[Value], Sequence[Value], Value | None]]
"""``step(builder, *constants, *carries, *slices)`` emits into a builder of its own, which it is
given, and returns carries of the types they had, results, and whether this is the last step."""


class Ended(NamedTuple):
    """What a loop gives.

    Attributes
    ----------
    steps
        How many there were.
    carries
        Those after the last step.
    last
        The results of the last step; zeros if there was none.
    stacked
        The results of all steps. If their number is not known there are zeros behind them, up to
        the bound, or nothing is stacked without one.
    before
        Of carries, by position, what they are before each step, as far as that is at hand.
    """

    steps: Value
    carries: list[Value]
    last: list[Value]
    stacked: list[Value]
    before: Mapping[int, Value]


class _Inside(NamedTuple):
    """A step that is emitted, where what does not change from one to the next is outside.

    ``constants`` are the variables that stand for ``operands`` of the loop, and ``moving`` for
    carries that change, from what they are ``before`` to what they are ``after``. ``results`` are
    those of the step, and ``carried`` has all carries.
    """

    constants: list[Var]
    operands: list[Atom]
    moving: list[Var]
    before: list[Atom]
    after: list[Atom]
    results: list[Atom]
    carried: dict[Var, Atom]

    def ends(self, out: Sequence[Atom]) -> list[Value]:
        """Every carry after the loop, of those that change."""
        found = {**self.carried, **dict(zip(self.moving, out, strict=False))}
        return [value_of(x) for x in found.values()]


def _settle(
    b: Builder,
    inner: Builder,
    fixed: dict[Var, Atom],
    carried: dict[Var, Atom],
    arrays: dict[Var, Atom],
    outs: Sequence[Atom],
) -> _Inside:
    """Compute once what a step does twice, and outside what does not change from step to step.

    That is ``fixed``, and carries that it passes on. It reads rows of ``arrays``; ``outs`` are
    the carries behind it, then its results.
    """
    same = {**_repeated(fixed), **_repeated(arrays)}
    inner.merge(same)
    outs = [same.get(x, x) if type(x) is Var else x for x in outs]
    after, results = outs[: len(carried)], outs[len(carried) :]
    changed = {v: x for v, x in zip(carried, after, strict=True) if v is not x}
    fixed |= {v: x for v, x in carried.items() if v not in changed}
    inner.hoist(b, fixed)
    read = inner.reads([*changed.values(), *results])
    constants = [v for v in fixed if v in read]
    b.inlined += inner.inlined
    return _Inside(
        constants,
        [fixed[v] for v in constants],
        list(changed),
        [carried[v] for v in changed],
        list(changed.values()),
        results,
        carried,
    )


def _repeated(given: dict[Var, Atom]) -> dict[Any, Any]:
    """The variables that stand for what another one stands for, each with that one."""
    first: dict[int, Var] = {}
    pairs = {v: first.setdefault(id(x), v) for v, x in given.items()}
    return {v: other for v, other in pairs.items() if v is not other}


def scan(
    b: Builder,
    step: Step,
    constants: Sequence[Value],
    carries: Sequence[Value],
    arrays: Sequence[Value],
    length: int,
) -> Ended:
    """A loop of so many steps over the rows of arrays; ``step`` never says that one is the last.

    What does not change from step to step is computed once, before. What of all this is not used
    is no part of the program in the end.
    """
    operands = b.vary_alike(atoms(b, [*constants, *carries, *arrays]))
    count, first = len(constants), len(constants) + len(carries)
    types = [x.aval if i < first else _jax.slice_type(x.aval) for i, x in enumerate(operands)]
    inner = b.nested(types)
    given = inner.inputs
    after, results, _ = step(inner, *given)
    outs = _varying(inner, [*after, *results], given)
    results = outs[len(carries) :]
    blank = _blanks(b, results, operands)
    carried = dict(zip(given[count:first], operands[count:first], strict=True))
    carried.update((inner.add_input(x.aval), x) for x in blank)
    fixed = dict(zip(given[:count], operands, strict=False))
    rows = dict(zip(given[first:], operands[first:], strict=True))
    inside = _settle(b, inner, fixed, carried, rows, [*outs, *results])
    inputs = [*inside.constants, *inside.moving, *given[first:]]
    moving = set(inside.moving)
    entering = {i: v for i, v in enumerate(given[count:first]) if v in moving}
    outs = [*inside.after, *inside.results, *entering.values()]
    body = inner.build(outs, name="body", inputs=inputs)
    out = lax.scan(b, body, inside.operands, inside.before, operands[first:], length)
    ends, rest = inside.ends(out), iter(out[len(moving) :])
    stacked: list[Value] = [*itertools.islice(rest, len(results))]
    before: dict[int, Value] = dict(zip(entering, rest, strict=True))
    return Ended(np.asarray(length), ends[: len(carries)], ends[len(carries) :], stacked, before)


def unrolled(
    b: Builder,
    step: Step,
    constants: Sequence[Value],
    carries: Sequence[Value],
    arrays: Sequence[Value],
    length: int,
) -> Ended:
    """`scan` of one step or more, each emitted for itself: what it reads of known rows is known.

    Raises
    ------
    ShapeMismatchError
        Steps give results of different shapes.
    """
    sources = [(x, known(x)) for x in arrays]
    found: list[Sequence[Value]] = []
    for i in range(length):
        rows = [ix.take(b, x, [i]) if v is None else np.asarray(v[i]) for x, v in sources]
        carries, results, _ = step(b, *constants, *carries, *rows)
        found.append(results)
    stacked = [_stacked(b, column) for column in zip(*found, strict=True)]
    return Ended(np.asarray(length), list(carries), list(found[-1]), stacked, {})


def _stacked(b: Builder, rows: Sequence[Value]) -> Value:
    shapes = dict.fromkeys(shape_of(x) for x in rows)
    if len(shapes) > 1:
        raise ShapeMismatchError(
            f"Steps of the loop give rows of shapes {', '.join(map(str, shapes))}: all that a loop "
            "stacks has one shape."
        )
    return stack(b, rows)


def _blanks(
    b: Builder, results: Sequence[Atom], operands: Sequence[Atom], *rows: int
) -> list[Atom]:
    """Zeros of the types of results, or so many rows of them."""
    zeros = [splat(0, r.aval.dtype, (*rows, *r.aval.shape)) for r in results]
    return list(b.vary_alike([*atoms(b, zeros), *operands]))[: len(zeros)]


def _varying(inner: Builder, xs: Sequence[Value], given: Sequence[Var]) -> list[Atom]:
    """The results of a step as atoms that vary over the axes of a mesh as what it is given."""
    found = atoms(inner, xs)
    return list(inner.vary_alike([*found, *given]))[: len(found)]


def until(
    b: Builder,
    step: Step,
    constants: Sequence[Value],
    carries: Sequence[Value],
    arrays: Sequence[Value],
    limit: Value,
    bound: int | None,
) -> Ended:
    """`scan` of at most ``limit`` steps, which ends behind one that says that it is the last.

    ``bound`` is the most steps that are possible, if that is known.
    """
    counter = ew.canonical(INT64)
    limit = ew.convert(b, limit, counter)
    start: list[Value] = [limit, np.asarray(0, counter), np.asarray(True)]
    operands = b.vary_alike(atoms(b, [*constants, *arrays, *start, *carries]))
    first = len(constants) + len(arrays)
    inner = b.nested([x.aval for x in operands])
    given = inner.inputs
    i = given[first + 1]
    slices = [_row(inner, x, i) for x in given[len(constants) : first]]
    after, results, stop = step(inner, *given[: len(constants)], *given[first + 3 :], *slices)
    going = given[first + 2] if stop is None else ew.invert(inner, ew.truth(inner, stop))
    outs = _varying(inner, [ew.add(inner, i, like(i, 1)), going, *after, *results], given)
    results = outs[len(carries) + 2 :]
    added = _blanks(b, results, operands)
    if bound is not None:
        added += _blanks(b, results, operands, bound)
    more = [inner.add_input(x.aval) for x in added]
    pairs = zip(more[len(results) :], results, strict=False)
    outs += _varying(inner, [_with_row(inner, v, r, i) for v, r in pairs], given)
    fixed = dict(zip(given[: first + 1], operands, strict=False))
    carried = dict(zip(given[first + 1 :], operands[first + 1 :], strict=True))
    carried.update(zip(more, added, strict=True))
    inside = _settle(b, inner, fixed, carried, {}, outs)
    body = inner.build(inside.after, name="body", inputs=[*inside.constants, *inside.moving])
    limits = [] if isinstance(limit, np.ndarray) else [operands[first]]
    test = b.nested([x.aval for x in (*limits, *inside.moving)])
    states = test.inputs[len(limits) :]
    ahead = ew.less(test, states[0], test.inputs[0] if limits else limit)
    if stop is not None:
        ahead = ew.bitwise_and(test, ahead, states[1])
    condition = test.build([atom(test, ahead)], name="condition")
    out = lax.while_loop(b, condition, body, inside.before, limits, inside.operands)
    steps, _, *ends = inside.ends(out)
    parts = len(carries), len(carries) + len(results)
    return Ended(steps, ends[: parts[0]], ends[parts[0] : parts[1]], ends[parts[1] :], {})


def _starts(b: Builder, i: Var, rank: int) -> list[Atom]:
    return [i, *[b.literal(np.asarray(0, i.aval.dtype))] * (rank - 1)]


def _row(b: Builder, x: Var, i: Var) -> Value:
    """``x[i]`` for an ``i`` that is inside."""
    shape = x.aval.shape
    row = lax.dynamic_slice(b, x, _starts(b, i, len(shape)), (1, *shape[1:]))
    return squeeze(b, row, [0])


def _with_row(b: Builder, x: Var, row: Atom, i: Var) -> Value:
    """``x`` with ``x[i]`` replaced, for an ``i`` that is inside."""
    block = atom(b, expand_dims(b, value_of(row), [0]))
    return lax.dynamic_update_slice(b, x, block, _starts(b, i, len(x.aval.shape)))


def cond(
    b: Builder,
    predicate: Value,
    then: Callable[..., Sequence[Value]],
    otherwise: Callable[..., Sequence[Value]],
    operands: Sequence[Value],
) -> list[Value]:
    """What ``then`` or ``otherwise`` gives of the operands, as a boolean scalar is true or not.

    Each is called as ``branch(builder, *operands)`` and emits into a builder of its own. Only the
    one that is taken is computed. Both return values of the same types.
    """
    given = b.vary_alike(atoms(b, [predicate, *operands]))
    types = [x.aval for x in given[1:]]
    programs: list[ClosedJaxpr] = []
    inners = [b.nested(types), b.nested(types)]
    outs = [
        _varying(inner, branch(inner, *inner.inputs), inner.inputs)
        for inner, branch in zip(inners, (otherwise, then), strict=True)
    ]
    fixed = [inner.constants_outside(b) for inner in inners]
    extra = [v for f in fixed for v in f]
    outside = [x for f in fixed for x in f.values()]
    for inner, found, own in zip(inners, outs, fixed, strict=True):
        others = [v if v in own else Var(v.aval) for v in extra]
        programs.append(inner.build(found, name="branch", inputs=[*others, *inner.inputs]))
        b.inlined += inner.inlined
    index = lax.convert_element_type(b, given[0], INT32)
    return list(lax.cond(b, index, programs, [*outside, *given[1:]]))
