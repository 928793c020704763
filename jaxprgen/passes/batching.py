"""Batch equations: from those on one row to those on all rows at once, as `jax.vmap` does.

The rows lie along a new first axis, the batch axis. JAX traces the equations for that, once for
all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.lax import GatherScatterMode

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, ShapedArray, Var
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.inner import Inner, inner_programs
from jaxprgen.ir.liveness import dependent, live_equations
from jaxprgen.ir.loops import Loop
from jaxprgen.ir.programs import outlined
from jaxprgen.ir.rewriting import rewritten


class NotBatchableError(Exception):
    """Raised when an equation, a loop or a program cannot be batched.

    Attributes
    ----------
    repeated : tuple of (sequence of JaxprEqn, int)
        The equations that are to blame, those of one repetition, and how often they repeat.
    """

    repeated: tuple[Sequence[JaxprEqn], int] = (), 0


class MaybeBatched(NamedTuple):
    """The value of a variable for all rows.

    Attributes
    ----------
    atom : Atom
        The value. If it is batched, its first axis is the batch axis.
    is_batched : bool
        Whether each row has its own value. Otherwise all rows share one.
    """

    atom: Atom
    is_batched: bool


def with_batch_axis(b: Builder, x: MaybeBatched, n: int) -> Atom:
    """Return the value with a batch axis of ``n`` rows; a shared value is repeated."""
    if x.is_batched:
        return x.atom
    return lax.broadcast_to(b, x.atom, (n, *x.atom.aval.shape))


def lookup(env: Mapping[Any, MaybeBatched], x: Atom) -> MaybeBatched:
    """Return the value of an atom; a literal is shared by all rows."""
    return env[x] if type(x) is Var else MaybeBatched(x, False)


def batch(
    b: Builder,
    equations: Sequence[JaxprEqn],
    given: Mapping[Any, MaybeBatched],
    outputs: Sequence[Any],
) -> list[MaybeBatched]:
    """Emit equations for all rows.

    Parameters
    ----------
    b : Builder
        The builder.
    equations : sequence of JaxprEqn
        The equations on one row, in order.
    given : mapping of Var to MaybeBatched
        What they read, for all rows.
    outputs : sequence of Atom
        What is read after them.

    Returns
    -------
    list of MaybeBatched
        The outputs. What depends on batched values is batched.

    Raises
    ------
    NotBatchableError
        An equation that reads batched values, or draws for each row, cannot be batched.
    """
    equations, _ = live_equations(equations, outputs)
    differs = dependent(equations, [v for v, x in given.items() if x.is_batched])
    shared: dict[Any, Atom] = {v: x.atom for v, x in given.items() if not x.is_batched}
    own: list[JaxprEqn] = []
    for eqn in equations:
        if differs.isdisjoint(eqn.outvars) and eqn.primitive.name != "rng_uniform":
            shared.update(b.copy(eqn, shared))
            continue
        reason = why_not_batched(eqn)
        if reason:
            raise NotBatchableError(f"{eqn.primitive}: {reason}")
        own.append(eqn.replace(source_info=_jax.within(b.source_info, eqn.source_info)))
    env = {**given, **{v: MaybeBatched(x, False) for v, x in shared.items()}}
    made: set[Any] = {v for eqn in own for v in eqn.outvars}
    wanted = list(dict.fromkeys(x for x in outputs if type(x) is Var and x in made))
    if wanted:
        found = _traced(b, own, env, wanted)
        env.update((v, MaybeBatched(x, True)) for v, x in zip(wanted, found, strict=True))
    return [lookup(env, x) for x in outputs]


def _traced(
    b: Builder, equations: Sequence[Any], env: Mapping[Any, MaybeBatched], outputs: Sequence[Any]
) -> list[Any]:
    """Emit what JAX makes of equations that depend on rows, and return the outputs' values."""
    row: Any = outlined(equations, outputs, "row")
    operands = [env[v] for v in row.jaxpr.invars]
    types, own = [x.atom.aval for x in operands], [x.is_batched for x in operands]
    program = _jax.batched(row, types, own)
    if _jax.PROMISES_SLICES:
        program = rewritten(program, ("gather",), _clipped)
    around, b.source_info = b.source_info, _jax.NO_SOURCE
    found = b.inline(program, [x.atom for x in operands])
    b.source_info = around
    return found


def _clipped(eqn: JaxprEqn) -> list[JaxprEqn] | None:
    """Return a gather that clips its indices, as a slice does, if it promised that none needs it.

    Without that, derivatives at places outside of the array would be lost.
    """
    if eqn.params["mode"] is not GatherScatterMode.PROMISE_IN_BOUNDS:
        return None
    return [eqn.replace(params={**eqn.params, "mode": GatherScatterMode.CLIP})]


# --- What cannot be batched -----------------------------------------------------------------


