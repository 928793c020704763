"""Explanations of why a rule did not fire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn
from jaxprgen.ir.rewriting import each_program
from jaxprgen.rewrite.driver import Rewriting
from jaxprgen.rewrite.index import indexed
from jaxprgen.rewrite.matching import Miss
from jaxprgen.rewrite.rules import Rule


class Explanation(NamedTuple):
    """What a rule did to a program; `str` describes it.

    Attributes
    ----------
    rule : Rule
        The rule.
    fired : list of JaxprEqn
        The equations that it replaced.
    miss : Miss or None
        The failed match that got furthest; None if no other equation has a primitive of the rule.
    """

    rule: Rule
    fired: list[JaxprEqn]
    miss: Miss | None

    def __str__(self) -> str:
        count = "once" if len(self.fired) == 1 else f"{len(self.fired)} times"
        lines = [f"{self.rule} fired {count}{':' if self.fired else '.'}"]
        lines += [f"    {_described(eqn)}" for eqn in self.fired]
        if self.miss is None:
            lines.append(f"No other equation is {' or '.join(self.rule.roots)}.")
            return "\n".join(lines)
        lines.append(f"Nearest miss: {self.miss.reason}. Matched before that:")
        lines += [f"    {_described(eqn)}" for eqn in self.miss.found] or ["    nothing"]
        return "\n".join(lines)


def explain(
    rule: Rule, fun: Callable[..., Any] | ClosedJaxpr, *args: Any, **kwargs: Any
) -> Explanation:
    """Explain where a rule fires in a program, and why it does not fire elsewhere.

    Parameters
    ----------
    rule : Rule
        The rule. It is tried on the program and on those inside its equations.
    fun : callable or ClosedJaxpr
        A function that JAX can trace, or a program.
    *args, **kwargs
        The arguments to trace the function with.

    Returns
    -------
    Explanation
        The replaced equations, and the nearest miss.
    """
    closed = fun if isinstance(fun, ClosedJaxpr) else jax.make_jaxpr(fun)(*args, **kwargs)
    found = Explanation(rule, [], None)

    def look(program: ClosedJaxpr) -> ClosedJaxpr:
        nonlocal found
        run = Rewriting(program, indexed((rule,)), explaining=True)
        miss = run.matcher.miss
        if found.miss is not None and (miss is None or len(miss.found) <= len(found.miss.found)):
            miss = found.miss
        found = Explanation(rule, [*found.fired, *(eqn for eqn, _ in run.fired)], miss)
        return program

    each_program(closed, look)
    return found


def _described(eqn: JaxprEqn) -> str:
    frame = _jax.frame_of(eqn.source_info)
    types = ", ".join(str(v.aval) for v in eqn.outvars)
    return f"{eqn.primitive} -> {types}{f', {frame.built}' if frame else ''}"
