"""Scan reversal: run loops backwards instead of reversing their sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder, primitives as lax
from jaxprgen.ir.loops import Loop, pure_loop
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.inlining import bound_to
from jaxprgen.passes.meaning import Meaning


@dataclass(frozen=True)
class ReverseScan:
    """Replace a ``scan`` over reversed sequences by one that runs in the other direction.

    `aesara.grad` writes such loops, and so does ``go_backwards``. The stacked results are reversed
    instead, unless they are read in reverse. A loop stays as it is if this would not reverse fewer
    arrays.
    """

    meaning = Meaning.SAME_BITS

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with such loops reversed, or the given one if no loop changes.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return each_program(closed, _with_reversed_loops)


def _with_reversed_loops(program: ClosedJaxpr) -> ClosedJaxpr:
    if all(eqn.primitive.name != "scan" for eqn in program.jaxpr.eqns):
        return program
    found = _Reversal(program.jaxpr.eqns, program.jaxpr.outvars).program()
    return program if found is None else with_equations(program, *found)


class _Reversal:
    """The equations of one program, with its loops reversed one after another.

    Attributes
    ----------
    makers : dict of Var to JaxprEqn
        The equation that computes each variable, among the equations visited so far.
    same : dict of Var to Var
        Variables that are reversed twice, and the original variables.
    scanned : set of Var
        The variables that loops read as sequences.
    used_otherwise : set of Var
        The variables that are read in another way, except by a reversal.
    """

    def __init__(self, equations: Sequence[JaxprEqn], outputs: Sequence[Any]) -> None:
        self.equations, self.outputs = equations, outputs
        self.makers: dict[Any, Any] = {}
        self.same: dict[Any, Any] = {}
        self.scanned: set[Any] = set()
        self.used_otherwise = {x for x in outputs if type(x) is Var}
        for eqn in equations:
            rows = Loop.of(eqn).rows.values() if eqn.primitive.name == "scan" else ()
            self.scanned.update(x for x in rows if type(x) is Var)
            if not _is_reversal(eqn):
                others = eqn.invars[: len(eqn.invars) - len(rows)]
                self.used_otherwise.update(x for x in others if type(x) is Var)

    def program(self) -> tuple[list[JaxprEqn], list[Any]] | None:
        """Return the equations and outputs, or None if no loop is reversed."""
        if not self.scanned:
            return None
        found: list[JaxprEqn] = []
        is_changed = False
        for eqn in self.equations:
            eqn = eqn.replace(invars=[self._substitute(x) for x in eqn.invars])
            replacement = self._replacement(eqn) if eqn.primitive.name == "scan" else None
            is_changed |= replacement is not None
            for new in [eqn] if replacement is None else replacement:
                self.makers.update(dict.fromkeys(new.outvars, new))
                if _is_reversal(new) and _is_reversal(self.makers.get(new.invars[0])):
                    self.same[new.outvars[0]] = self.makers[new.invars[0]].invars[0]
                else:
                    found.append(new)
        return (found, [self._substitute(x) for x in self.outputs]) if is_changed else None

    def _substitute(self, x: Any) -> Any:
        return self.same.get(x, x) if type(x) is Var else x

    def _replacement(self, eqn: Any) -> list[JaxprEqn] | None:
        """Return equations with the reversed loop, or None if it does not save reversals."""
        b, loop = Builder.in_place_of(eqn), pure_loop(eqn)
        if loop is None:
            return None
        rows = {v: self._reversed(b, x) for v, x in loop.rows.items()}
        free = {v for v, x in rows.items() if x is not None}
        won = sum(
            rows[v] is not loop.rows[v] and loop.rows[v] not in self.used_otherwise for v in free
        )
        carries = len(loop.carries)
        lost = (v in self.used_otherwise or v in self.scanned for v in eqn.outvars[carries:])
        if won <= len(rows) - len(free) + sum(lost):
            return None
        rows |= {v: lax.rev(b, x, (0,)) for v, x in loop.rows.items() if v not in free}
        out = replace(loop, rows=rows, reverse=not loop.reverse).emit(b)
        stacked = [lax.rev(b, x, (0,)) for x in out[carries:]]
        return bound_to(b, [*out[:carries], *stacked], eqn.outvars)

    def _reversed(self, b: Builder, x: Any) -> Any:
        """Return the reversed array if that takes no reversal, otherwise None."""
        maker = self.makers.get(x)
        if maker is None:
            return None
        name = maker.primitive.name
        if _is_reversal(maker):
            return maker.invars[0]
        if name == "broadcast_in_dim":
            axes = maker.params["broadcast_dimensions"]
            is_alike = 0 not in axes or maker.invars[0].aval.shape[axes.index(0)] == 1
            return x if is_alike else None
        if name == "slice" and maker.params["strides"] is None:
            whole = self._reversed(b, maker.invars[0])
            return None if whole is None else _mirrored_slice(b, whole, maker.params)
        return None


def _mirrored_slice(b: Builder, x: Atom, params: dict[str, Any]) -> Atom:
    """Emit the slice with these parameters, counting the rows from the last one."""
    (start, *low), (stop, *high) = params["start_indices"], params["limit_indices"]
    n = x.aval.shape[0]
    return lax.slice(b, x, [n - stop, *low], [n - start, *high])


def _is_reversal(eqn: Any) -> bool:
    """Return whether an equation reverses the first axis and no other."""
    return eqn is not None and eqn.primitive.name == "rev" and eqn.params["dimensions"] == (0,)
