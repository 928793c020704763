"""Compute together what a program repeats: copies side by side, and the steps of recurrences.

Copies are *found* by their colours (`repeats`, `recurrences`), *outlined* as one body with columns
of operands, *proven* to do what the body does (`copies`), *chosen* by their costs (`choices`), and
*emitted* as rows of packs, or as a loop (`packing`). What fails on this way stays as it is written.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.liveness import uses_of
from jaxprgen.ir.programs import count_equations
from jaxprgen.ir.redundancy import Identities, atom_key
from jaxprgen.ir.rewriting import each_program
from jaxprgen.passes.batching import NotBatchableError, why_not_batched
from jaxprgen.passes.choices import Prices
from jaxprgen.passes.copies import Copies, Kept, is_proven, nbytes, side_by_side
from jaxprgen.passes.costs import CostModel
from jaxprgen.passes.elimination import deduplicated
from jaxprgen.passes.inlining import with_lone_calls_inlined
from jaxprgen.passes.joins import with_joins_flattened
from jaxprgen.passes.kernels import Kernels
from jaxprgen.passes.meaning import Meaning, if_reassociated
from jaxprgen.passes.packing import Loop, Pack, Packing, Single, Unit, WaitingError
from jaxprgen.passes.recurrences import cuts, stages, steps_of
from jaxprgen.passes.repeat_notes import listener
from jaxprgen.passes.repeats import CHAINS, Colouring, Node, reads_a_block
from jaxprgen.passes.writes import with_writes_forwarded
from jaxprgen.texts import visible

_SAVED = 2
"""How many equations must be saved, in terms of the least number of repetitions."""
_ROUNDS = (3, 8, 20)
"""How far equations are compared to guess what recurs, in turn."""
_FUSED = 2000
"""How many elementwise equations XLA fuses without the help of a loop."""
_FUSES = "a chain so short that XLA fuses it by itself"
_NOT_FOUND = "no recurrence was found"
_LONGEST = 60
"""The number of characters of a parameter that are shown."""


@dataclass(frozen=True)
class _Repetitions:
    """What the two passes have in common: from nodes that may repeat to a program."""

    least: int
    memory: int = 2**26
    reassociate: bool = False
    cost: CostModel | None = None

    meaning = if_reassociated(Meaning.SAME_TERMS)
    joins = False
    """Whether writes, other than sums of blocks, are joined even if nothing else repeats."""

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with its repetitions together, or the given one if it has none.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        notes = listener()
        if notes is not None and any(e.primitive.name == "shard_map" for e in closed.jaxpr.eqns):
            notes.leave_all("shard_map", "values are split over a mesh")
        inlined = with_lone_calls_inlined(closed)
        identities = Identities()  # So that each program inside is read once.
        found = each_program(inlined, lambda program: self._changed(program, identities))
        return closed if found is inlined else found

    def _changed(self, closed: ClosedJaxpr, identities: Identities) -> ClosedJaxpr:
        program = with_joins_flattened(closed)
        written = with_writes_forwarded(program, self.least, self.reassociate, self.cost)
        if written is not program:
            if self.joins:  # XLA fuses a sum of blocks: only others are joined for their own sake.
                closed = with_writes_forwarded(program, self.least, False, self.cost)
            program = with_joins_flattened(written)
        try:
            return self._together(program, identities)
        except NotBatchableError as error:
            notes = listener()
            if notes is not None and error.repeated[1] > 1:
                notes.leave(*error.repeated, str(error))
            elif notes is not None:
                notes.leave_all(type(self).__name__, str(error))
            return closed

    def _together(self, closed: ClosedJaxpr, identities: Identities) -> ClosedJaxpr:
        """Return a program without repetitions, or raise why not."""
        raise NotImplementedError

    def _emitted(
        self,
        closed: ClosedJaxpr,
        colouring: Colouring,
        kernels: Callable[[], Kernels],
        loops: Sequence[tuple[Copies, Kept]] = (),
    ) -> ClosedJaxpr:
        """Return the program with loops, and with packs of other alike nodes."""
        inside = {id(node) for steps, _ in loops for node in steps.nodes}
        groups = grouped(colouring.nodes)
        beside = {k: nodes for k, nodes in groups.items() if inside.isdisjoint(map(id, nodes))}
        copies = {key: side_by_side(nodes) for key, nodes in beside.items()}
        reasons = {key: self._why_not_packed(each) for key, each in copies.items()}
        copies = {key: each for key, each in copies.items() if not reasons[key]}
        weighed: Prices | None = None
        if self.cost is not None and (copies or loops):
            weighed = Prices(closed.jaxpr, colouring, kernels(), copies, inside, self.cost)
            each = weighed.prices.items()
            reasons |= {key: str(price) for key, price in each if not price.is_worth_it}
            copies = {key: each for key, each in copies.items() if not reasons[key]}
        alone = [n for k, nodes in groups.items() if k not in copies for n in nodes]
        alone = [node for node in alone if id(node) not in inside]
        whole = ""
        if loops and weighed is not None:
            price = weighed.of_loops(loops, copies.values(), alone)
            if not price.is_worth_it:
                raise _left(loops[0][0].repeated, str(price))
            whole = str(price)
        units: list[Unit] = [Loop(steps, kept, whole) for steps, kept in loops]
        units += [
            Pack(each, str(weighed.prices[key]) if weighed else "") for key, each in copies.items()
        ]
        units += map(Single, alone)
        if not loops:
            _note_left(colouring, groups, reasons, self.least)
        if len(units) == len(colouring.nodes):
            raise NotBatchableError(f"no {self.least} copies can be batched")
        return _written(closed, units, self.least)

    def _why_not_packed(self, copies: Copies) -> str:
        """Return why alike nodes cannot become one equation on rows; empty if they can."""
        first, eqn = copies.body[0], copies.body[0].eqn
        if eqn.effects:
            return "has an effect"
        if copies.times < self.least:
            return f"fewer than {self.least}" if copies.times > 1 else "alone"
        made = [[node.outvars[j] for node in copies.nodes] for j in range(len(first.outvars))]
        reason = self._too_large([*copies.columns(), *made])
        if not reason and not (first.terms or reads_a_block(eqn)):
            reason = why_not_batched(eqn, reassociate=self.reassociate)
        return reason or ("" if is_proven(copies, as_loop=False) else "copies differ")

    def _too_large(self, columns: Sequence[Sequence[Any]]) -> str:
        """Return why values are not put side by side; empty if they are small enough."""
        most = max(map(nbytes, columns), default=0)
        return f"would take {most} bytes, more than {self.memory}" if most > self.memory else ""


@dataclass(frozen=True)
class VmapRepeats(_Repetitions):
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

    joins = True

    def _together(self, closed: ClosedJaxpr, identities: Identities) -> ClosedJaxpr:
        once = deduplicated(closed, identities)
        colouring = Colouring(once.jaxpr, identities, self.reassociate)
        colouring.colour()
        return self._emitted(once, colouring, lambda: Kernels(colouring.nodes, once.jaxpr.outvars))


@dataclass(frozen=True)
class ScanRepeats(_Repetitions):
    """Replace the steps of recurrences that are written out one by one by ``scan`` loops.

    A model of a time series, or a network of many layers, that is written with a Python loop gives
    XLA one copy of the loop's body for each step. This pass finds steps that do the same to the
    results of the step before, and runs them as a loop. First and last steps that differ stay. What
    the steps compute without waiting for each other is batched, as by `VmapRepeats`.

    Attributes
    ----------
    least : int
        The number of steps from which on they become a loop.
    memory : int
        The number of bytes that one array of rows may take, such as the values of a variable in all
        steps.
    reassociate : bool
        Whether whole repetitions may be added in another order, which changes rounding.
        Parentheses stay, and what one repetition contributes to a sum is combined first.
        Otherwise, matrix products, sums over axes and the like are not batched.
    cost : CostModel, optional
        By which what becomes a loop, or is batched, must take less time, to compile and to call,
        than as it is written. `jaxprgen.passes.default` sets it.
    """

    least: int = 12

    def _together(self, closed: ClosedJaxpr, identities: Identities) -> ClosedJaxpr:
        copies = VmapRepeats(memory=self.memory, reassociate=self.reassociate, cost=self.cost)
        depths = _depths(closed.jaxpr, CHAINS if self.reassociate else ())
        deepest = max(depths, default=0)
        if deepest < self.least:
            why = f"no {self.least} equations wait for each other, only {deepest}"
            raise NotBatchableError(why)
        places = zip(closed.jaxpr.eqns, depths, strict=True)
        deep = Counter([(eqn.primitive, depth) for eqn, depth in places if depth >= self.least])
        if 2 * sum(n for n in deep.values() if n >= copies.least) > deep.total():
            closed = copies(closed)  # Most recurrences run side by side.
        once = deduplicated(closed, identities)
        colouring = Colouring(once.jaxpr, identities, self.reassociate, steps=True)
        kernels = functools.cache(lambda: Kernels(colouring.nodes, once.jaxpr.outvars))
        reasons = [NotBatchableError(_NOT_FOUND)]
        for rounds in _ROUNDS:
            cut = cuts(colouring, rounds, self.least)
            if not cut:
                break  # What differs within few equations also differs within more.
            colouring.colour(cut)
            try:
                loops = self._loops(once.jaxpr, colouring, cut)
                try:
                    return self._emitted(once, colouring, kernels, loops)
                except WaitingError:
                    colouring.tell_apart(stages(colouring, [steps for steps, _ in loops]))
                    return self._emitted(once, colouring, kernels, loops)
            except NotBatchableError as error:
                reasons.append(error)
        raise max(reasons, key=lambda error: error.repeated[1])

    def _loops(
        self, jaxpr: Jaxpr, colouring: Colouring, cut: dict[int, int]
    ) -> list[tuple[Copies, Kept]]:
        """Return the steps of recurrences, with their results that are read elsewhere."""
        large = {k: g for k, g in grouped(colouring.nodes).items() if len(g) >= self.least}
        found = [steps for steps in steps_of(colouring, large, cut) if steps.times >= self.least]
        if all(map(_fuses, found)):
            raise _left(found[0].repeated, _FUSES) if found else NotBatchableError(_NOT_FOUND)
        readers: dict[Any, list[int]] = {}
        for node in colouring.nodes:
            for x in node.operands:
                if type(x) is Var:
                    readers.setdefault(x, []).append(id(node))
        for x in jaxpr.outvars:
            if type(x) is Var:
                readers.setdefault(x, []).append(-1)
        loops = [(steps, steps.kept(readers)) for steps in found]
        for steps, kept in loops:
            reason = self._too_large([*steps.columns(), *steps.results(kept)])
            if reason:
                raise _left(steps.repeated, reason)
        return loops


def grouped(nodes: Sequence[Node]) -> dict[int, list[Node]]:
    """Return nodes by their colours."""
    groups: dict[int, list[Node]] = {}
    for node in nodes:
        groups.setdefault(node.colour, []).append(node)
    return groups


def _depths(jaxpr: Jaxpr, chains: Collection[str]) -> list[int]:
    """Return how many equations wait for each other before each one; a chain counts once."""
    uses = uses_of(jaxpr.eqns, ())
    found: list[int] = []
    depths: dict[Any, int] = {}
    for eqn in jaxpr.eqns:
        name, depth = eqn.primitive.name, 0
        for i, x in enumerate(eqn.invars):
            if type(x) is Var:
                waits = name not in chains or uses[x] > 1 or (i and name == "sub")
                depth = max(depth, depths.get(x, 0) + bool(waits))
        found.append(depth)
        depths.update(dict.fromkeys(eqn.outvars, depth))
    return found


def _left(repeated: tuple[Sequence[JaxprEqn], int], why: str) -> NotBatchableError:
    """Return the error that says why equations that repeat stay as they are."""
    error = NotBatchableError(why)
    error.repeated = repeated
    return error


def _note_left(
    colouring: Colouring, groups: Mapping[int, list[Node]], reasons: Mapping[int, str], least: int
) -> None:
    """Note why groups of alike nodes stay as they are."""
    notes = listener()
    if notes is None:
        return
    few: dict[Any, list[list[Node]]] = {}
    for key, reason in reasons.items():
        nodes = groups[key]
        eqn = nodes[0].eqn
        if reason and (len(nodes) > 1 or eqn.effects):
            notes.leave([eqn], len(nodes), reason)
        if len(nodes) < least and not eqn.effects:
            few.setdefault((eqn.primitive, _jax.frame_of(eqn.source_info)), []).append(nodes)
    for kinds in few.values():
        times = sum(map(len, kinds))
        if times < least or len(kinds) < 2:
            continue
        # In a recurrence, each step is of another kind, because it reads the one before.
        apart = _difference(colouring, kinds[0][0], kinds[1][0], sources=times >= 2 * len(kinds))
        if apart:
            notes.leave([kinds[0][0].eqn], times, f"of {len(kinds)} kinds, such as {apart}")


def _difference(colouring: Colouring, one: Node, other: Node, sources: bool) -> str:
    """Return what keeps apart two nodes of one primitive; with ``sources``, also what they read."""
    params, others = one.eqn.params, other.eqn.params
    operands = [*zip(one.operands, other.operands, strict=False)]
    pairs = [(x.aval.str_short(True), y.aval.str_short(True)) for x, y in operands]
    pairs += [(f"{k}={x}", f"{k}={others[k]}") for k, x in params.items() if k in others]
    if sources:
        pairs += [(_source(colouring, x), _source(colouring, y)) for x, y in operands]
    different = ((x, y) for x, y in pairs if x != y)
    x, y = next(different, ("", ""))
    return f"{visible(x, _LONGEST)} and {visible(y, _LONGEST)}" if x else ""


def _source(colouring: Colouring, x: Any) -> str:
    """Return what makes an operand."""
    if type(x) is not Var:
        return "a number"
    node = colouring.maker.get(x)
    return "an input" if node is None else f"a result of {colouring.nodes[node].eqn.primitive.name}"


def _fuses(steps: Copies) -> bool:
    """Return whether XLA makes one loop over elements of all steps, as they are."""
    return (
        steps.times * len(steps.body) <= _FUSED
        and all(atom_key(column[0]) == atom_key(column[1]) for column in steps.columns())
        and all(node.eqn.primitive.name in lax.ELEMENTWISE for node in steps.body)
    )


def _written(closed: ClosedJaxpr, units: Sequence[Unit], least: int) -> ClosedJaxpr:
    """Return a program that was written anew.

    Raises
    ------
    NotBatchableError
        A unit cannot be emitted, a mesh splits values, or too few equations would be saved.
    """
    packing = Packing(closed, least)
    if not packing.b.plain:
        raise NotBatchableError("values are split over a mesh")
    packing.write(units)
    found = packing.program(closed)
    saved = count_equations(closed) - count_equations(found)
    if saved < _SAVED * least:
        why = f"would save {max(saved, 0)} equations, fewer than {_SAVED * least}"
        raise NotBatchableError(why)
    notes = listener()
    if notes is not None:
        packing.note(notes)
    return found
