"""Batch equations and programs: from those on one row to those on all rows at once.

The rows lie along a new first axis, the batch axis. `jax.vmap` does the same while tracing; here it
is done on equations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from jaxprgen import _jax
from jaxprgen._jax import Jaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.inner import HOLDERS, inner_programs
from jaxprgen.ir.liveness import dependent
from jaxprgen.ir.loops import Condition, Loop
from jaxprgen.ir.programs import parts
from jaxprgen.passes.batching_rules import (
    BATCHING_RULES,
    BatchingRule,
    MaybeBatched,
    NotBatchableError,
    broadcast_to,
    draws_alike,
    elementwise,
    reorders,
    with_batch_axis,
)

_Batch: TypeAlias = Callable[[Builder, JaxprEqn, Sequence[MaybeBatched], int], list[MaybeBatched]]


def why_not_batched(eqn: JaxprEqn, *, loops: bool = True, reassociate: bool = True) -> str:
    """Return why an equation cannot be batched; empty if it can.

    A call or a loop can be batched if all equations of its programs can.

    Parameters
    ----------
    eqn : JaxprEqn
        The equation.
    loops : bool
        Whether loops can be batched.
    reassociate : bool
        Whether floating-point numbers may be added in another order; see `REORDERING`.
    """
    name = eqn.primitive.name
    if eqn.effects:
        return "has an effect"
    if name in _LOOPS and not loops:
        return "is a loop"
    if name in _PROGRAM_RULES:
        programs = [_jax.open_jaxpr(inner.program) for inner in inner_programs(eqn)]
        if any(jaxpr.constvars for jaxpr in programs):
            return "no batching rule"
        if name == "while" and any("while" in _jax.primitives_of(e) for e in programs[1].eqns):
            return "a loop inside may not end on rows that are done"
        inside = (e for jaxpr in programs for e in jaxpr.eqns)
        reasons = (why_not_batched(e, loops=loops, reassociate=reassociate) for e in inside)
        return next(filter(None, reasons), "")
    if eqn.invars and name not in lax.ELEMENTWISE and name not in BATCHING_RULES:
        return "no batching rule"
    if not reassociate and reorders(eqn):
        return "would add numbers in another order"
    return "" if draws_alike(eqn) else "keys of this kind would draw other numbers"


def batch(
    b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int
) -> list[MaybeBatched]:
    """Emit an equation for all rows.

    Parameters
    ----------
    b : Builder
        The builder.
    eqn : JaxprEqn
        The equation on one row.
    operands : sequence of MaybeBatched
        Its operands for all rows.
    n : int
        The number of rows.

    Returns
    -------
    list of MaybeBatched
        The results. If all operands are shared, so are the results.

    Raises
    ------
    NotBatchableError
        The equation has an effect or no rule, or the rule does not support these operands.
    """
    if not any(x.is_batched for x in operands):
        if eqn.primitive.name == "rng_uniform":
            raise NotBatchableError("rng_uniform draws other numbers for every row.")
        atoms = {x: o.atom for x, o in zip(eqn.invars, operands, strict=True) if type(x) is Var}
        return [MaybeBatched(v, False) for v in b.copy(eqn, atoms).values()]
    reason = why_not_batched(eqn)
    if reason:
        raise NotBatchableError(f"{eqn.primitive}: {reason}")
    name = eqn.primitive.name
    rule = _PROGRAM_RULES.get(name) or BATCHING_RULES.get(name, elementwise)
    around = b.source_info
    b.source_info = _jax.within(around, eqn.source_info)
    found = [MaybeBatched(x, True) for x in rule(b, eqn, operands, n)]
    b.source_info = around
    return found


def lookup(env: dict[Any, MaybeBatched], x: Atom) -> MaybeBatched:
    """Return the value of an atom; a literal is shared by all rows."""
    return env[x] if type(x) is Var else MaybeBatched(x, False)


def batch_program(
    b: Builder,
    jaxpr: Jaxpr,
    operands: Iterable[MaybeBatched],
    n: int,
    each: _Batch = batch,
) -> list[MaybeBatched]:
    """Emit the equations of a program for all rows, and return its outputs.

    Parameters
    ----------
    b : Builder
        The builder.
    jaxpr : Jaxpr
        The program on one row.
    operands : iterable of MaybeBatched
        The values of its constants, if it has any, and of its inputs, for all rows.
    n : int
        The number of rows.
    each : callable
        Emits one equation, as `batch` does.
    """
    program: Any = jaxpr
    inputs = *program.constvars, *program.invars
    env: dict[Any, MaybeBatched] = dict(zip(inputs, operands, strict=True))
    return _batched(b, program.eqns, program.outvars, env, n, each)


def _batched(
    b: Builder,
    equations: Iterable[Any],
    outputs: Iterable[Any],
    given: dict[Any, MaybeBatched],
    n: int,
    each: _Batch = batch,
) -> list[MaybeBatched]:
    """Emit equations for all rows, and return the atoms that are read after them."""
    env = dict(given)
    for eqn in equations:
        found = each(b, eqn, [lookup(env, x) for x in eqn.invars], n)
        env.update(zip(eqn.outvars, found, strict=True))
    return [lookup(env, x) for x in outputs]


# --- Equations that run programs ------------------------------------------------------------


def _call(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
    jaxpr = _jax.open_jaxpr(inner_programs(eqn)[0].program)
    return [with_batch_axis(b, x, n) for x in batch_program(b, jaxpr, operands, n)]


def _loop(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
    """Run one loop, each step of which computes that step of all rows.

    A ``while`` goes on as long as a row does; rows that are done keep their values.
    """
    loop, inner = Loop.of(eqn), b.nested(())
    given = dict(zip(loop.inputs, operands, strict=True))
    marked = _with_rows(loop, {v for v, x in given.items() if x.is_batched})
    own: dict[Any, MaybeBatched] = {}
    outside: dict[Any, Any] = {}
    for v, x in given.items():
        atom = with_batch_axis(b, x, n) if v in marked else x.atom
        atom = _swapped(b, atom) if v in loop.rows and v in marked else atom
        aval: Any = _jax.slice_type(atom.aval) if v in loop.rows else atom.aval
        own[v] = MaybeBatched(inner.add_input(aval), v in marked)
        outside[v] = atom
    condition, goes_on = loop.condition, None
    if condition is not None:
        (goes_on,) = _batched(inner, condition.equations, [condition.goes_on], own, n)
        axes = range(len(goes_on.atom.aval.shape))
        any_row = lax.reduce_or(inner, goes_on.atom, axes) if axes else goes_on.atom
        condition = Condition(inner.equations_from(0), any_row)
    results: list[Any] = [*loop.after.values(), *loop.stacked]
    ends, rows = parts(_batched(inner, loop.equations, results, own, n), len(loop.carries))
    after: dict[Any, Atom] = {}
    for v, x in zip(loop.carries, ends, strict=True):
        new = with_batch_axis(inner, x, n) if v in marked else x.atom
        if goes_on is not None and goes_on.atom.aval.shape:
            kept = broadcast_to(inner, goes_on, new.aval.shape)
            new = lax.select_n(inner, kept, own[v].atom, new)
        after[own[v].atom] = new
    stacked = [with_batch_axis(inner, x, n) for x in rows]
    constants, carries, arrays = (
        {own[v].atom: outside[v] for v in kind}
        for kind in (loop.constants, loop.carries, loop.rows)
    )
    out = replace(
        loop,
        constants={**constants, **inner.hoist_constants(b)},
        carries=carries,
        rows=arrays,
        equations=inner.equations_from(0),
        after=after,
        stacked=stacked,
        condition=condition,
    ).emit(b)
    last = [MaybeBatched(x, v in marked) for v, x in zip(loop.carries, out, strict=False)]
    rows = [_swapped(b, x) for x in out[len(last) :]]
    return [*(with_batch_axis(b, x, n) for x in last), *rows]


def _with_rows(loop: Loop, given: set[Any]) -> set[Any]:
    """Return the inputs of a step that have rows, if these have before the loop."""
    while True:
        found = dependent(loop.equations, given)
        more = {v for v, x in loop.after.items() if type(x) is Var and x in found}
        if loop.condition is not None:
            equations, goes_on = loop.condition
            decides: Any = dependent(equations, given)
            # A condition with axes, as under `jax.vmap`, decides for each of their elements.
            if goes_on.aval.shape or (type(goes_on) is Var and goes_on in decides):
                more.update(loop.carries)
        if more <= given:
            return given
        given = given | more


def _swapped(b: Builder, x: Atom) -> Atom:
    """Return an array with its first two axes exchanged."""
    return lax.transpose(b, x, [1, 0, *range(2, len(x.aval.shape))])


_LOOPS: dict[str, BatchingRule] = dict.fromkeys(("scan", "while"), _loop)
_PROGRAM_RULES: dict[str, BatchingRule] = {
    **{name: _call for name, holder in HOLDERS.items() if holder.only_runs},
    **_LOOPS,
}
