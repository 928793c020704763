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
    """Collects the equations of a program inside an equation that is not emitted yet.

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
        """Remove equations that repeat earlier ones.

        Parameters
        ----------
        same : dict
            Variables, with the variables that replace them. The results of repeated equations are
            added.
        """
        self._equations = merged(self._equations, same, Identities())

    def hoist(self, fixed: dict[Var, Atom]) -> None:
        """Move equations that only depend on fixed variables and constants to the outer builder.

        Broadcasts stay, because they would cost memory outside, and so do equations with effects.

        Parameters
        ----------
        fixed : dict
            Variables of this builder, with the atoms that they equal in the outer one. The results
            of the moved equations are added.
        """
        fixed.update(self.hoist_constants())
        moved, self._equations = split_invariant(self._equations, fixed)
        for eqn in moved:
            fixed.update(self.outer.copy(eqn, fixed))

    def hoist_constants(self) -> dict[Var, Atom]:
        """Move the constants to the outer builder, and return their variables there."""
        found: dict[Var, Atom] = {v: self.outer.constant(x) for v, x in self._constants.values()}
        self._constants.clear()
        return found

    def reads(self, outputs: Sequence[Atom]) -> set[Var]:
        """Return the variables that these outputs need and that no equation binds."""
        return live_equations(self._equations, outputs)[1]
