"""The builder of a loop's step or of a branch, which moves work to the program around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ShapedArray, Var
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.liveness import live_equations
from jaxprgen.ir.redundancy import Identities, merged, split_invariant


class BodyBuilder(Builder):
    """Collects the equations of a program inside of an equation that is not emitted yet.

    Parameters
    ----------
    outer : Builder
        The builder around it.
    input_types : iterable of ShapedArray
        The types of the body's inputs.

    Attributes
    ----------
    outer : Builder
        The builder around it.
    """

    __slots__ = ("outer",)

    def __init__(self, outer: Builder, input_types: Iterable[ShapedArray]) -> None:
        super().__init__(input_types)
        self.source_info = _jax.unnamed(outer.source_info)
        self.outer = outer

    def add_input(self, input_type: ShapedArray) -> Var:
        """Add one more input and return it."""
        self._inputs.append(Var(input_type))
        return self._inputs[-1]

    def merge(self, same: dict[Any, Any]) -> None:
        """Compute once what is computed twice.

        ``same`` tells which variables equal others; those that turn out to do so are added.
        """
        self._equations = merged(self._equations, same, Identities())

    def hoist(self, fixed: dict[Var, Atom]) -> None:
        """Move equations that follow from ``fixed`` variables, and constants, to the outer builder.

        ``fixed`` tells what stands for these variables there; the results of the equations are
        added to it. Repetition, which costs no memory, and equations with effects stay.
        """
        fixed.update(self.hoist_constants())
        moved, self._equations = split_invariant(self._equations, fixed)
        for eqn in moved:
            fixed.update(self.outer.copy(eqn, fixed))

    def hoist_constants(self) -> dict[Var, Atom]:
        """Make the constants variables, and return what stands for them in the outer builder."""
        found: dict[Var, Atom] = {v: self.outer.constant(x) for v, x in self._constants.values()}
        self._constants.clear()
        return found

    def reads(self, outputs: Sequence[Atom]) -> set[Var]:
        """Return the variables that these outputs need and that no equation gives."""
        return live_equations(self._equations, outputs)[1]
