"""Look quickly whether a program repeats enough to be worth a closer look."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

from jaxprgen._jax import Jaxpr, Var, identity
from jaxprgen.passes.repeats import CHAINS

_WORTH, _MANY = 0.2, 100
"""Programs are left alone unless this part of their equations, or this many, look alike."""


def why_no_repeats(jaxpr: Jaxpr, least: int, *, any_depth: bool = False) -> str:
    """Return why too little of a program repeats to be worth a look; empty if enough does.

    In this quick look, equations count as alike if their primitives and types are, and those of
    their operands, and if their histories are of the same depth. A chain of additions does not
    make them deeper.

    Parameters
    ----------
    jaxpr : Jaxpr
        The program.
    least : int
        The number of equations from which on they count.
    any_depth : bool
        Whether equations of any depth are alike, such as those of the steps of a recurrence.
    """
    total = len(jaxpr.eqns)
    for look in (_primitives, functools.partial(_look_alikes, any_depth=any_depth)):
        repeated = sum(count for count in look(jaxpr).values() if count >= least)
        if repeated < min(_WORTH * total, _MANY) or not repeated:
            return (
                f"only {repeated} of {total} equations are among {least} that look alike; "
                f"a closer look takes {_WORTH:.0%} of them, or {_MANY}"
            )
    return ""


def _primitives(jaxpr: Jaxpr) -> Counter[Any]:
    """Return how many equations of each primitive there are, no fewer than look alike."""
    return Counter([eqn.primitive for eqn in jaxpr.eqns])


def _look_alikes(jaxpr: Jaxpr, any_depth: bool) -> Counter[Any]:
    """Return how many equations of each kind there are."""
    counts: Counter[Any] = Counter()
    kinds: dict[Any, tuple[Any, int, int]] = {}
    types: dict[Any, int] = {}  # Of equal types, which may be several objects, the first.
    for eqn in jaxpr.eqns:
        v = eqn.outvars[0] if eqn.outvars else None
        aval = getattr(v, "aval", None)
        known = types.get(identity(aval))
        if known is None:
            known = types[identity(aval)] = types.setdefault(aval, identity(aval))
        read = [kinds.get(x) if type(x) is Var else None for x in eqn.invars]
        depth = 0
        if not any_depth:
            depth = max([k[2] for k in read if k], default=0)
            depth += eqn.primitive.name not in CHAINS
        kinds[v] = kind = eqn.primitive, known, depth
        counts[kind, *read] += 1
    return counts
