"""Join and split arrays at once, not in stages as `jax.numpy.array` joins long lists."""

from __future__ import annotations

from typing import Any

from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.liveness import are_same, uses_of
from jaxprgen.ir.rewriting import with_equations
from jaxprgen.passes.inlining import bound_to

_PARTING = {"split", "unstack"}


def with_joins_flattened(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program that joins all parts of an array at once, and splits arrays by slices.

    Slices of equal sizes are alike; the results of one equation are not.

    Parameters
    ----------
    closed : ClosedJaxpr
        The program. It is not changed.
    """
    jaxpr: Any = closed.jaxpr
    if {"concatenate", *_PARTING}.isdisjoint(eqn.primitive.name for eqn in jaxpr.eqns):
        return closed
    uses = uses_of(jaxpr.eqns, jaxpr.outvars)
    joins: dict[Any, Any] = {}
    parts: dict[Any, tuple[Any, int, int]] = {}
    equations: list[Any] = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _PARTING:
            equations += _slices(eqn, parts)
            continue
        if eqn.primitive.name == "concatenate":
            atoms: list[Any] = []
            for x in eqn.invars:
                inner = joins.get(x) if type(x) is Var and uses[x] == 1 else None
                atoms += inner.invars if inner and inner.params == eqn.params else [x]
            if len(atoms) > len(eqn.invars):
                eqn = eqn.replace(invars=atoms)
            joins[eqn.outvars[0]] = eqn
        equations.append(eqn)
    return closed if are_same(equations, jaxpr.eqns) else with_equations(closed, equations)


def _slices(eqn: Any, parts: dict[Any, tuple[Any, int, int]]) -> list[JaxprEqn]:
    """Return one slice for each result of an equation that splits an array.

    ``parts`` has the array of which each result is a part, the axis and the place.
    """
    b, (x,), axis = Builder([]), eqn.invars, eqn.params["axis"]
    b.source_info = eqn.source_info
    array, along, place = parts.get(x, (x, axis, 0))
    if along != axis:
        array, place = x, 0
    shape = array.aval.shape
    low, high = [0] * len(shape), [*shape]
    pieces: list[Atom] = []
    sizes = eqn.params.get("sizes") or [1] * x.aval.shape[axis]
    for v, size in zip(eqn.outvars, sizes, strict=True):
        low[axis], high[axis] = place, place + size
        pieces.append(lax.reshape(b, lax.slice(b, array, low, high), v.aval.shape))
        if eqn.primitive.name == "split":
            parts[v] = array, axis, place
        place += size
    return bound_to(b, pieces, eqn.outvars)
