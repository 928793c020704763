"""Rewriting a program and the programs inside of it, as data: nothing is changed in place."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn
from jaxprgen.ir.liveness import live_equations
from jaxprgen.ir.verify import verify

Change: TypeAlias = Callable[[ClosedJaxpr], ClosedJaxpr]

ENTERED = {
    "jit": ("jaxpr",),
    "scan": ("jaxpr",),
    "while": ("body_jaxpr", "cond_jaxpr"),
    "cond": ("branches",),
    "custom_jvp_call": ("call_jaxpr",),
    "custom_vjp_call": ("call_jaxpr",),
    "checkpoint": ("jaxpr",),
    "remat2": ("jaxpr",),
}
"""The primitives whose programs are rewritten as well, and the parameters that hold these.

Of a function with a derivative of its own the program is rewritten that gives its value.
"""

CALLED = {
    **dict.fromkeys(("jit", "pjit", "checkpoint", "remat", "remat2"), "jaxpr"),
    **dict.fromkeys(
        ("closed_call", "core_call", "custom_jvp_call", "custom_vjp_call"), "call_jaxpr"
    ),
}
"""The parameter that holds the program of an equation that runs it once."""


def parts(xs: list[Any], *counts: int) -> list[list[Any]]:
    """Consecutive parts of these lengths, and the rest."""
    ends = [0, *itertools.accumulate(counts), len(xs)]
    return [xs[start:end] for start, end in itertools.pairwise(ends)]


def each_program(closed: ClosedJaxpr, change: Change) -> ClosedJaxpr:
    """A program after a change of it and of those inside of its equations, the innermost first.

    ``change`` gives a program of the same inputs and of outputs of the same types, or the one it
    was given. Each program is changed once, however often it is called. The program itself where
    nothing changes.
    """
    found = _Changing(change).program(closed)
    if found is not closed:
        verify(found)
    return found


def rewritten(
    closed: ClosedJaxpr,
    primitives: Container[str],
    rule: Callable[[JaxprEqn], Sequence[JaxprEqn] | None],
) -> ClosedJaxpr:
    """A program with equations in the place of those of some primitives for which a rule gives any.

    These give the same variables. Programs inside of an equation are rewritten before the rule
    sees it, and what nobody reads is left out, before and after: of a loop a carry, too. The
    program itself where there is nothing to rewrite.
    """

    def change(program: ClosedJaxpr) -> ClosedJaxpr:
        if not any(eqn.primitive.name in primitives for eqn in program.jaxpr.eqns):
            return program
        live, _ = live_equations(program.jaxpr.eqns, program.jaxpr.outvars)
        found = [(e, rule(e) if e.primitive.name in primitives else None) for e in live]
        if all(new is None for _, new in found):
            return program
        equations = [e for old, new in found for e in ([old] if new is None else new)]
        return with_equations(program, equations)

    return each_program(closed, change)


def with_equations(
    closed: ClosedJaxpr,
    equations: Sequence[JaxprEqn],
    outputs: Sequence[Any] | None = None,
    more: Mapping[Any, Any] = MappingProxyType({}),
) -> ClosedJaxpr:
    """The program with other equations, of which those that nobody reads are left out.

    Its outputs may be other atoms, of the same types, and it may have ``more`` constants.
    """
    jaxpr = closed.jaxpr
    outputs = list(jaxpr.outvars if outputs is None else outputs)
    kept, live = live_equations(equations, outputs)
    constants = [*zip(jaxpr.constvars, closed.consts, strict=True), *more.items()]
    constants = [(v, x) for v, x in constants if v in live]
    debug = jaxpr.debug_info
    return _jax.closed_jaxpr(
        [v for v, _ in constants],
        jaxpr.invars,
        outputs,
        kept,
        frozenset[Any]().union(*(eqn.effects for eqn in kept if eqn.effects)),
        [x for _, x in constants],
        debug.func_src_info,
        debug.arg_names or [""] * len(jaxpr.invars),
        debug.result_paths or [""] * len(jaxpr.outvars),  # type: ignore[arg-type]
        jaxpr,
    )


def without_values(
    closed: ClosedJaxpr, variables: Sequence[Any], changes: Sequence[Change]
) -> ClosedJaxpr:
    """A program after changes, one after the other, that must not rely on some constants' values.

    ``variables`` are these constants, by identity: their values are others each time the program
    runs. To the changes they are inputs.
    """
    if not variables:
        return functools.reduce(lambda program, change: change(program), changes, closed)
    kept = {id(x) for x in variables}
    pairs = list(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    held = [(v, x) for v, x in pairs if id(x) in kept]
    inputs = closed.jaxpr.invars
    closed = _of(
        closed, [*inputs, *(v for v, _ in held)], [p for p in pairs if id(p[1]) not in kept]
    )
    for change in changes:
        closed = change(closed)
    pairs = list(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    inputs = closed.jaxpr.invars[: len(inputs)]
    held = list(zip(closed.jaxpr.invars[len(inputs) :], (x for _, x in held), strict=True))
    return _of(closed, inputs, [*held, *pairs])


def _of(closed: ClosedJaxpr, inputs: Sequence[Any], constants: Sequence[tuple[Any, Any]]) -> Any:
    """The program with these inputs and constants, which are the variables it had."""
    jaxpr = closed.jaxpr
    names = [*(jaxpr.debug_info.arg_names or ()), *[""] * len(inputs)][: len(inputs)]
    return _jax.closed_jaxpr(
        [v for v, _ in constants],
        inputs,
        jaxpr.outvars,
        jaxpr.eqns,
        jaxpr.effects,  # type: ignore[arg-type]
        [x for _, x in constants],
        jaxpr.debug_info.func_src_info,
        names,
        jaxpr.debug_info.result_paths or [""] * len(jaxpr.outvars),  # type: ignore[arg-type]
        jaxpr,
    )


class _Changing:
    """Every program is changed once."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._programs: dict[int, tuple[Any, Any]] = {}

    def program(self, program: Any) -> Any:
        """A program, which is given back if nothing changes."""
        known = self._programs.get(id(program))
        if known is None:
            known = self._programs[id(program)] = program, self._changed(program)
        return known[1]

    def _changed(self, program: Any) -> Any:
        closed = _jax.close(program)
        equations = [self._inside(eqn) for eqn in closed.jaxpr.eqns]
        pairs = zip(equations, closed.jaxpr.eqns, strict=True)
        if any(new is not old for new, old in pairs):
            closed = with_equations(closed, equations)
        found = self._change(closed)
        if found.jaxpr is _jax.open_jaxpr(program):
            return program
        return found if isinstance(program, ClosedJaxpr) else found.jaxpr

    def _inside(self, eqn: JaxprEqn) -> JaxprEqn:
        """The equation with its programs changed."""
        names = ENTERED.get(eqn.primitive.name)
        if names is None:
            return eqn
        params: dict[str, Any] = {}
        for name in names:
            value = eqn.params[name]
            several = isinstance(value, tuple)
            found = [self.program(x) for x in (value if several else (value,))]
            params[name] = tuple(found) if several else found[0]
        if all(params[k] is eqn.params[k] or params[k] == eqn.params[k] for k in params):
            return eqn
        return eqn.replace(params={**eqn.params, **params})
