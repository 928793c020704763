"""Write a program anew, with packs in place of alike nodes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Literal, Var, identity
from jaxprgen.ir import Atom, Builder, loops
from jaxprgen.ir.describe import type_text
from jaxprgen.ir.redundancy import atom_key
from jaxprgen.ir.rewriting import with_equations
from jaxprgen.passes.batching import MaybeBatched, NotBatchableError
from jaxprgen.passes.copies import Copies, Kept, Read
from jaxprgen.passes.kernels import is_join
from jaxprgen.passes.packs import Packs, combined, emit_pack, emit_sum, joined
from jaxprgen.passes.repeat_notes import Found, Notes
from jaxprgen.passes.repeats import CHAINS, Node, reads_a_block


class WaitingError(NotBatchableError):
    """Raised when units wait for each other."""


class Unit:
    """Nodes that are emitted together.

    Attributes
    ----------
    nodes : sequence of Node
        The nodes, in the order of the program.
    repeated : tuple of (sequence of JaxprEqn, int)
        The equations of the first repetition, and how many repetitions there are.
    how : str
        What becomes of them, if they repeat: see `jaxprgen.passes.repeat_notes.Repeat`.
    carried : sequence of str
        The types that a loop carries.
    price : str
        What this costs beside the program as written, if that was weighed.
    """

    how = "batched"
    carried: Sequence[str] = ()

    def __init__(
        self, nodes: Sequence[Node], repeated: tuple[Sequence[JaxprEqn], int], price: str = ""
    ) -> None:
        self.nodes = nodes
        self.repeated = repeated
        self.price = price

    def emit(self, packing: Packing) -> None:
        """Emit the nodes."""
        raise NotImplementedError


class Packing:
    """Writes a program anew.

    Parameters
    ----------
    closed : ClosedJaxpr
        The program.
    least : int
        The number of rows or terms from which on they are read as a whole.

    Attributes
    ----------
    b : Builder
        The builder of new equations.
    packs : Packs
        The packs so far.
    """

    def __init__(self, closed: ClosedJaxpr, least: int) -> None:
        constants = zip(closed.jaxpr.constvars, closed.consts, strict=True)
        self.b = Builder([v.aval for v in closed.jaxpr.invars])  # Sets `plain` by the types.
        self.packs = Packs(self.b, {v: x for v, x in constants if _jax.is_readable(x)})
        self.least = least
        self._result: list[JaxprEqn] = []
        self._parts: list[tuple[Unit, int, int]] = []

    def write(self, units: Sequence[Unit]) -> None:
        """Write all nodes of the program, in units.

        Raises
        ------
        NotBatchableError
            The rows of a unit differ too much.
        WaitingError
            Units wait for each other.
        """
        for unit in _in_order(units):
            self.b.source_info = unit.nodes[0].eqn.source_info
            start = len(self._result)
            try:
                unit.emit(self)
            except NotBatchableError as error:
                error.repeated = unit.repeated
                raise
            self._flush()
            self._parts.append((unit, start, len(self._result)))
        if len(self._parts) < len(units):
            raise WaitingError("batches would wait for each other")

    def program(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program that was written.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program before. Rows that it returns keep the lines that compute them.
        """
        outputs: list[Any] = closed.jaxpr.outvars
        packed = {x for x in outputs if x in self.packs}
        nodes = (node for unit, *_ in self._parts for node in unit.nodes) if packed else ()
        lines = {v: n.eqn.source_info for n in nodes for v in n.outvars if v in packed}
        if len(packed) >= self.least:
            self.packs.hide_places(packed)
        found: list[Any] = []
        for x in outputs:
            self.b.source_info = lines[x] if x in self.packs else self.b.source_info
            found.append(self.packs.single(x))
        self._flush()
        return with_equations(closed, self._result, found, dict(self.b.constants))

    def note(self, notes: Notes) -> None:
        """Note what became of repeated nodes."""
        for unit, start, stop in self._parts:
            first, times = unit.repeated
            if times > 1:
                repeat = notes.described(unit.how, first, times, unit.carried, unit.price)
                bound = [v for n in unit.nodes for e in reversed(n.equations) for v in e.outvars]
                notes.found.append(Found(repeat, bound, self._result[start:stop]))

    def keep(self, equations: Sequence[JaxprEqn]) -> None:
        """Append equations of the program, which read rows of packs by themselves."""
        for eqn in equations:
            if any(x in self.packs for x in eqn.invars):
                eqn = eqn.replace(invars=[self.packs.single(x) for x in eqn.invars])
                self._flush()
            self._result.append(eqn)

    def _flush(self) -> None:
        self._result += self.b.take()


