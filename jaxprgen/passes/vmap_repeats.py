"""Batch what a program repeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxprgen._jax import ClosedJaxpr
from jaxprgen.ir.programs import count_equations
from jaxprgen.ir.rewriting import each_program, with_equations
from jaxprgen.passes.batching import NotBatchableError
from jaxprgen.passes.choices import prices
from jaxprgen.passes.costs import CostModel
from jaxprgen.passes.joins import with_joins_flattened
from jaxprgen.passes.meaning import Meaning, if_reassociated
from jaxprgen.passes.packing import Pack, Packing, Single, Unit, why_not_packed
from jaxprgen.passes.repeat_look import why_no_repeats
from jaxprgen.passes.repeat_notes import listener
from jaxprgen.passes.repeats import Alike, Node, with_slices
from jaxprgen.passes.writes import with_writes_joined


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
        The number of bytes that one pack may take, or what it reads.
    reassociate : bool
        Whether whole repetitions may be added in another order, which changes rounding.
        Parentheses stay, and what one repetition contributes to a sum is combined first.
        Otherwise, matrix products, sums over axes and the like are not batched.
    cost : CostModel, optional
        By which what is batched must take less time, to compile and to call, than as it is written.
        `jaxprgen.passes.default` sets it.
    """

    least: int = 8
    memory: int = 2**26
    reassociate: bool = False
    cost: CostModel | None = None

    meaning = if_reassociated(Meaning.SAME_TERMS)

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with batched repetitions, or the given one if it has none.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        notes = listener()
        if notes is not None and any(e.primitive.name == "shard_map" for e in closed.jaxpr.eqns):
            notes.leave_all("shard_map", "values are split over a mesh")
        return each_program(closed, self._batched)

    def _batched(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        closed, program = joined(closed, self.least, self.reassociate)
        found = unless_left_alone(self._packed, program, "VmapRepeats")
        return closed if found is program else found

    def _packed(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        reason = why_no_repeats(closed.jaxpr, self.least)
        if reason:
            raise NotBatchableError(reason)
        alike = Alike(closed.jaxpr, self.reassociate)
        alike.colour()
        groups: dict[int, list[Node]] = {}
        for node in alike.nodes:
            groups.setdefault(node.colour, []).append(node)
        options = self.least, self.memory, self.reassociate
        reasons = {key: why_not_packed(nodes, *options) for key, nodes in groups.items()}
        possible = {key: nodes for key, nodes in groups.items() if not reasons[key]}
        weighed = {} if self.cost is None else prices(closed.jaxpr, alike, possible, (), self.cost)
        reasons |= {key: str(price) for key, price in weighed.items() if not price.is_worth_it}
        units: list[Unit] = []
        for key, nodes in groups.items():
            if reasons[key]:
                units += [Single(node) for node in nodes]
                note_left(nodes, reasons[key])
            else:
                units.append(Pack(nodes, str(weighed.get(key, ""))))
        if len(units) == len(alike.nodes):
            return closed
        return packed(closed, units, self.least)


def joined(closed: ClosedJaxpr, least: int, reassociate: bool) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Return a program whose writes are joined, and the same without stages of joins and splits.

    Both may be the given one; see `jaxprgen.passes.writes.with_writes_joined`.
    """
    program = _flat(closed)
    changed = with_writes_joined(program, least, reassociate)
    return (closed, program) if changed is program else (changed, _flat(changed))


def _flat(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program that joins and splits arrays at once, the latter by slices."""
    return with_slices(with_joins_flattened(closed))


def unless_left_alone(
    change: Callable[[ClosedJaxpr], ClosedJaxpr], closed: ClosedJaxpr, name: str
) -> ClosedJaxpr:
    """Return the changed program, or the given one if the change raises `NotBatchableError`."""
    try:
        return change(closed)
    except NotBatchableError as error:
        notes = listener()
        if notes is not None and error.repeated[1] > 1:
            notes.leave(*error.repeated, str(error))
        elif notes is not None:
            notes.leave_all(name, str(error))
        return closed


def note_left(nodes: Sequence[Node], reason: str) -> None:
    """Note that alike nodes stay as they are."""
    notes = listener() if len(nodes) > 1 or nodes[0].eqn.effects else None
    if notes is not None:
        notes.leave([nodes[0].eqn], len(nodes), reason)


def packed(closed: ClosedJaxpr, units: Sequence[Unit], least: int) -> ClosedJaxpr:
    """Return a program with packs.

    Raises
    ------
    NotBatchableError
        A unit cannot be emitted, a mesh splits values, or too few equations would be saved.
    """
    packing = Packing(closed, least)
    if not packing.b.plain:
        raise NotBatchableError("values are split over a mesh")
    equations = packing.equations(units, closed.jaxpr.outvars)
    found = with_equations(closed, equations, more=dict(packing.b.constants))
    saved = count_equations(closed) - count_equations(found)
    if saved < _SAVED * least:
        why = f"would save {max(saved, 0)} equations, fewer than {_SAVED * least}"
        raise NotBatchableError(why)
    notes = listener()
    if notes is not None:
        packing.note(notes)
    return found


_SAVED = 2
"""How many equations must be saved, in terms of the least number of repetitions."""
