"""What is computed twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.ir.redundancy import Identities, merged
from jaxprgen.ir.rewriting import each_program, with_equations


@dataclass(frozen=True)
class EliminateCommonSubexpressions:
    """What one program computes twice is computed once.

    Equations are equal if their primitives, parameters and operands are, the latter in any order
    where that gives the same bits; programs in parameters, as those of loops and calls, if all of
    their equations are. Draws by the same key are equal. What has an effect stays, and so does
    what is there to keep computations apart. Programs inside of an equation do not see what is
    computed around it.

    Attributes
    ----------
    limit
        The longest constants, in bytes, that are compared by value.
    """

    limit: int = 2**10

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program without repetitions."""
        identities = Identities()
        return each_program(closed, lambda program: self._once(program, identities))

    def _once(self, program: ClosedJaxpr, identities: Identities) -> ClosedJaxpr:
        jaxpr = program.jaxpr
        same: dict[Any, Any] = identities.constants(program, self.limit)
        equations = merged(jaxpr.eqns, same, identities)
        if not same and len(equations) == len(jaxpr.eqns):
            return program
        outputs = [same.get(x, x) if type(x) is Var else x for x in jaxpr.outvars]
        return with_equations(program, equations, outputs)