class Single(Unit):
    """A node that stays alone; rows that it reads as a whole count as repetitions."""

    def __init__(self, node: Node) -> None:
        super().__init__([node], ([node.eqn], 1))

    def emit(self, packing: Packing) -> None:
        """Emit the node; sums and joins use rows of packs as a whole."""
        (node,) = self.nodes
        eqn, found = node.eqn, None
        if node.terms:
            found = emit_sum(packing.packs, node, packing.least)
        elif is_join(node):
            found = joined(packing.packs, eqn, packing.least)
        if found is None:
            packing.keep(node.equations)
        else:
            packing.packs.add([(eqn.outvars[0], 0)], MaybeBatched(found, False))
            self.repeated = [eqn], len(node.operands)


class Pack(Unit):
    """Alike nodes that become one equation."""

    def __init__(self, copies: Copies, price: str) -> None:
        super().__init__(copies.nodes, copies.repeated, price)

    def emit(self, packing: Packing) -> None:
        """Emit the nodes as one, in the order of the rows that they read."""
        packs = packing.packs
        rows: dict[Any, list[Node]] = {}
        for node in self._ordered(packs):
            rows.setdefault(_identity(packs, node), []).append(node)
        distinct = [nodes[0] for nodes in rows.values()]
        lanes = [(i, node) for i, nodes in enumerate(rows.values()) for node in nodes]
        for j, values in enumerate(emit_pack(packs, distinct)):
            packs.add([(node.outvars[j], i) for i, node in lanes], values)

    def _ordered(self, packs: Packs) -> Sequence[Node]:
        nodes = self.nodes
        if reads_a_block(nodes[0].eqn):
            return sorted(nodes, key=lambda node: node.eqn.params["start_indices"])
        for i in range(0 if nodes[0].terms else len(nodes[0].operands)):
            column = [node.operands[i] for node in nodes]
            if packs.are_packed(column) and len({packs.lane(x) for x in column}) > 1:
                return sorted(nodes, key=lambda node: packs.lane(node.operands[i]))
        return nodes


def _identity(packs: Packs, node: Node) -> Any:
    """Return a key that is the same for nodes that compute the same."""
    if node.terms:
        return id(node)
    return tuple(map(packs.key, node.operands)), node.eqn.params.get("start_indices")


