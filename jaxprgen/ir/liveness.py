"""Which equations of a program are needed, and which parts of loops and branches inside of it."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var


def live_equations(
    equations: Sequence[JaxprEqn], outputs: Iterable[Any]
) -> tuple[list[JaxprEqn], set[Var]]:
    """The equations that are needed, and the variables that these and the outputs read of others.

    One that has an effect is needed. Of a loop or a branch only what is read is kept: carries on
    which nothing depends, and what is stacked for nobody, go, and the equations inside that only
    they need.
    """
    live = {x for x in outputs if type(x) is Var}
    kept: list[JaxprEqn] = []
    for eqn in reversed(equations):
        if not eqn.effects and live.isdisjoint(eqn.outvars):
            continue
        prune = _PRUNED.get(eqn.primitive.name)
        if prune is not None:
            eqn = prune(eqn, [v in live for v in eqn.outvars])
        live.difference_update(eqn.outvars)
        for x in eqn.invars:
            if type(x) is Var:
                live.add(x)
        kept.append(eqn)
    kept.reverse()
    return kept, live


def _carried(
    body: Any, carries: Sequence[Any], used: Sequence[bool], others: Sequence[Any]
) -> tuple[list[bool], list[JaxprEqn], set[Var]]:
    """Which carries are needed if these results are used; then the equations, and what they read.

    ``carries`` are the variables of the carries in the body, whose first outputs are their new
    values; ``others`` is what else of its outputs is used.
    """
    kept = list(used)
    while True:
        outputs = [*_where(body.outvars[: len(carries)], kept), *others]
        equations, live = live_equations(body.eqns, outputs)
        needed = [k or v in live for k, v in zip(kept, carries, strict=True)]
        if needed == kept:
            return kept, equations, live
        kept = needed


def _scan(eqn: JaxprEqn, used: list[bool]) -> JaxprEqn:
    constants, carries = _jax.scan_counts(eqn)
    closed = _jax.close(eqn.params["jaxpr"])
    body, first = closed.jaxpr, constants + carries
    others = _where(body.outvars[carries:], used[carries:])
    kept, equations, live = _carried(body, body.invars[constants:first], used[:carries], others)
    outs = [*kept, *used[carries:]]
    read = [v in live for v in body.invars]
    read[constants:first] = kept
    if all(outs) and all(read) and _are(equations, body.eqns):
        return eqn
    program = _reduced(closed, read, outs, equations)
    return _replaced(eqn, _jax.reduced_scan_params(eqn, program, read, outs), read, outs)


def _while(eqn: JaxprEqn, used: list[bool]) -> JaxprEqn:
    first, second = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    closed, test = (_jax.close(eqn.params[name]) for name in ("body_jaxpr", "cond_jaxpr"))
    body, carries = closed.jaxpr, closed.jaxpr.invars[second:]
    tested, live = live_equations(test.jaxpr.eqns, test.jaxpr.outvars)
    asked = [v in live for v in test.jaxpr.invars[first:]]
    wanted = [u or a for u, a in zip(used, asked, strict=True)]
    kept, equations, needed = _carried(body, carries, wanted, ())
    read = [v in needed for v in body.invars[:second]]
    given = [v in live for v in test.jaxpr.invars[:first]]
    pairs = ((equations, body.eqns), (tested, test.jaxpr.eqns))
    if all(kept) and all(read) and all(given) and all(_are(*pair) for pair in pairs):
        return eqn
    params = {
        **eqn.params,
        "cond_jaxpr": _reduced(test, given + kept, [True], tested),
        "cond_nconsts": sum(given),
        "body_jaxpr": _reduced(closed, read + kept, kept, equations),
        "body_nconsts": sum(read),
    }
    return _replaced(eqn, params, given + read + kept, kept)


def _cond(eqn: JaxprEqn, used: list[bool]) -> JaxprEqn:
    branches = [_jax.close(branch) for branch in eqn.params["branches"]]
    found = [live_equations(b.jaxpr.eqns, _where(b.jaxpr.outvars, used)) for b in branches]
    read = [
        any(b.jaxpr.invars[i] in live for b, (_, live) in zip(branches, found, strict=True))
        for i in range(len(eqn.invars) - 1)
    ]
    pairs = list(zip(branches, found, strict=True))
    if all(used) and all(read) and all(_are(e, b.jaxpr.eqns) for b, (e, _) in pairs):
        return eqn
    programs = tuple(_reduced(b, read, used, equations) for b, (equations, _) in pairs)
    return _replaced(eqn, {**eqn.params, "branches": programs}, [True, *read], used)


@_jax.weakref_cache
def _called(closed: ClosedJaxpr, used: tuple[bool, ...]) -> tuple[ClosedJaxpr, list[bool]] | None:
    """A program of these outputs, and which inputs it has; none if all of it is used.

    Remembered, for that one program that is called twice stays one.
    """
    jaxpr = closed.jaxpr
    equations, live = live_equations(jaxpr.eqns, _where(jaxpr.outvars, used))
    read = [v in live for v in jaxpr.invars]
    if all(used) and all(read) and _are(equations, jaxpr.eqns):
        return None
    return _reduced(closed, read, used, equations), read


def _jit(eqn: JaxprEqn, used: list[bool]) -> JaxprEqn:
    closed = eqn.params["jaxpr"]
    if eqn.effects:  # Some of which tell inputs by their places.
        return eqn
    found = _called(closed, tuple(used))
    if found is None:
        return eqn
    program, read = found
    return _replaced(eqn, _jax.reduced_jit_params(eqn, program, read, used), read, used)


_PRUNED = {"scan": _scan, "while": _while, "cond": _cond, "jit": _jit, "pjit": _jit}


def _are(equations: Sequence[JaxprEqn], others: Sequence[JaxprEqn]) -> bool:
    return len(equations) == len(others) and all(map(operator.is_, equations, others))


def _where(xs: Iterable[Any], kept: Iterable[bool]) -> list[Any]:
    return [x for x, keep in zip(xs, kept, strict=True) if keep]


def _reduced(
    closed: ClosedJaxpr,
    inputs: Sequence[bool],
    outputs: Sequence[bool],
    equations: list[JaxprEqn],
) -> ClosedJaxpr:
    """A program of these equations, with some of the inputs and outputs."""
    jaxpr = closed.jaxpr
    invars, outvars = _where(jaxpr.invars, inputs), _where(jaxpr.outvars, outputs)
    return _jax.closed_jaxpr(
        jaxpr.constvars,
        invars,
        outvars,
        equations,
        frozenset[Any]().union(*(eqn.effects for eqn in equations if eqn.effects)),
        closed.consts,
        jaxpr.debug_info.func_src_info,
        [""] * len(invars),
        [""] * len(outvars),
        jaxpr,
    )


def _replaced(
    eqn: JaxprEqn, params: dict[str, Any], inputs: list[bool], outputs: list[bool]
) -> JaxprEqn:
    return eqn.replace(
        invars=_where(eqn.invars, inputs), outvars=_where(eqn.outvars, outputs), params=params
    )
