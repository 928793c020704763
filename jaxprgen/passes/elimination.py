"""Remove equations: dead code, and common subexpressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.ir.liveness import are_same
from jaxprgen.ir.redundancy import Identities, merged
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.meaning import Meaning

_SMALL = 2**10
"""Bytes of constants that are compared by value."""


@dataclass(frozen=True)
class EliminateDeadCode:
    """Remove equations that no output needs. Equations with effects stay.

    Unused results of loops, branches and calls are removed as well, together with the operands and
    the inner equations that only they need, and with carries on which nothing else depends. A
    function with a custom derivative keeps all of its results, and loses the equations that no
    result needs.
    """

    meaning = Meaning.SAME_BITS

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program without dead code, or the given one if there is none.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return each_program(closed, _live)


def _live(program: ClosedJaxpr) -> ClosedJaxpr:
    found = with_equations(program, program.jaxpr.eqns)
    before, after = program.jaxpr, found.jaxpr
    keeps_constants = len(after.constvars) == len(before.constvars)
    return program if keeps_constants and are_same(after.eqns, before.eqns) else found


@dataclass(frozen=True)
class EliminateCommonSubexpressions:
    """Compute once what a program computes repeatedly.

    Two equations are equal if their primitives, parameters and operands are. The operands may be
    in another order where swapping them preserves every bit. Programs in parameters, such as the
    bodies of loops, are equal if all of their equations are. Random draws with the same key are
    equal. Equations with effects stay, and so do primitives that keep computations apart, such as
    ``optimization_barrier``. A program inside an equation does not share values with the program
    around it.

    Attributes
    ----------
    limit : int
        The size in bytes up to which constants are compared by value. Larger constants are equal
        only if they are the same object.
    """

    limit: int = _SMALL

    meaning = Meaning.SAME_BITS

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program without repetitions, or the given one if there are none.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        identities = Identities()
        return each_program(closed, lambda program: deduplicated(program, identities, self.limit))


def deduplicated(program: ClosedJaxpr, identities: Identities, limit: int = _SMALL) -> ClosedJaxpr:
    """Return a program that computes equal equations once; programs inside of them stay.

    Parameters
    ----------
    program : ClosedJaxpr
        The program.
    identities : Identities
        How equations are compared.
    limit : int
        The size in bytes up to which constants are compared by value.
    """
    jaxpr = program.jaxpr
    same: dict[Any, Any] = identities.constants(program, limit)
    equations = merged(jaxpr.eqns, same, identities)
    if not same and len(equations) == len(jaxpr.eqns):
        return program
    outputs = [same.get(x, x) if type(x) is Var else x for x in jaxpr.outvars]
    return with_equations(program, equations, outputs)