def why_not_batched(eqn: JaxprEqn, *, loops: bool = True, reassociate: bool = True) -> str:
    """Return why an equation cannot be batched; empty if it can.

    An equation that holds programs can be batched if all equations of these can.

    Parameters
    ----------
    eqn : JaxprEqn
        The equation.
    loops : bool
        Whether loops can be batched.
    reassociate : bool
        Whether floating-point numbers may be rounded in another way; see `KEEPS_BITS`.
    """
    name, programs = eqn.primitive.name, list(map(_open, inner_programs(eqn)))
    if eqn.effects:
        return "has an effect"
    if name in _LEFT:
        return _LEFT[name]
    if name in ("scan", "while") and not loops:
        return "is a loop"
    if name == "while" and any("while" in _jax.primitives_of(e) for e in programs[1].eqns):
        return "a loop inside may not end on rows that are done"
    if any(jaxpr.constvars for jaxpr in programs) or (eqn.invars and not _has_rule(eqn)):
        return "no batching rule"
    if not reassociate and not programs and reorders(eqn):
        return "would be rounded in another way"
    if not draws_alike(eqn):
        return "keys of this kind would draw other numbers"
    inside = (e for jaxpr in programs for e in jaxpr.eqns)
    reasons = (why_not_batched(e, loops=loops, reassociate=reassociate) for e in inside)
    return next(filter(None, reasons), "")


def _open(inner: Inner) -> Any:
    return _jax.open_jaxpr(inner.program)


def _has_rule(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name in _CUSTOM or _jax.has_batching_rule(eqn.primitive)


_CUSTOM = ("custom_jvp_call", "custom_vjp_call")
"""Calls that JAX batches without a rule of their primitive."""

_LEFT = {
    "cond": "all branches would run",
    "rng_uniform": "draws other numbers for every row",
    "rng_bit_generator": "keys of this kind would draw other numbers",
    "pure_callback": "calls Python",
}
"""Why equations stay for which JAX has rules that change what they do."""

KEEPS_BITS = frozenset(
    {
        *(lax.ELEMENTWISE - {"div"}),
        *("select_n", "clamp", "add_any", "stop_gradient", "copy", "one_minus_square"),
        *("squeeze", "rev", "concatenate", "split", "stack", "unstack", "pad", "slice"),
        *("reshape", "transpose", "broadcast_in_dim", "iota", "gather", "dynamic_slice"),
        *("dynamic_update_slice", "scatter", "scatter-min", "scatter-max", "sort", "top_k"),
        *("reduce_max", "reduce_min", "argmax", "argmin", "cummax", "cummin", "random_gamma"),
    }
)
"""The primitives whose results, if these are not exact, are the same bits in each row.

Others add or multiply several numbers for one result. XLA, and the libraries that it calls, choose
their order by the shapes of the operands. So rows that are computed together may be rounded
otherwise than each row alone. A number that divides all rows becomes a product with its reciprocal,
so quotients are the same bits only if the divisor is a literal.
"""


def reorders(eqn: JaxprEqn) -> bool:
    """Return whether rows of an equation may be rounded otherwise than the equation alone."""
    name, *operands = eqn.primitive.name, *eqn.invars
    if name in KEEPS_BITS or (name == "div" and type(operands[1]) is not Var):
        return False
    avals: list[Any] = [v.aval for v in eqn.outvars]
    return any(jax.numpy.issubdtype(aval.dtype, np.inexact) for aval in avals)


def draws_alike(eqn: JaxprEqn) -> bool:
    """Return whether rows of keys draw the same numbers as each key alone.

    JAX promises that only for Threefry: see `jax.random`, *Advanced RNG configuration*.
    """
    if not eqn.primitive.name.startswith("random_"):
        return True
    atoms: list[Any] = [*eqn.invars, *eqn.outvars]
    keys = filter(_jax.is_key, [x.aval for x in atoms])
    return all(_jax.key_implementation(aval.dtype) == "threefry2x32" for aval in keys)


# --- Whole programs ------------------------------------------------------------------------------


def over_rows(
    program: ClosedJaxpr, types: Sequence[ShapedArray], batched: Sequence[bool], n: int
) -> ClosedJaxpr:
    """Return the program that applies another one to each of ``n`` rows.

    A program with equations that cannot be batched runs in a loop, on one row after the other.

    Parameters
    ----------
    program : ClosedJaxpr
        The program on one row.
    types : sequence of ShapedArray
        The types of the new program's inputs.
    batched : sequence of bool
        Which of them have rows along their first axis. All rows share the others.
    n : int
        The number of rows.

    Returns
    -------
    ClosedJaxpr
        All its outputs have rows.
    """
    jaxpr: Any = program.jaxpr
    with Builder(types) as b:
        constants = {v: b.constant(x) for v, x in zip(jaxpr.constvars, program.consts, strict=True)}
        inputs = list(zip(jaxpr.invars, b.inputs, batched, strict=True))
        if any(map(why_not_batched, jaxpr.eqns)):
            shared = {v: x for v, x, own in inputs if not own}
            rows = {v: x for v, x, own in inputs if own}
            loop = Loop({**constants, **shared}, {}, rows, jaxpr.eqns, {}, jaxpr.outvars, n)
            return b.build(loop.emit(b))
        given = {v: MaybeBatched(x, False) for v, x in constants.items()}
        given |= {v: MaybeBatched(x, own) for v, x, own in inputs}
        found = batch(b, jaxpr.eqns, given, jaxpr.outvars)
        return b.build([with_batch_axis(b, x, n) for x in found])
