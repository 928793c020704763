"""Loop-invariant code motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir.programs import parts
from jaxprgen.ir.redundancy import split_invariant
from jaxprgen.ir.rewriting import rewritten
from jaxprgen.passes.meaning import Meaning


@dataclass(frozen=True)
class Hoist:
    """Compute loop-invariant values of a ``scan`` or ``while`` once, before the loop.

    Values are invariant if they follow from the constants of a loop and from carries that no step
    changes. The condition of a ``while`` is searched as well. Inner loops come first, so a value
    that no loop changes leaves all of them. Equations with effects stay. So does repetition
    (``broadcast_in_dim``, ``iota``), which takes no memory inside the loop.

    If a loop takes no step, the invariant values are computed in vain. That is safe, because
    primitives are defined for all operands. Inner loops that may not end and callbacks that may
    raise are the exceptions: they are moved only out of code that is certain to run.
    """

    meaning = Meaning.SAME_BITS

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with smaller loops, or the given one if nothing is invariant.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return rewritten(closed, ("scan", "while"), _hoisted)


def _hoisted(eqn: JaxprEqn) -> list[JaxprEqn] | None:
    """Return the equations that replace a loop, or None if nothing is invariant."""
    if eqn.primitive.name == "while":
        return _hoisted_from_while(eqn)
    return _hoisted_from_scan(eqn) if eqn.params["length"] else None


class _Remainder(NamedTuple):
    """A program without its invariant equations.

    Attributes
    ----------
    program : ClosedJaxpr
        The program, which takes the invariant values as additional inputs.
    constants : list of Var
        These inputs.
    operands : list of Atom
        Their values in the program around the loop.
    """

    program: ClosedJaxpr
    constants: list[Var]
    operands: list[Atom]


def _hoisted_from_scan(eqn: JaxprEqn) -> list[JaxprEqn] | None:
    count, carries = _jax.scan_counts(eqn)
    closed, end = _jax.close(eqn.params["jaxpr"]), count + carries
    invars, outvars = closed.jaxpr.invars, closed.jaxpr.outvars
    b = Builder()
    passed = [v is x for v, x in zip(invars[count:end], outvars, strict=False)]
    rest = _hoist_from(b, closed, eqn.invars[:end], count, passed)
    if not rest.constants:
        return None
    params = _jax.scan_params_of_constants(eqn, rest.program, count + len(rest.constants))
    operands: list[Any] = [*eqn.invars[:count], *rest.operands, *eqn.invars[count:]]
    return [*b.equations_from(0), eqn.replace(invars=operands, params=params)]


def _hoisted_from_while(eqn: JaxprEqn) -> list[JaxprEqn] | None:
    cond_count, body_count = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    cond, body = (_jax.close(eqn.params[name]) for name in ("cond_jaxpr", "body_jaxpr"))
    cond_consts, body_consts, carries = parts(eqn.invars, cond_count, body_count)
    pairs = zip(body.jaxpr.invars[body_count:], body.jaxpr.outvars, strict=True)
    passed = [v is x for v, x in pairs]
    b = Builder()
    cond_rest = _hoist_from(b, cond, [*cond_consts, *carries], cond_count, passed)
    body_rest = _hoist_from(b, body, [*body_consts, *carries], body_count, passed, runs=False)
    if not cond_rest.constants and not body_rest.constants:
        return None
    params = {
        **eqn.params,
        "cond_jaxpr": cond_rest.program,
        "cond_nconsts": cond_count + len(cond_rest.constants),
        "body_jaxpr": body_rest.program,
        "body_nconsts": body_count + len(body_rest.constants),
    }
    invars: list[Any] = [
        *cond_consts,
        *cond_rest.operands,
        *body_consts,
        *body_rest.operands,
        *carries,
    ]
    return [*b.equations_from(0), eqn.replace(invars=invars, params=params)]


def _hoist_from(
    b: Builder,
    closed: ClosedJaxpr,
    operands: Sequence[Any],
    count: int,
    passed: Sequence[bool],
    *,
    runs: bool = True,
) -> _Remainder:
    """Move the invariant equations of a program to a builder.

    Parameters
    ----------
    b : Builder
        The builder of the program around the loop.
    closed : ClosedJaxpr
        The body or the condition of the loop.
    operands : sequence of Atom
        The values of its inputs before the loop.
    count : int
        The number of constants, which are its first inputs. Invariant values become inputs after
        them.
    passed : sequence of bool
        Whether each carry keeps its value in every step. An input is invariant only if its type
        equals that of its operand, weak type included.
    runs : bool
        Whether the program is certain to run.

    Returns
    -------
    _Remainder
        The rest of the program.
    """
    kept = zip(closed.jaxpr.invars, operands, [*[True] * count, *passed], strict=False)
    fixed = tuple(keep and v.aval == x.aval for v, x, keep in kept)
    split = _split(closed, fixed, count, runs)
    if split is None:
        return _Remainder(closed, [], [])
    program, moved, new = split
    atoms = dict[Any, Any](zip(closed.jaxpr.invars, operands, strict=False))
    for eqn in moved:
        atoms.update(b.copy(eqn, atoms))
    return _Remainder(program, new, [atoms[v] for v in new])


@_jax.weakref_cache
def _split(
    closed: ClosedJaxpr, fixed: tuple[bool, ...], place: int, runs: bool
) -> tuple[ClosedJaxpr, list[JaxprEqn], list[Any]] | None:
    """Return a program without its invariant equations, these equations, and its new inputs.

    Returns None if nothing is invariant. Results are cached, so that loops which share a program
    still share it afterwards.
    """
    jaxpr = closed.jaxpr
    given = [v for v, is_fixed in zip(jaxpr.invars, fixed, strict=False) if is_fixed]
    moved, kept = split_invariant(jaxpr.eqns, given, runs=runs)
    bound = {v for eqn in kept for v in eqn.outvars}
    read = {x for eqn in kept for x in eqn.invars if type(x) is Var}
    read.update(x for x in jaxpr.outvars if type(x) is Var)
    new: list[Any] = [v for eqn in moved for v in eqn.outvars if v in read and v not in bound]
    if not new:
        return None
    inputs: list[Any] = [*jaxpr.invars[:place], *new, *jaxpr.invars[place:]]
    program = _jax.closed_jaxpr(
        jaxpr.constvars,
        inputs,
        jaxpr.outvars,
        kept,
        jaxpr.effects,  # type: ignore[arg-type]
        closed.consts,
        jaxpr.debug_info.func_src_info,
        [""] * len(inputs),
        [""] * len(jaxpr.outvars),
        jaxpr,
    )
    return program, moved, new
