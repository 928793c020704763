"""Binding times: tell what data decide in a program from what the other inputs decide."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir.liveness import live_equations
from jaxprgen.ir.programs import assembled


class Stages(NamedTuple):
    """A program in two stages.

    Attributes
    ----------
    read : list of int
        The positions of the inputs that the first stage takes.
    first : ClosedJaxpr
        Computes values from these inputs.
    second : ClosedJaxpr
        Computes the results from all inputs, followed by these values.
    """

    read: list[int]
    first: ClosedJaxpr
    second: ClosedJaxpr


def staged(closed: ClosedJaxpr, data: Collection[Any]) -> Stages | None:
    """Return a program in two stages, or None if data alone decide nothing worth keeping.

    The second stage computes again what moves or repeats elements, such as ``broadcast_in_dim``,
    because reading its result takes as long. All equations with effects are in it.

    Parameters
    ----------
    closed : ClosedJaxpr
        A program without constants.
    data : collection of Var
        Its inputs that are data.
    """
    jaxpr = closed.jaxpr
    late = {v for v in jaxpr.invars if v not in data}
    early: list[JaxprEqn] = []
    second: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if _jax.has_effects(eqn) or any(type(x) is Var and x in late for x in eqn.invars):
            late.update(v for v in eqn.outvars if type(v) is Var)
            second.append(eqn)
        else:
            early.append(eqn)
    kept, repeated = _kept(early, [*(x for e in second for x in e.invars), *jaxpr.outvars])
    if not kept:
        return None
    again = {id(eqn) for eqn in [*second, *repeated]}
    first, live = live_equations(early, kept)
    read = [i for i, v in enumerate(jaxpr.invars) if v in live]
    return Stages(
        read,
        assembled(jaxpr, first, inputs=[jaxpr.invars[i] for i in read], outputs=kept),
        assembled(
            jaxpr, [eqn for eqn in jaxpr.eqns if id(eqn) in again], inputs=[*jaxpr.invars, *kept]
        ),
    )


def _kept(early: Sequence[JaxprEqn], read: Sequence[Any]) -> tuple[list[Any], list[JaxprEqn]]:
    """Return the variables to keep of those that are read, and the equations to compute again."""
    needed = {x for x in read if type(x) is Var}
    kept: list[Any] = []
    again: list[JaxprEqn] = []
    for eqn in reversed(early):
        if needed.isdisjoint(eqn.outvars):
            continue
        if eqn.primitive.name in _MOVES:
            again.append(eqn)
            needed.update(x for x in eqn.invars if type(x) is Var)
        else:
            kept += [v for v in eqn.outvars if v in needed]
    return kept[::-1], again


_MOVES = frozenset(
    {
        *("broadcast_in_dim", "iota", "reshape", "squeeze", "transpose", "rev"),
        *("slice", "convert_element_type"),
    }
)
"""Primitives that move, repeat, convert or count elements."""
