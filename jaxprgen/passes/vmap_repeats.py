"""Batch what a program repeats."""

from __future__ import annotations

from dataclasses import dataclass

from jaxprgen._jax import ClosedJaxpr
from jaxprgen.ir.programs import count_equations
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.batching import NotBatchableError
from jaxprgen.passes.packing import Pack, Packing, Single, Unit, can_pack
from jaxprgen.passes.repeats import Alike, Node, may_repeat, with_slices


@dataclass(frozen=True)
class VmapRepeats:
    """Compute once, for all repetitions together, what a program repeats.

    A model that is written with a Python loop gives XLA one copy of the loop's body for each
    iteration, and XLA's time grows faster than their number. This pass finds equations that do the
    same to operands that were made alike, and computes them as one batched equation, a *pack*. Sums
    that are written as chains of additions become reductions.

    Attributes
    ----------
    least : int
        The number of repetitions from which on they are batched.
    memory : int
        The number of bytes that one pack may take.
    reassociate : bool
        Whether floating-point numbers may be added in another order, which changes rounding.
    """

    least: int = 8
    memory: int = 2**26
    reassociate: bool = False

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with batched repetitions, or the given one if it has none.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return each_program(closed, self._batched)

    def _batched(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        if not may_repeat(closed.jaxpr, self.least):
            return closed
        sliced = with_slices(closed)
        alike = Alike(sliced.jaxpr, self.reassociate)
        alike.colour()
        groups: dict[int, list[Node]] = {}
        for node in alike.nodes:
            groups.setdefault(node.colour, []).append(node)
        units: list[Unit] = []
        for nodes in groups.values():
            if can_pack(nodes, self.least, self.memory):
                units.append(Pack(nodes))
            else:
                units += [Single(node) for node in nodes]
        if len(units) == len(alike.nodes):
            return closed
        found = packed(sliced, units, self.least)
        return closed if found is sliced else found


def packed(closed: ClosedJaxpr, units: list[Unit], least: int) -> ClosedJaxpr:
    """Return a program with packs, or the given one if too few equations would be saved."""
    packing = Packing(closed, least)
    if not packing.b.plain:
        return closed
    try:
        equations = packing.equations(units, closed.jaxpr.outvars)
    except NotBatchableError:
        return closed
    if equations is None:
        return closed
    found = with_equations(closed, equations, more=dict(packing.b.constants))
    saved = count_equations(closed) - count_equations(found)
    return found if saved >= _SAVED * least else closed


_SAVED = 2
"""How many equations must be saved, in terms of the least number of repetitions."""
