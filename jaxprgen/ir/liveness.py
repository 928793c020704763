"""Liveness: the equations that outputs need, also inside loops, branches and calls."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir.inner import Inner, holder_of, kept_of, restricted
from jaxprgen.ir.programs import assembled, in_form_of


def live_equations(
    equations: Sequence[JaxprEqn], outputs: Iterable[Any]
) -> tuple[list[JaxprEqn], set[Var]]:
    """Return the equations that outputs need, and the variables that these read from elsewhere.

    Equations with effects are needed. Equations that hold programs, such as loops, keep only the
    results that are read, the operands that these need, and the equations inside that compute them.

    Parameters
    ----------
    equations : sequence of JaxprEqn
        Equations, in order.
    outputs : iterable of atoms
        The atoms that are read after the equations.

    Returns
    -------
    kept : list of JaxprEqn
        The equations that are needed, in order.
    live : set of Var
        The variables that these equations or the outputs read, and that no equation binds.
    """
    live = {x for x in outputs if type(x) is Var}
    kept: list[JaxprEqn] = []
    for eqn in reversed(equations):
        if live.isdisjoint(eqn.outvars) and not _jax.has_effects(eqn):
            continue
        holder = holder_of(eqn)
        if holder is not None and holder.restrict is not None:
            eqn = _pruned(eqn, [v in live for v in eqn.outvars])
        live.difference_update(eqn.outvars)
        for x in eqn.invars:
            if type(x) is Var:
                live.add(x)
        kept.append(eqn)
    kept.reverse()
    return kept, live


def whole_equations(
    equations: Sequence[JaxprEqn], outputs: Iterable[Any]
) -> tuple[list[JaxprEqn], set[Any]]:
    """Return the equations on which atoms depend, and the variables that are read.

    An equation is not divided: it has all its results, also those that nothing reads.
    """
    live: set[Any] = {x for x in outputs if type(x) is Var}
    kept: list[JaxprEqn] = []
    for eqn in reversed(equations):
        if not live.isdisjoint(eqn.outvars):
            live.update(x for x in eqn.invars if type(x) is Var)
            kept.append(eqn)
    return kept[::-1], live


def readers_of(
    equations: Iterable[JaxprEqn], outputs: Iterable[Any]
) -> dict[Any, list[JaxprEqn | None]]:
    """Return the equations that read each variable, and None for an output.

    An equation is named as often as it has the variable as an operand.
    """
    found: dict[Any, list[JaxprEqn | None]] = {}
    for eqn in equations:
        for x in eqn.invars:
            found.setdefault(x, []).append(eqn) if type(x) is Var else None
    for x in outputs:
        found.setdefault(x, []).append(None) if type(x) is Var else None
    return found


def uses_of(equations: Iterable[JaxprEqn], outputs: Iterable[Any]) -> Counter[Any]:
    """Return how often equations and outputs read each variable."""
    return Counter({v: len(found) for v, found in readers_of(equations, outputs).items()})


def dependent(equations: Iterable[JaxprEqn], given: Iterable[Any]) -> set[Any]:
    """Return the variables that depend on some given ones, which are included."""
    found = set(given)
    for eqn in equations:
        if any(type(x) is Var and x in found for x in eqn.invars):
            found.update(eqn.outvars)
    return found


def _pruned(eqn: JaxprEqn, used: Sequence[bool]) -> JaxprEqn:
    """Return an equation without the operands, results and inner equations that it does not need.

    ``used`` marks the results that are read.
    """
    holder = holder_of(eqn)
    assert holder is not None
    if eqn.effects and holder.kind in ("call", "shard_map"):  # Some effects number the operands.
        return eqn
    programs, carries, results = holder.find(eqn), list(holder.carries(eqn)), list(used)
    while True:
        outputs = [tuple(j is None or results[j] for j in x.results) for x in programs]
        operands = _read_operands(eqn, programs, outputs)
        needed = list(results)
        for i, j in carries:
            needed[j] = needed[j] or operands[i]
        if needed == results:
            break
        results = needed
    for i, j in carries:
        operands[i] = results[j]
    reduced = [
        _reduced(x.program, tuple(operands[i] for i in x.operands), kept) or x.program
        for x, kept in zip(programs, outputs, strict=True)
    ]
    is_same = all(new is x.program for new, x in zip(reduced, programs, strict=True))
    if is_same and all(operands) and all(results):
        return eqn
    return restricted(eqn, reduced, operands, results)


def _read_operands(
    eqn: JaxprEqn, programs: Sequence[Inner], outputs: Sequence[tuple[bool, ...]]
) -> list[bool]:
    """Return which operands are read for these outputs of the programs, or by the equation."""
    given = {i for x in programs for i in x.operands}
    operands = [i not in given for i in range(len(eqn.invars))]
    for x, kept in zip(programs, outputs, strict=True):
        _, inputs = _live(x.program, kept)
        for i, is_read in zip(x.operands, inputs, strict=True):
            operands[i] = operands[i] or is_read
    return operands


@_jax.weakref_cache
def _live(program: Any, outputs: tuple[bool, ...]) -> tuple[list[JaxprEqn], list[bool]]:
    """Return the equations that some outputs of a program need, and whether they read each
    input."""
    jaxpr = _jax.open_jaxpr(program)
    equations, live = live_equations(jaxpr.eqns, kept_of(jaxpr.outvars, outputs))
    return equations, [v in live for v in jaxpr.invars]


@_jax.weakref_cache
def _reduced(program: Any, inputs: tuple[bool, ...], outputs: tuple[bool, ...]) -> Any:
    """Return a program with only the marked inputs and outputs; None if nothing changes.

    The result is cached, so that a program that is called twice stays one program.
    """
    jaxpr = _jax.open_jaxpr(program)
    equations, _ = _live(program, outputs)
    if all(inputs) and all(outputs) and are_same(equations, jaxpr.eqns):
        return None
    invars, outvars = kept_of(jaxpr.invars, inputs), kept_of(jaxpr.outvars, outputs)
    return in_form_of(program, assembled(program, equations, inputs=invars, outputs=outvars))


def are_same(equations: Sequence[JaxprEqn], others: Sequence[JaxprEqn]) -> bool:
    """Return whether two lists hold the very same equations."""
    return len(equations) == len(others) and all(map(operator.is_, equations, others))
