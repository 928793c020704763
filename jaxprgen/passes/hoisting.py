"""Loop-invariant code motion."""

from __future__ import annotations

from dataclasses import dataclass

from jaxprgen._jax import ClosedJaxpr, JaxprEqn
from jaxprgen.ir import Builder
from jaxprgen.ir.inner import has_constants
from jaxprgen.ir.loops import Loop
from jaxprgen.ir.rewriting import rewritten
from jaxprgen.passes.inlining import bound_to
from jaxprgen.passes.meaning import Meaning


@dataclass(frozen=True)
class Hoist:
    """Compute loop-invariant values of a ``scan`` or ``while`` once, before the loop.

    Values are invariant if they follow from the constants of a loop and from carries that no step
    changes. The condition of a ``while`` is searched as well. Inner loops come first, so a value
    that no loop changes leaves all of them. Equations with effects stay. So does repetition
    (``broadcast_in_dim``, ``iota``), which takes no memory inside the loop.

    If a loop takes no step, the invariant values are computed in vain. That is safe, because
    primitives are defined for all operands. Inner loops that may not end and callbacks that may
    raise are the exceptions: they are moved only out of code that is certain to run.
    """

    meaning = Meaning.SAME_BITS

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with smaller loops, or the given one if nothing is invariant.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return rewritten(closed, ("scan", "while"), _hoisted)


def _hoisted(eqn: JaxprEqn) -> list[JaxprEqn] | None:
    """Return the equations that replace a loop, or None if nothing is invariant."""
    if has_constants(eqn) or (eqn.primitive.name == "scan" and not eqn.params["length"]):
        return None
    b, loop = Builder.in_place_of(eqn), Loop.of(eqn)
    rest = loop.hoisted(b)
    if rest.constants.keys() <= {*loop.constants, *loop.carries}:
        return None
    out = rest.emit(b)
    return bound_to(b, [*rest.ends(loop, out), *out[len(rest.carries) :]], eqn.outvars)
