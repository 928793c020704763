"""Why a rule fires, or does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn
from jaxprgen.ir.rewriting import each_program
from jaxprgen.rewrite.driver import Rewriting, index_of
from jaxprgen.rewrite.matching import Miss
from jaxprgen.rewrite.rules import Rule


class Explanation(NamedTuple):
    """What a rule did to a program; `str` says it in words.

    Attributes
    ----------
    rule
        The rule.
    fired
        The equations that it replaced.
    miss
        Where the most of its pattern was found without its firing, and why not; None if it is
        found nowhere.
    """

    rule: Rule
    fired: list[JaxprEqn]
    miss: Miss | None

    def __str__(self) -> str:
        lines = [f"{self.rule} fired {len(self.fired)} times{':' if self.fired else '.'}"]
        lines += [f"    {_said(eqn)}" for eqn in self.fired]
        if self.miss is None:
            lines.append(f"Nowhere else is there {' or '.join(self.rule.roots)}.")
            return "\n".join(lines)
        lines.append(f"The nearest miss: {self.miss.reason}. Found until then:")
        lines += [f"    {_said(eqn)}" for eqn in self.miss.found] or ["    nothing"]
        return "\n".join(lines)


def explain(
    rule: Rule, fun: Callable[..., Any] | ClosedJaxpr, *args: Any, **kwargs: Any
) -> Explanation:
    """Why a rule does not fire where one would expect it to.

    Parameters
    ----------
    rule
        The rule, which is applied to the program and to those inside of it.
    fun, *args, **kwargs
        A program, or any function that JAX can trace, and what it is called with.
    """
    closed = fun if isinstance(fun, ClosedJaxpr) else jax.make_jaxpr(fun)(*args, **kwargs)
    found = Explanation(rule, [], None)

    def look(program: ClosedJaxpr) -> ClosedJaxpr:
        nonlocal found
        run = Rewriting(program, index_of((rule,)), explaining=True)
        miss = run.matcher.miss
        if found.miss is not None and (miss is None or len(miss.found) <= len(found.miss.found)):
            miss = found.miss
        found = Explanation(rule, [*found.fired, *(eqn for eqn, _ in run.fired)], miss)
        return program

    each_program(closed, look)
    return found


def _said(eqn: JaxprEqn) -> str:
    frame = _jax.frame_of(eqn.source_info)
    types = ", ".join(str(v.aval) for v in eqn.outvars)
    return f"{eqn.primitive} -> {types}{f', {frame.built}' if frame else ''}"
