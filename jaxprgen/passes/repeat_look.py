"""Look quickly whether a program repeats enough to be worth a closer look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Any

from jaxprgen._jax import Jaxpr, Var, identity
from jaxprgen.passes.repeats import CHAINS

_WORTH, _MANY = 0.2, 100
"""Programs are left alone unless this part of their equations, or this many, look alike."""


def why_no_repeats(jaxpr: Jaxpr, least: int) -> str:
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
    """
    return _why_few_primitives(jaxpr, least) or _why_few(_Look(jaxpr).kinds, least)


def why_no_recurrence(jaxpr: Jaxpr, least: int, copies: int, reassociate: bool) -> tuple[str, bool]:
    """Return why no recurrence can be worth a look; empty if one may be.

    Parameters
    ----------
    jaxpr : Jaxpr
        The program.
    least : int
        The number of steps from which on a recurrence counts. As many equations must wait for
        each other.
    copies : int
        From how many recurrences on they are batched.
    reassociate : bool
        Whether a chain of additions is no recurrence.

    Returns
    -------
    str
        The reason.
    bool
        Whether this many recurrences run side by side, as far as this quick look tells.
    """
    why = _why_few_primitives(jaxpr, least)
    if why:
        return why, False
    look = _Look(jaxpr, any_depth=True, chains=CHAINS if reassociate else ())
    deepest = max(look.depths, default=0)
    if deepest < least:
        return f"no {least} equations wait for each other, only {deepest}", False
    places = zip(jaxpr.eqns, look.depths, strict=True)
    deep = Counter([(eqn.primitive, depth) for eqn, depth in places if depth >= least])
    beside = sum(count for count in deep.values() if count >= copies)
    return _why_few(look.kinds, least), 2 * beside > deep.total()


def _why_few_primitives(jaxpr: Jaxpr, least: int) -> str:
    """Return why no more equations can be alike than have the same primitive."""
    return _why_few(Counter([eqn.primitive for eqn in jaxpr.eqns]), least)


def _why_few(kinds: Counter[Any], least: int) -> str:
    """Return why too few equations are alike, of which there are so many of each kind."""
    total = kinds.total()
    repeated = sum(count for count in kinds.values() if count >= least)
    if repeated >= min(_WORTH * total, _MANY) and repeated:
        return ""
    return (
        f"only {repeated} of {total} equations are among {least} that look alike; "
        f"a closer look takes {_WORTH:.0%} of them, or {_MANY}"
    )


class _Look:
    """A quick look at a program.

    Attributes
    ----------
    kinds : Counter
        How many equations of each kind there are.
    depths : list of int
        For each equation, how many others wait for each other before it.
    """

    def __init__(
        self, jaxpr: Jaxpr, *, any_depth: bool = False, chains: Container[str] = CHAINS
    ) -> None:
        self.kinds: Counter[Any] = Counter()
        self.depths: list[int] = []
        uses = Counter([x for eqn in jaxpr.eqns for x in eqn.invars if type(x) is Var])
        kinds: dict[Any, Any] = {}
        depths: dict[Any, int] = {}
        types: dict[Any, int] = {}  # Of equal types, which may be several objects, the first.
        for eqn in jaxpr.eqns:
            aval = getattr(eqn.outvars[0], "aval", None) if eqn.outvars else None
            known = types.get(identity(aval))
            if known is None:
                known = types[identity(aval)] = types.setdefault(aval, identity(aval))
            operands = [x if type(x) is Var else None for x in eqn.invars]
            in_chain, depth = eqn.primitive.name in chains, 0
            for i, x in enumerate(operands):
                if x is not None:
                    waits = not in_chain or uses[x] > 1 or (i and eqn.primitive.name == "sub")
                    depth = max(depth, depths.get(x, 0) + bool(waits))
            kind = eqn.primitive, known, 0 if any_depth else depth
            self.kinds[kind, *map(kinds.get, operands)] += 1
            self.depths.append(depth)
            for v in eqn.outvars:
                kinds[v], depths[v] = kind, depth
