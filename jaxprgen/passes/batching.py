"""Batch equations and programs: from those on one row to those on all rows at once.

The rows lie along a new first axis, the batch axis. `jax.vmap` does the same while tracing; here it
is done on equations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from jaxprgen import _jax
from jaxprgen._jax import Jaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.evaluate import is_batched
from jaxprgen.ir.inner import HOLDERS, inner_programs
from jaxprgen.ir.liveness import dependent
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
    for eqn in program.eqns:
        found = each(b, eqn, [lookup(env, x) for x in eqn.invars], n)
        env.update(zip(eqn.outvars, found, strict=True))
    return [lookup(env, x) for x in program.outvars]


# --- Equations that run programs ------------------------------------------------------------


def _call(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
    jaxpr = _jax.open_jaxpr(inner_programs(eqn)[0].program)
    return [with_batch_axis(b, x, n) for x in batch_program(b, jaxpr, operands, n)]


def _scan(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
    """Run one loop, each step of which computes that step of all rows."""
    body, params = _jax.open_jaxpr(eqn.params["jaxpr"]), eqn.params
    first, count = _jax.scan_counts(eqn)
    last = first + count
    own = _with_carries([x.is_batched for x in operands], first, count, body)
    shared = [x.atom for x in operands[:first]]
    starts = _as_marked(b, operands[first:last], own[first:], n)
    arrays = [_swapped(b, x.atom) if x.is_batched else x.atom for x in operands[last:]]
    inner = b.nested(
        [*(x.aval for x in (*shared, *starts)), *(_jax.slice_type(x.aval) for x in arrays)]
    )
    results = batch_program(inner, body, map(MaybeBatched, inner.inputs, own), n)
    marks = [*own[first:last], *[True] * (len(results) - count)]
    program = inner.build(_as_marked(inner, results, marks, n), name=body.debug_info.func_src_info)
    how = {"reverse": params["reverse"], "unroll": params["unroll"]}
    out = lax.scan(b, program, shared, starts, arrays, params["length"], **how)
    rows = [_swapped(b, x) for x in out[count:]]
    return [*_all_batched(b, out[:count], marks, n), *rows]


def _while(b: Builder, eqn: JaxprEqn, operands: Sequence[MaybeBatched], n: int) -> list[Atom]:
    """Run one loop as long as a row goes on; rows that are done keep their values."""
    test, body = (_jax.open_jaxpr(inner.program) for inner in inner_programs(eqn))
    of_test, of_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    first, count = of_test + of_body, len(eqn.outvars)
    own = [x.is_batched for x in operands]
    own[of_test:] = _with_carries(own[of_test:], of_body, count, body)
    tested = [*own[:of_test], *own[first:]]
    # A condition with axes, as under `jax.vmap`, decides for each element of the leading axes.
    differ = _depends(test, tested)[0] or is_batched(eqn)
    if differ:
        own[first:] = [True] * count
        tested[of_test:] = own[first:]
    shared = [x.atom for x in operands[:first]]
    starts = _as_marked(b, operands[first:], own[first:], n)

    inner = b.nested([x.aval for x in (*shared[:of_test], *starts)])
    (goes_on,) = batch_program(inner, test, map(MaybeBatched, inner.inputs, tested), n)
    axes = range(len(goes_on.atom.aval.shape))
    any_row = lax.reduce_or(inner, goes_on.atom, axes) if axes else goes_on.atom
    condition = inner.build([any_row], name=test.debug_info.func_src_info)

    inner = b.nested([x.aval for x in (*shared, *starts)])
    given = [*map(MaybeBatched, inner.inputs, own)]
    results = batch_program(inner, body, given[of_test:], n)
    ends = _as_marked(inner, results, own[first:], n)
    if differ:
        (goes_on,) = batch_program(inner, test, [*given[:of_test], *given[first:]], n)
        ends = [
            lax.select_n(inner, broadcast_to(inner, goes_on, new.aval.shape), old.atom, new)
            for old, new in zip(given[first:], ends, strict=True)
        ]
    program = inner.build(ends, name=body.debug_info.func_src_info)
    out = lax.while_loop(b, condition, program, starts, shared[:of_test], shared)
    return _all_batched(b, out, own[first:], n)


def _depends(jaxpr: Jaxpr, marks: Iterable[bool]) -> list[bool]:
    """Return which outputs of a program depend on inputs that are marked."""
    given = (v for v, mark in zip(jaxpr.invars, marks, strict=True) if mark)
    found = dependent(jaxpr.eqns, given)
    return [type(x) is Var and x in found for x in jaxpr.outvars]


def _with_carries(marks: Sequence[bool], first: int, count: int, body: Jaxpr) -> list[bool]:
    """Mark the carries among the inputs of a loop's body that any step makes depend on others."""
    found = [*marks]
    while True:
        before = [*found]
        ends = _depends(body, found)
        for i in range(count):
            found[first + i] |= ends[i]
        if found == before:
            return found


def _as_marked(
    b: Builder, values: Sequence[MaybeBatched], marks: Iterable[bool], n: int
) -> list[Any]:
    """Return values, with rows where they are marked."""
    pairs = zip(values, marks, strict=False)
    return [with_batch_axis(b, x, n) if mark else x.atom for x, mark in pairs]


def _all_batched(b: Builder, atoms: Sequence[Atom], marks: Iterable[bool], n: int) -> list[Atom]:
    """Return all values with rows; those marked have them."""
    pairs = zip(atoms, marks, strict=False)
    return [with_batch_axis(b, MaybeBatched(x, mark), n) for x, mark in pairs]


def _swapped(b: Builder, x: Atom) -> Atom:
    """Return an array with its first two axes exchanged."""
    return lax.transpose(b, x, [1, 0, *range(2, len(x.aval.shape))])


_LOOPS: dict[str, BatchingRule] = {"scan": _scan, "while": _while}
_PROGRAM_RULES: dict[str, BatchingRule] = {
    **{name: _call for name, holder in HOLDERS.items() if holder.only_runs},
    **_LOOPS,
}
