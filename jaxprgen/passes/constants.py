"""Constants that follow from others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Literal, Var
from jaxprgen.ir import Atom
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.known import Values


@dataclass(frozen=True)
class FoldConstants:
    """Equations whose operands are all known are replaced by their results.

    Only by such as have the same bits whatever computes them, see `jaxprgen.passes.known`; a
    compiler is left to round the others. For that reason subnormal numbers stay, which are zero
    where a processor is told so, and divisions of integers by zero. NaN and infinities stay for
    ``jax_debug_nans`` to find; effects and loops stay. Branches that are known and functions are
    evaluated if all that is inside can be.

    A scalar becomes a part of the program's text. An array becomes a constant of the program, and
    inside of equations stays. So do repetition (``broadcast_in_dim``, ``iota``) and keys, from
    which others follow all the same.

    Attributes
    ----------
    limit
        The most bytes of a result.
    """

    limit: int = 2**10

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program without what is known."""
        inside = each_program(closed, lambda program: self._folded(program, arrays=False))
        return self._folded(inside, arrays=True)

    def _folded(self, program: ClosedJaxpr, *, arrays: bool) -> ClosedJaxpr:
        jaxpr = program.jaxpr
        values = Values(self.limit)
        values.add(jaxpr.constvars, program.consts)
        atoms: dict[Any, Atom] = {}
        equations: list[JaxprEqn] = []
        for eqn in jaxpr.eqns:
            if values.evaluate(eqn):
                read = (v for v in eqn.outvars if type(v) is Var)
                found = ((v, _atom(v, values.of(v), arrays)) for v in read)
                atoms.update((v, x) for v, x in found if x is not None)
            if atoms and any(type(x) is Var and x in atoms for x in eqn.invars):
                invars = [atoms.get(x, x) if type(x) is Var else x for x in eqn.invars]
                eqn = eqn.replace(invars=invars)
            equations.append(eqn)
        if not atoms:
            return program
        more = {x: np.asarray(values.of(v)) for v, x in atoms.items() if type(x) is Var}
        outputs = [atoms.get(x, x) if type(x) is Var else x for x in jaxpr.outvars]
        return with_equations(program, equations, outputs, more)


def _atom(v: Any, value: Any, arrays: bool) -> Atom | None:
    """What stands for a variable of a known value; none if that would be of another type."""
    aval = v.aval
    if _jax.is_key(aval) or (aval.shape and not arrays):
        return None
    known = np.asarray(value)
    if aval.shape:
        return Var(aval) if _jax.type_of(known) == aval else None
    scalar = known.item() if aval.weak_type else known[()]
    return Literal(scalar, aval) if _jax.type_of(scalar) == aval else None
