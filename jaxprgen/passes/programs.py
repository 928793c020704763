"""Rewriting the equations of a program, and of the programs inside of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn
from jaxprgen.ir.liveness import live_equations
from jaxprgen.ir.verify import verify

ENTERED = {
    "jit": ("jaxpr",),
    "scan": ("jaxpr",),
    "while": ("body_jaxpr", "cond_jaxpr"),
    "cond": ("branches",),
}
"""The primitives whose programs are rewritten as well, and the parameters that hold these."""


def rewritten(
    closed: ClosedJaxpr, rule: Callable[[JaxprEqn], Sequence[JaxprEqn] | None]
) -> ClosedJaxpr:
    """A program with equations in the place of those for which a rule gives any.

    These give the same variables. Programs inside of an equation are rewritten before the rule
    sees it; what nobody reads any more is left out. The program itself where there is nothing to
    rewrite.
    """
    found = _Rewriting(rule).program(closed)
    if found is not closed:
        verify(found)
    return found


class _Rewriting:
    """One program of each kind is rewritten once."""

    def __init__(self, rule: Callable[[JaxprEqn], Sequence[JaxprEqn] | None]) -> None:
        self._rule = rule
        self._programs: dict[int, tuple[Any, Any]] = {}

    def program(self, program: Any) -> Any:
        """A program, which is given back if nothing changes."""
        known = self._programs.get(id(program))
        if known is None:
            known = self._programs[id(program)] = program, self._rewritten(program)
        return known[1]

    def _rewritten(self, program: Any) -> Any:
        closed = _jax.close(program)
        jaxpr = closed.jaxpr
        equations: list[JaxprEqn] = []
        changed = False
        for eqn in jaxpr.eqns:
            names = ENTERED.get(eqn.primitive.name)
            if names is None:
                equations.append(eqn)
                continue
            new = self._inside(eqn, names)
            found = self._rule(new)
            changed |= found is not None or new is not eqn
            equations.extend([new] if found is None else found)
        return _with_equations(closed, equations) if changed else program

    def _inside(self, eqn: JaxprEqn, names: Sequence[str]) -> JaxprEqn:
        """The equation with its programs rewritten."""
        params: dict[str, Any] = {}
        for name in names:
            value = eqn.params[name]
            several = isinstance(value, tuple)
            found = [self.program(x) for x in (value if several else (value,))]
            params[name] = tuple(found) if several else found[0]
        if all(params[k] is eqn.params[k] or params[k] == eqn.params[k] for k in names):
            return eqn
        return eqn.replace(params={**eqn.params, **params})


def _with_equations(closed: ClosedJaxpr, equations: Sequence[JaxprEqn]) -> ClosedJaxpr:
    """The program with other equations, of which those that nobody reads are left out."""
    jaxpr = closed.jaxpr
    kept, live = live_equations(equations, jaxpr.outvars)
    constants = [(v, x) for v, x in zip(jaxpr.constvars, closed.consts, strict=True) if v in live]
    debug = jaxpr.debug_info
    return _jax.closed_jaxpr(
        [v for v, _ in constants],
        jaxpr.invars,
        jaxpr.outvars,
        kept,
        frozenset[Any]().union(*(eqn.effects for eqn in kept if eqn.effects)),
        [x for _, x in constants],
        debug.func_src_info,
        debug.arg_names or [""] * len(jaxpr.invars),
        debug.result_paths or [""] * len(jaxpr.outvars),  # type: ignore[arg-type]
    )
