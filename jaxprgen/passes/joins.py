"""Flatten arrays that are joined in several stages, as `jax.numpy.array` joins long lists."""

from __future__ import annotations

from collections import Counter
from typing import Any

from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.ir.rewriting import with_equations


def with_joins_flattened(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program that joins parts, and splits arrays, at once instead of in stages.

    Parameters
    ----------
    closed : ClosedJaxpr
        The program. It is not changed.
    """
    jaxpr: Any = closed.jaxpr
    if {"concatenate", "split"}.isdisjoint(eqn.primitive.name for eqn in jaxpr.eqns):
        return closed
    uses = Counter(x for eqn in jaxpr.eqns for x in eqn.invars if type(x) is Var)
    uses.update(x for x in jaxpr.outvars if type(x) is Var)
    joins: dict[Any, Any] = {}
    parts: dict[Any, int] = {}
    equations: list[Any] = []
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name == "concatenate":
            atoms: list[Any] = []
            for x in eqn.invars:
                inner = joins.get(x) if type(x) is Var and uses[x] == 1 else None
                atoms += [x] if inner is None or not _same_axis(inner, eqn) else inner.invars
            if len(atoms) > len(eqn.invars):
                eqn = eqn.replace(invars=atoms)
            joins[eqn.outvars[0]] = eqn
        elif name == "split":
            place = parts.get(eqn.invars[0], -1) if uses[eqn.invars[0]] == 1 else -1
            if place >= 0 and _same_axis(equations[place], eqn):
                equations[place] = _split_further(equations[place], eqn)
                parts.update(dict.fromkeys(eqn.outvars, place))
                continue
            parts.update(dict.fromkeys(eqn.outvars, len(equations)))
        equations.append(eqn)
    is_same = all(x is y for x, y in zip(equations, jaxpr.eqns, strict=False))
    return closed if is_same else with_equations(closed, equations)


def _same_axis(one: Any, other: Any) -> bool:
    return all(one.params.get(name) == other.params.get(name) for name in ("axis", "dimension"))


def _split_further(outer: Any, inner: Any) -> Any:
    """Return a split whose results are those of another one in place of what that one splits."""
    (operand,) = inner.invars
    which = outer.outvars.index(operand)
    results = [*outer.outvars[:which], *inner.outvars, *outer.outvars[which + 1 :]]
    sizes = outer.params["sizes"]
    sizes = (*sizes[:which], *inner.params["sizes"], *sizes[which + 1 :])
    return outer.replace(outvars=results, params={**outer.params, "sizes": sizes})
