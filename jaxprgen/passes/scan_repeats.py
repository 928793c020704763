"""Replace the written-out steps of recurrences by loops."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, identity
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.describe import type_text
from jaxprgen.ir.redundancy import literal_key
from jaxprgen.ir.rewriting import each_program
from jaxprgen.passes.batching import MaybeBatched, NotBatchableError
from jaxprgen.passes.choices import Price, Stacked, is_kernel, price, prices, stacked
from jaxprgen.passes.costs import CostModel, elements, total, work_of
from jaxprgen.passes.elimination import EliminateCommonSubexpressions
from jaxprgen.passes.meaning import Meaning, if_reassociated
from jaxprgen.passes.pack_rules import combined
from jaxprgen.passes.packing import (
    Pack,
    Packing,
    Single,
    Unit,
    bytes_of,
    too_large,
    why_not_packed,
)
from jaxprgen.passes.recurrences import Read, Steps, cuts, steps_of
from jaxprgen.passes.repeat_look import why_no_recurrence
from jaxprgen.passes.repeats import CHAINS, Alike, Node
from jaxprgen.passes.vmap_repeats import VmapRepeats, joined, packed, unless_left_alone

_ROUNDS = (3, 8, 20)
"""How far equations are compared to guess what recurs, in turn."""


@dataclass(frozen=True)
class ScanRepeats:
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
    memory: int = 2**26
    reassociate: bool = False
    cost: CostModel | None = None

    meaning = if_reassociated(Meaning.SAME_TERMS)

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program with loops, or the given one if it has no recurrence.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return each_program(closed, self._looped)

    def _looped(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        _, program = joined(closed, self.least, self.reassociate)
        found = unless_left_alone(self._found, program, "ScanRepeats")
        return closed if found is program else found

    def _found(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        if _fuses_as_a_whole(closed.jaxpr, self.least):
            raise NotBatchableError(_FUSES)
        copies = VmapRepeats(memory=self.memory, reassociate=self.reassociate, cost=self.cost)
        reason, side_by_side = why_no_recurrence(
            closed.jaxpr, self.least, copies.least, self.reassociate
        )
        if reason:
            raise NotBatchableError(reason)
        once = EliminateCommonSubexpressions()(copies(closed) if side_by_side else closed)
        alike = Alike(once.jaxpr, self.reassociate)
        reasons: list[NotBatchableError] = []
        for rounds in _ROUNDS:
            cut = cuts(alike, rounds, self.least)
            if not cut:
                break  # Those that differ close by differ from afar, too.
            alike.colour(cut)
            try:
                return packed(once, self._units(alike, cut, once), self.least)
            except NotBatchableError as error:
                reasons.append(error)
        reasons = reasons or [NotBatchableError(_NOT_FOUND)]
        raise max(reasons, key=lambda error: error.repeated[1])

    def _units(self, alike: Alike, cut: dict[int, int], closed: ClosedJaxpr) -> list[Unit]:
        groups: dict[int, list[Node]] = {}
        for node in alike.nodes:
            groups.setdefault(node.colour, []).append(node)
        large = {key: nodes for key, nodes in groups.items() if len(nodes) >= self.least}
        loops = [s for s in steps_of(alike, large, cut) if len(s.rows) >= self.least]
        if all(map(_fuses, loops)):
            if not loops:
                raise NotBatchableError(_NOT_FOUND)
            raise _left(_repeated(loops[0]), _FUSES)
        inside = {id(node) for steps in loops for row in steps.rows for node in row}
        readers: dict[Any, list[int]] = {}
        for node in alike.nodes:
            for x in node.operands:
                if type(x) is Var:
                    readers.setdefault(x, []).append(id(node))
        for x in closed.jaxpr.outvars:
            if type(x) is Var:
                readers.setdefault(x, []).append(-1)
        emitted = [Loop(steps, readers) for steps in loops]
        for loop in emitted:
            if loop.nbytes > self.memory:
                raise _left(loop.repeated, too_large(loop.nbytes, self.memory))
        units: list[Unit] = [*emitted]
        options = self.least, self.memory, self.reassociate
        rest = {
            key: [node for node in nodes if id(node) not in inside] for key, nodes in groups.items()
        }
        possible = {
            key: nodes
            for key, nodes in groups.items()
            if len(rest[key]) == len(nodes) and not why_not_packed(nodes, *options)
        }
        weighed: dict[int, Price] = {}
        if self.cost is not None:
            weighed = prices(closed.jaxpr, alike, possible, inside, self.cost)
            possible = {
                key: nodes
                for key, nodes in possible.items()
                if key not in weighed or weighed[key].is_worth_it
            }
            others = (node for key, nodes in rest.items() if key not in possible for node in nodes)
            apart = {id(node) for node in others if is_kernel(node)}
            whole = _price(self.cost, emitted, possible, apart, alike, closed.jaxpr)
            if not whole.is_worth_it:
                raise _left(emitted[0].repeated, str(whole))
            for loop in emitted:
                loop.price = str(whole)
        for key, nodes in rest.items():
            if key in possible:
                units.append(Pack(nodes, str(weighed.get(key, ""))))
            else:
                units += [Single(node) for node in nodes]
        return units


def _price(
    model: CostModel,
    loops: Sequence[Loop],
    packed: Mapping[int, Sequence[Node]],
    apart: Set[int],
    alike: Alike,
    jaxpr: Jaxpr,
) -> Price:
    """Return what it costs to make loops of all steps."""
    c, extra, compiling = model.constants, 0.0, 0.0
    together = {v for nodes in packed.values() for node in nodes for v in node.outvars}
    together.update(v for loop in loops for node in loop.nodes for v in node.outvars)
    together.update(jaxpr.constvars)
    for loop in loops:
        moved, work = loop.stacked(together, {-1, *apart}, alike), work_of(loop.repeated[0])
        n = loop.repeated[1]
        step = c.step - c.kernel * work.kernels + c.element * loop.written
        extra += moved.seconds(model) + n * step
        looped = total([work, moved.work])
        compiling += model.compiling(work.times(n)) - model.compiling(looped)
    return price(model, extra, compiling)


def _left(repeated: tuple[Sequence[JaxprEqn], int], why: str) -> NotBatchableError:
    """Return the error that says why equations that repeat stay as they are."""
    error = NotBatchableError(why)
    error.repeated = repeated
    return error


def _fuses_as_a_whole(jaxpr: Jaxpr, least: int) -> bool:
    """Return whether XLA fuses all of a program, in which steps have no data of their own."""
    if not least <= len(jaxpr.eqns) <= _FUSED:
        return False
    if any(eqn.primitive.name not in lax.ELEMENTWISE for eqn in jaxpr.eqns):
        return False
    made = {v for eqn in jaxpr.eqns for v in eqn.outvars}
    read = {x if type(x) is Var else literal_key(x) for eqn in jaxpr.eqns for x in eqn.invars}
    return len(read - made) < least


def _fuses(steps: Steps) -> bool:
    """Return whether XLA makes one loop over elements of all steps, as they are."""
    if len(steps.rows) * len(steps.rows[0]) > _FUSED:
        return False
    row, following = steps.rows[:2]
    shared = [
        x is y or (type(x) is not Var and literal_key(x) == literal_key(y))
        for i, node in enumerate(row)
        for k, (x, y) in enumerate(zip(node.operands, following[i].operands, strict=True))
        if steps.reads[i][k] is None
    ]
    return all(shared) and all(node.eqn.primitive.name in lax.ELEMENTWISE for node in row)


_FUSED = 2000
"""How many elementwise equations XLA fuses without the help of a loop."""
_FUSES = "a chain so short that XLA fuses it by itself"
_NOT_FOUND = "no recurrence was found"


def _repeated(steps: Steps) -> tuple[Sequence[JaxprEqn], int]:
    return [node.eqn for node in steps.rows[0]], len(steps.rows)


class Loop:
    """The steps of one recurrence, which become a ``scan``.

    Parameters
    ----------
    steps : Steps
        The steps.
    readers : dict
        For each variable, what reads it: nodes by identity, and -1 for the outputs of the program.
    """

    how = "looped"

    def __init__(self, steps: Steps, readers: dict[Any, list[int]]) -> None:
        self._steps = steps
        self._readers = readers
        self.carried: Sequence[str] = ()
        self.price = ""
        self.nodes = [node for row in steps.rows for node in row]
        own = {id(node) for node in self.nodes}
        self._used = {
            (i, j): found
            for i, node in enumerate(steps.rows[0])
            for j in range(len(node.outvars))
            if (
                found := [
                    t
                    for t, row in enumerate(steps.rows)
                    if not own.issuperset(readers.get(row[i].outvars[j], ()))
                ]
            )
        }

    @property
    def repeated(self) -> tuple[Sequence[JaxprEqn], int]:
        """See `jaxprgen.passes.packing.Unit`."""
        return _repeated(self._steps)

    @property
    def nbytes(self) -> float:
        """The bytes of the largest array that has one row for each step."""
        rows, reads = self._steps
        read = [
            [row[i].operands[k] for row in rows]
            for i, node in enumerate(rows[0])
            for k in range(len(node.operands))
            if reads[i][k] is None
        ]
        made = [[row[i].outvars[j] for row in rows] for (i, j), t in self._used.items() if t[1:]]
        return max(map(bytes_of, [*read, *made]), default=0)

    @property
    def written(self) -> int:
        """The elements that each step writes though XLA would fuse what makes and reads them."""
        rows, reads = self._steps
        if any(map(is_kernel, rows[0])):
            return 0  # They are written for the kernel.
        carried = {(x.node, x.result) for xs in reads for x in xs if x is not None and x.lag}
        kept = {key for key, steps in self._used.items() if len(steps) > 1}
        return sum(elements(rows[0][i].outvars[j]) for i, j in carried | kept)

    def stacked(self, together: Collection[Any], apart: Set[int], alike: Alike) -> Stacked:
        """Return what the loop puts side by side, and what is taken apart after it.

        Parameters
        ----------
        together : collection of Var
            The variables whose values are rows of one array anyway, or known.
        apart : set of int
            The readers that need rows by themselves.
        alike : Alike
            The nodes of the program.
        """
        rows, reads = self._steps
        columns = (
            [row[i].operands[k] for row in rows]
            for i, node in enumerate(rows[0])
            for k in range(len(node.operands))
            if reads[i][k] is None
        )
        out: list[Any] = []
        for (i, j), steps in self._used.items():
            # As it is written, an output that no kernel computes is copied as well.
            readers = apart if is_kernel(rows[0][i]) else apart - {-1}
            each = [rows[t][i].outvars[j] for t in steps] if len(steps) > 1 else []
            out += [v for v in each if not readers.isdisjoint(self._readers[v])]
        return stacked(columns, together.__contains__, alike, out)

    def emit(self, packing: Packing) -> None:
        """Emit the loop."""
        emitter = _LoopEmitter(self._steps, packing)
        emitter.emit(self._used)
        carries = emitter.carries.values()
        self.carried = [type_text(x.aval) for _, atoms in carries for x in atoms]


class _LoopEmitter:
    """Emits one loop.

    Its operands are *shared* by all steps, *carried* from step to step, or read in *rows*, one per
    step.
    """

    def __init__(self, steps: Steps, packing: Packing) -> None:
        self.rows, self.reads = steps
        self.packing = packing
        self.b = packing.b
        self.shared: dict[Any, Atom] = {}
        self.arrays: dict[Any, Atom] = {}
        self.carries: dict[Any, tuple[Read, list[Atom]]] = {}
        self.operands = [
            [self._operand(i, k) for k in range(len(node.operands))]
            for i, node in enumerate(self.rows[0])
        ]

    def _operand(self, i: int, k: int) -> Any:
        """Return where a step finds an operand: a key of `shared`, `arrays` or `carries`, a
        literal, or a `Read` from the same step."""
        read, atoms = self.reads[i][k], [row[i].operands[k] for row in self.rows]
        if read is None:
            column = self.packing.packs.column(atoms)
            if isinstance(column.atom, Literal):
                return column.atom
            place = self.arrays if column.is_batched else self.shared
            key = column.is_batched, identity(column.atom)
            place[key] = column.atom
            return key
        if not read.lag:
            return read
        first = atoms[: read.lag]
        key = read, *[x if type(x) is Var else literal_key(x) for x in first]
        if key not in self.carries:
            packs = self.packing.packs
            self.carries[key] = read, [packs.single(x) if x in packs else x for x in first]
        return key

    def emit(self, used: dict[tuple[int, int], list[int]]) -> None:
        """Emit the loop, and record the results that are read outside of it."""
        b, n = self.b, len(self.rows)
        starts = [x for _, atoms in self.carries.values() for x in atoms]
        inner = b.nested(
            [
                *(x.aval for x in self.shared.values()),
                *(x.aval for x in starts),
                *(_jax.slice_type(x.aval) for x in self.arrays.values()),
            ]
        )
        given = iter(inner.inputs)
        env: dict[Any, Any] = {key: next(given) for key in self.shared}
        held = {key: [next(given) for _ in atoms] for key, (_, atoms) in self.carries.items()}
        env |= {key: values[0] for key, values in held.items()}
        env |= {key: next(given) for key in self.arrays}
        with inner:
            results = self._step(inner, env)
        ends = [
            x
            for key, (read, _) in self.carries.items()
            for x in (*held[key][1:], results[read.node][read.result])
        ]
        if [_plain(x) for x in ends] != [_plain(x) for x in starts]:
            raise NotBatchableError("A carry changes its type.")
        final = {
            (read.node, read.result): i + read.lag - 1
            for i, (read, _) in zip(_places(self.carries), self.carries.values(), strict=True)
        }
        stacked = [key for key, lanes in used.items() if lanes != [n - 1] or key not in final]
        program = inner.build([*ends, *(results[i][j] for i, j in stacked)], name="step")
        out = lax.scan(
            b,
            program,
            list(self.shared.values()),
            starts,
            list(self.arrays.values()),
            n,
            reverse=False,
            unroll=1,
        )
        for key in used:
            i, j = key
            if key in stacked:
                values = MaybeBatched(out[len(ends) + stacked.index(key)], True)
                lanes = [(row[i].outvars[j], t) for t, row in enumerate(self.rows)]
                self.packing.packs.add(lanes, values)
            else:
                self.packing.bind(self.rows[-1][i].outvars[j], out[final[key]])

    def _step(self, inner: Builder, env: dict[Any, Any]) -> list[list[Atom]]:
        """Emit the nodes of one step, and return their results."""
        results: list[list[Atom]] = []
        for i, (node, places) in enumerate(zip(self.rows[0], self.operands, strict=True)):
            operands: list[Any] = []
            for place in places:
                if type(place) is Read:
                    operands.append(results[place.node][place.result])
                else:
                    operands.append(env[place] if type(place) is tuple else place)
            inner.source_info = _jax.unnamed(node.eqn.source_info)
            results.append(self._emit_node(inner, i, operands))
        return results

    def _emit_node(self, inner: Builder, i: int, operands: list[Any]) -> list[Atom]:
        nodes = [row[i] for row in self.rows]
        first, eqn = nodes[0], nodes[0].eqn
        if first.terms:
            marks = [[(t.sign, t.pad and str(t.pad.params)) for t in n.terms] for n in nodes]
            if any(mark != marks[0] for mark in marks):
                raise NotBatchableError("The terms of steps differ.")
            parts: list[tuple[int, Atom]] = []
            for term, x in zip(first.terms, operands, strict=True):
                if term.pad is not None:
                    zero: Any = term.pad.invars[1]
                    x = lax.pad(inner, x, zero, term.pad.params["padding_config"])
                parts.append((term.sign, x))
            return [combined(inner, parts, CHAINS[eqn.primitive.name])]
        starts = (
            {n.eqn.params["start_indices"] for n in nodes} if eqn.primitive.name == "slice" else ()
        )
        if len(starts) > 1:
            raise NotBatchableError("The slices of steps differ.")
        alone = eqn.replace(invars=operands)
        made = inner.copy(alone, {x: x for x in operands if type(x) is Var})
        return [made[v] for v in eqn.outvars]


def _places(carries: dict[Any, tuple[Read, list[Atom]]]) -> list[int]:
    """Return where the values of each carry begin."""
    places: list[int] = []
    total = 0
    for _, atoms in carries.values():
        places.append(total)
        total += len(atoms)
    return places


def _plain(x: Atom) -> Any:
    return x.aval.shape, x.aval.dtype, x.aval.weak_type