class Loop(Unit):
    """The steps of one recurrence, which become a ``scan``.

    Its operands are *shared* by all steps, *carried* from step to step, or read in *rows*, one per
    step. Each has a variable of the step.
    """

    how = "looped"

    def __init__(self, steps: Copies, kept: Kept, price: str) -> None:
        super().__init__(steps.nodes, steps.repeated, price)
        self._steps = steps
        self._kept = kept
        self._inputs: dict[bool, dict[int, tuple[Var, Atom]]] = {False: {}, True: {}}
        self._carries: dict[Any, tuple[Read, dict[Any, Atom]]] = {}

    def _operand(self, packs: Packs, i: int, k: int) -> Any:
        """Return where a step finds an operand: an atom, or a `Read` from the same step."""
        read = self._steps.reads[i][k]
        if read is not None and not read.lag:
            return read
        atoms = [row[i].operands[k] for row in self._steps.rows]
        if read is not None:
            first = atoms[: read.lag]
            key = read, *map(atom_key, first)
            if key not in self._carries:
                starts = map(packs.single, first)
                self._carries[key] = read, {Var(x.aval): x for x in starts}
            return next(iter(self._carries[key][1]))
        column = packs.column(atoms)
        if isinstance(column.atom, Literal):
            return column.atom
        aval: Any = column.atom.aval
        v = Var(_jax.slice_type(aval) if column.is_batched else aval)
        inputs = self._inputs[column.is_batched]
        return inputs.setdefault(identity(column.atom), (v, column.atom))[0]

    def emit(self, packing: Packing) -> None:
        """Emit the loop, and record the results that are read outside of it."""
        packs, n, kept = packing.packs, self._steps.times, self._kept
        operands = [
            [self._operand(packs, i, k) for k in range(len(node.operands))]
            for i, node in enumerate(self._steps.body)
        ]
        starts = {v: x for _, own in self._carries.values() for v, x in own.items()}
        self.carried = [type_text(v.aval) for v in starts]
        inner = packs.b.nested(())
        results = self._step(inner, operands)
        after: dict[Any, Atom] = {}
        final: dict[tuple[int, int], Any] = {}
        for read, own in self._carries.values():
            after |= dict(zip(own, [*[*own][1:], results[read.node][read.result]], strict=True))
            final[read.node, read.result] = [*own][-1]
        stacked = [key for key, steps in kept.items() if [*steps] != [n - 1] or key not in final]
        shared, arrays = (dict(self._inputs[own].values()) for own in (False, True))
        rows = [results[i][j] for i, j in stacked]
        equations = inner.equations_from(0)
        loop = loops.Loop(shared, starts, arrays, equations, after, rows, n, name="step")
        out = loop.emit(packs.b)
        ends = dict(zip(starts, out, strict=False))
        found = dict(zip(stacked, out[len(ends) :], strict=True))
        for i, j in kept:
            lanes = [(row[i].outvars[j], t) for t, row in enumerate(self._steps.rows)]
            if (i, j) in found:
                packs.add(lanes, MaybeBatched(found[i, j], True))
            else:
                packs.add(lanes[-1:], MaybeBatched(ends[final[i, j]], False))

    def _step(self, inner: Builder, operands: Sequence[Sequence[Any]]) -> list[list[Atom]]:
        """Emit the nodes of one step, and return their results."""
        results: list[list[Atom]] = []
        for node, places in zip(self._steps.body, operands, strict=True):
            read = [results[x.node][x.result] if type(x) is Read else x for x in places]
            inner.source_info = _jax.unnamed(node.eqn.source_info)
            results.append(_emit_alone(inner, node, read))
        return results


def _emit_alone(b: Builder, node: Node, operands: Sequence[Any]) -> list[Atom]:
    """Emit a node on other operands."""
    eqn = node.eqn
    if not node.terms:
        made = b.copy(eqn.replace(invars=operands), {x: x for x in operands if type(x) is Var})
        return [made[v] for v in eqn.outvars]
    parts = [(term.sign, x) for term, x in zip(node.terms, operands, strict=True)]
    return [combined(b, parts, CHAINS[eqn.primitive.name])]


def _in_order(units: Sequence[Unit]) -> Iterable[Unit]:
    """Yield units after those that they read, otherwise in the order of the program.

    Effects keep their order. Units that wait for each other are left out.
    """
    places = {unit.nodes[0].place: unit for unit in units}
    owner = {v: place for place, u in places.items() for node in u.nodes for v in node.outvars}
    waits: dict[int, int] = {}
    after: dict[int, list[int]] = {}
    effect = None
    for place, unit in places.items():
        read = {owner.get(x) for n in unit.nodes for x in n.operands if type(x) is Var}
        if unit.nodes[0].eqn.effects:
            read.add(effect)
            effect = place
        before = read - {None, place}
        waits[place] = len(before)
        for other in before:
            after.setdefault(other, []).append(place)  # type: ignore[arg-type]
    ready = [place for place, count in waits.items() if not count]
    heapq.heapify(ready)
    while ready:
        place = heapq.heappop(ready)
        yield places[place]
        for other in after.get(place, ()):
            waits[other] -= 1
            if not waits[other]:
                heapq.heappush(ready, other)
