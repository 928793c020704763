"""What nobody reads."""

from __future__ import annotations

from dataclasses import dataclass

from jaxprgen._jax import ClosedJaxpr
from jaxprgen.ir.rewriting import each_program, with_equations


@dataclass(frozen=True)
class EliminateDeadCode:
    """Equations go that no output needs; what has an effect stays.

    Of loops, branches and calls, the results that nobody reads go, with the operands and the
    equations inside that only they need; so do carries on which nothing else depends. A function
    with a derivative of its own keeps all its results, and loses what none of them needs.
    """

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program of what is needed."""
        return each_program(closed, _needed)


def _needed(program: ClosedJaxpr) -> ClosedJaxpr:
    found = with_equations(program, program.jaxpr.eqns)
    before, after = program.jaxpr, found.jaxpr
    is_same = len(after.eqns) == len(before.eqns) and len(after.constvars) == len(before.constvars)
    if is_same and all(e is f for e, f in zip(before.eqns, after.eqns, strict=True)):
        return program
    return found
