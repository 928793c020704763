"""Programs that are called as a part of the program that calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn
from jaxprgen.ir import Builder
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.steps import named


@dataclass(frozen=True)
class Inline:
    """Programs that ``jit`` calls become part of those that call them.

    So that rules see across calls, which many functions of `jax.numpy` and `jax.nn` are. Calls
    that ask for more than to be run, as for devices or donated arrays, stay, and so do functions
    with derivatives of their own.
    """

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program without these calls."""
        return each_program(closed, with_calls_opened)


def holds_loop(eqn: JaxprEqn) -> bool:
    """Whether an equation is a ``scan``, or calls a program with one."""
    if eqn.primitive.name != "jit":
        return eqn.primitive.name == "scan"
    return any(map(holds_loop, _jax.open_jaxpr(eqn.params["jaxpr"]).eqns))


def opened(eqn: JaxprEqn) -> list[JaxprEqn]:
    """The equations of the program that one calls, if it does nothing else."""
    if eqn.primitive.name != "jit" or eqn.effects or not _jax.is_bare_call(eqn):
        return [eqn]
    b = Builder([])
    b.source_info = eqn.source_info
    given: Any = eqn.invars
    results = b.inline(_jax.close(eqn.params["jaxpr"]), given)
    return [x for e in named(b, results, eqn.outvars) for x in opened(e)]


def with_calls_opened(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program that calls no other one, or only such as have to stay apart."""
    found = [x for e in closed.jaxpr.eqns for x in opened(e)]
    pairs = zip(found, closed.jaxpr.eqns, strict=False)
    return closed if all(x is e for x, e in pairs) else with_equations(closed, found)
