"""Loop sharing: let one ``scan`` stack values that a later one would compute again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Builder
from jaxprgen.ir.loops import Loop, pure_loop
from jaxprgen.ir.redundancy import Identities, atom_key, merged
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.costs import is_fused, is_slow
from jaxprgen.passes.meaning import Meaning


@dataclass(frozen=True)
class ShareScan:
    """Stack values of one ``scan`` that a second ``scan`` would compute again.

    The loop that `aesara.grad` writes for a gradient computes again, from the same sequences, what
    the forward loop has computed; `jax.grad` stores it instead. Both loops must have the same
    number of steps. A value is stacked only if it is needed and costs more to compute than to read.
    Cheap values are computed again, and so are loops inside steps, because
    `aesara.scan_checkpoints` saves memory that way. In programs with such loops, common
    subexpressions outside of the loops are eliminated as well.

    Attributes
    ----------
    memory : int
        The number of bytes that one loop may stack for another. If they do not fit into the
        processor's caches, computing again is as fast.
    """

    memory: int = 2**22

    meaning = Meaning.SAME_BITS

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with smaller loops, or the given one if no loop changes.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return each_program(closed, self._share)

    def _share(self, program: ClosedJaxpr) -> ClosedJaxpr:
        if not _dependent_loops(program.jaxpr.eqns):
            return program
        same: dict[Any, Any] = {}
        found = merged(program.jaxpr.eqns, same, Identities())
        is_changed = bool(same)
        for place, others in _dependent_loops(found):
            for i in others:
                pair = _shared(found[i], found[place], self.memory)
                if pair is not None:
                    found[i], found[place] = pair
                    is_changed = True
        if not is_changed:
            return program
        outputs = [same.get(x, x) if type(x) is Var else x for x in program.jaxpr.outvars]
        return with_equations(program, found, outputs)


def _dependent_loops(equations: Sequence[JaxprEqn]) -> list[tuple[int, list[int]]]:
    """Return the positions of loops that read results of others, with the positions of those."""
    stacking: dict[Any, int] = {}
    found: list[tuple[int, list[int]]] = []
    for place, eqn in enumerate(equations):
        if eqn.primitive.name == "scan":
            loop = Loop.of(eqn)
            rows = [x for x in loop.rows.values() if type(x) is Var]
            others = sorted({stacking[x] for x in rows if x in stacking})
            found += [(place, others)] if others else []
            stacking.update(dict.fromkeys(eqn.outvars[len(loop.carries) :], place))
    return found


def _shared(one: JaxprEqn, other: JaxprEqn, memory: int) -> tuple[JaxprEqn, JaxprEqn] | None:
    """Return two loops with values shared, or None if that saves nothing or takes too much."""
    first, second = pure_loop(one), pure_loop(other)
    if first is None or second is None or first.length != second.length:
        return None
    return _JointBody((one, other), first, second).shared(memory)


class _JointBody:
    """The bodies of two loops as one body; the second loop reads results that the first stacks.

    Attributes
    ----------
    first, second : Loop
        The loops. The second one has the variables of the first for values that both have.
    equations : list of JaxprEqn
        The equations of both bodies, without common subexpressions.
    made : set of Var
        The variables that the first body computes.
    recomputed : set of Atom
        The atoms of the first body that the second one would compute again.
    """

    def __init__(self, eqns: tuple[JaxprEqn, JaxprEqn], first: Loop, second: Loop) -> None:
        self.eqns, second = eqns, second.renamed()
        same: dict[Any, Any] = {}
        equations = merged(first.equations, same, Identities(inside=False))
        self.first = first.substituted(same)
        self.made = {v for e in equations for v in e.outvars}
        stacked = zip(eqns[0].outvars[len(first.carries) :], self.first.stacked, strict=True)
        constants = {atom_key(x): v for v, x in first.constants.items()}
        rows = {**{atom_key(x): v for v, x in first.rows.items()}, **dict(stacked)}
        for own, known in (second.constants, constants), (second.rows, rows):
            same.update((v, known[atom_key(x)]) for v, x in own.items() if atom_key(x) in known)
        count = len(same)
        equations = [*equations, *second.equations]
        self.equations = merged(equations, same, Identities(inside=False))
        self.recomputed = set([*same.values()][count:])
        self.second = second.substituted(same)

    def shared(self, memory: int) -> tuple[JaxprEqn, JaxprEqn] | None:
        """Return both loops with values shared, or None if that saves nothing or takes too much."""
        first, second = self.first, self.second
        readable: set[Any] = {*second.constants, *second.carries, *second.rows}
        expensive = [
            v
            for e in self.equations
            if not _is_cheap(e)
            for v in e.outvars
            if v in self.made and v not in readable
        ]
        kept = readable.union(expensive)
        if kept.isdisjoint(self.recomputed):
            return None
        left = [e for e in self.equations if kept.isdisjoint(e.outvars)]
        rest = replace(
            second, equations=left, rows={**second.rows, **{v: v for v in expensive}}
        ).live()
        missing = [v for v in expensive if v in rest.rows]
        steps = _jax.bound(first.length)
        if sum(_jax.nbytes(v.aval) for v in missing) * steps > memory:
            return None
        inside = [e for e in self.equations if not self.made.isdisjoint(e.outvars)]
        stacked = [*first.stacked, *missing]
        one = _in_place_of(self.eqns[0], replace(first, equations=inside, stacked=stacked))
        found = dict(zip(missing, one.outvars[len(one.outvars) - len(missing) :], strict=True))
        rest = replace(rest, rows={v: found.get(v, x) for v, x in rest.rows.items()})
        return one, _in_place_of(self.eqns[1], rest)


def _in_place_of(eqn: JaxprEqn, loop: Loop) -> JaxprEqn:
    """Return a loop as an equation that binds the results of another one, and perhaps more."""
    b = Builder.in_place_of(eqn)
    out = loop.emit(b)
    (new,) = b.equations_from(0)
    outvars: list[Any] = [*eqn.outvars, *out[len(eqn.outvars) :]]
    return new.replace(outvars=outvars)


def _is_cheap(eqn: JaxprEqn) -> bool:
    """Return whether it costs no more to compute a result again than to read it from memory."""
    return eqn.primitive.name == "concatenate" or (is_fused(eqn) and not is_slow(eqn))
