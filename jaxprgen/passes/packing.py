"""Write a program anew, with packs in place of alike nodes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.passes.batching import NotBatchableError, why_not_batched
from jaxprgen.passes.inlining import as_weak_as
from jaxprgen.passes.pack_rules import emit_pack, emit_sum, joined
from jaxprgen.passes.packs import Packs
from jaxprgen.passes.repeat_notes import Found, Notes
from jaxprgen.passes.repeats import Node, reads_a_block


class Unit(Protocol):
    """Nodes that are emitted together.

    Attributes
    ----------
    how : str
        What becomes of them, if they repeat: see `jaxprgen.passes.repeat_notes.Repeat`.
    carried : sequence of str
        The types that a loop carries.
    price : str
        What this costs beside the program as written, if that was weighed.
    """

    how: str
    carried: Sequence[str]
    price: str

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes, in the order of the program."""
        ...

    @property
    def repeated(self) -> tuple[Sequence[JaxprEqn], int]:
        """The equations of the first repetition, and how many repetitions there are."""
        ...

    def emit(self, packing: Packing) -> None:
        """Emit the nodes."""
        ...


def why_not_packed(nodes: Sequence[Node], least: int, memory: int, reassociate: bool) -> str:
    """Return why alike nodes cannot become one equation on rows; empty if they can."""
    eqn = nodes[0].eqn
    if eqn.effects:
        return "has an effect"
    if len(nodes) < least:
        return f"fewer than {least}" if len(nodes) > 1 else "alone"
    columns = zip(*(node.operands for node in nodes), strict=False)
    made = sum(_jax.nbytes(v.aval) for v in eqn.outvars) * len(nodes)
    nbytes = max([made, *map(bytes_of, columns)])
    if nbytes > memory:
        return too_large(nbytes, memory)
    if any(term.pad is not None for term in nodes[0].terms):
        return "terms padded with zeros are added up one by one"
    if nodes[0].terms or reads_a_block(eqn):
        return ""
    return why_not_batched(eqn, reassociate=reassociate)


def bytes_of(column: Sequence[Any]) -> float:
    """Return the bytes that values take as rows: none if all are one variable, or numbers.

    Values of symbolic sizes take infinitely many.
    """
    first = column[0]
    if type(first) is not Var or all(x is first for x in column):
        return 0
    return _jax.nbytes(first.aval) * len(column)


def too_large(nbytes: float, memory: int) -> str:
    """Return why values are not put side by side."""
    return f"would take {nbytes} bytes, more than {memory}"


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
        self._emitted = 0
        self._bound: set[Any] = set()
        self._names: dict[Any, Any] = {}
        self._made: set[Any] = set()
        self._parts: list[tuple[Unit, int, int]] = []

    def equations(self, units: Sequence[Unit], outputs: Sequence[Any]) -> list[JaxprEqn]:
        """Return the equations of the program.

        Parameters
        ----------
        units : sequence of Unit
            All nodes of the program, in units.
        outputs : sequence of atoms
            The outputs of the program.

        Raises
        ------
        NotBatchableError
            The rows of a unit differ too much, or units wait for each other.
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
            raise NotBatchableError("batches would wait for each other")
        self._bind_outputs(units, outputs)
        self._result = list(map(self._renamed, self._result))
        return self._result

    def note(self, notes: Notes) -> None:
        """Note what became of repeated nodes."""
        for unit, start, stop in self._parts:
            first, times = unit.repeated
            if times > 1:
                repeat = notes.described(unit.how, first, times, unit.carried, unit.price)
                bound = [v for n in unit.nodes for e in reversed(n.equations) for v in e.outvars]
                notes.found.append(Found(repeat, bound, self._result[start:stop]))

    def _bind_outputs(self, units: Iterable[Unit], outputs: Sequence[Any]) -> None:
        """Bind the outputs of the program at the lines that compute them."""
        packed = {x for x in outputs if x in self.packs}
        nodes = (node for unit in units for node in unit.nodes) if packed else ()
        lines = {v: n.eqn.source_info for n in nodes for v in n.outvars if v in packed}
        if len(packed) >= self.least:
            self.packs.hide_places(packed)
        for x in outputs:
            if x in self.packs:
                self.b.source_info = lines.get(x, self.b.source_info)
            self.bind_all([x])
        self._flush()

    def _renamed(self, eqn: JaxprEqn) -> JaxprEqn:
        names = self._names
        if names.keys().isdisjoint([x for x in (*eqn.invars, *eqn.outvars) if type(x) is Var]):
            return eqn
        return eqn.replace(
            invars=[names.get(x, x) if type(x) is Var else x for x in eqn.invars],
            outvars=[names.get(v, v) for v in eqn.outvars],
        )

    def keep(self, equations: Sequence[JaxprEqn]) -> None:
        """Append equations of the program as they are."""
        self.bind_all(x for eqn in equations for x in eqn.invars)
        self._flush()
        self._result += equations

    def bind_all(self, atoms: Iterable[Any]) -> None:
        """Bind variables whose values are rows of packs to these rows."""
        for x in atoms:
            if x in self.packs and x not in self._bound:
                self._bound.add(x)
                self.bind(x, self.packs.single(x))

    def bind(self, v: Any, x: Atom) -> None:
        """Bind a variable of the program to a value that the builder has emitted."""
        x = as_weak_as(self.b, x, v)
        self._flush()
        is_new = type(x) is Var and x in self._made and x not in self._names
        if not is_new:
            x = self.b.bind_multiple(_jax.primitive("copy"), [x], {})[0]
            self._flush()
        self._names[x] = v

    def _flush(self) -> None:
        new = self.b.equations_from(self._emitted)
        self._emitted += len(new)
        self._made.update(v for eqn in new for v in eqn.outvars)
        self._result += new


class Single:
    """A node that stays alone; rows that it reads as a whole count as repetitions."""

    how = "batched"
    carried: Sequence[str] = ()
    price = ""

    def __init__(self, node: Node) -> None:
        self.nodes: Sequence[Node] = [node]
        self._times = 1

    @property
    def repeated(self) -> tuple[Sequence[JaxprEqn], int]:
        """See `Unit`."""
        return [self.nodes[0].eqn], self._times

    def emit(self, packing: Packing) -> None:
        """Emit the node; sums and joins use rows of packs as a whole."""
        (node,) = self.nodes
        eqn, found = node.eqn, None
        name = eqn.primitive.name
        if node.terms:
            found = emit_sum(packing.packs, node, packing.least)
        elif name in ("concatenate", "stack"):
            found = joined(packing.packs, eqn, packing.least)
        if found is None:
            packing.keep(node.equations)
        else:
            packing.bind(eqn.outvars[0], found)
            self._times = len(node.operands)


class Pack:
    """Alike nodes that become one equation."""

    how = "batched"
    carried: Sequence[str] = ()
    price = ""

    def __init__(self, nodes: Sequence[Node], price: str) -> None:
        self.nodes = nodes
        self.price = price

    @property
    def repeated(self) -> tuple[Sequence[JaxprEqn], int]:
        """See `Unit`."""
        return [self.nodes[0].eqn], len(self.nodes)

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
