"""Weigh what repetitions cost, batched or in a loop, beside what they cost as written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprgen import _jax
from jaxprgen._jax import Jaxpr, Var
from jaxprgen.passes.copies import Copies, Kept, nbytes
from jaxprgen.passes.costs import CostModel, Work, elements, kernel_starts, total
from jaxprgen.passes.kernels import Kernels, is_join, is_kernel
from jaxprgen.passes.recurrences import connected
from jaxprgen.passes.repeats import Colouring, Node

_LOOP = 3
"""Kernels that a loop adds: they count its steps and copy what it carries."""


class Price(NamedTuple):
    """What it costs to batch something, or to make a loop of it, beside leaving it as written.

    Attributes
    ----------
    calls : int
        How often the program is called.
    extra : float
        By how much these calls take longer, in seconds.
    compiling : float
        By how much compiling takes less.
    """

    calls: int
    extra: float
    compiling: float

    @property
    def is_worth_it(self) -> bool:
        """Whether the whole wait gets no longer."""
        return self.extra <= self.compiling

    def __str__(self) -> str:
        take = "take" if self.is_worth_it else "would take"
        calls, compiling = (_difference(x) for x in (-self.extra, self.compiling))
        return f"{self.calls} calls {take} {calls}, compiling {compiling}"


def _difference(saved: float) -> str:
    return f"{abs(saved):.2g} s {'less' if saved >= 0 else 'longer'}"


class Stacked(NamedTuple):
    """What is put side by side, and taken apart, for a computation of all rows.

    Attributes
    ----------
    columns, values_in : int
        The arrays of values that are put side by side, and how many values these are.
    elements_in : int
        The elements that go in and that XLA would fuse with what reads them.
    nbytes_in : float
        The bytes of all others that go in.
    rows_out : int
        The rows that are needed apart.
    nbytes_out : float
        Their bytes.
    """

    columns: int
    values_in: int
    elements_in: int
    nbytes_in: float
    rows_out: int
    nbytes_out: float

    def seconds(self, model: CostModel) -> float:
        """Return the time of a call that this takes."""
        c = model.constants
        out = c.row_out * self.rows_out + c.byte_out * self.nbytes_out
        return c.element * self.elements_in + c.byte_in * self.nbytes_in + out

    @property
    def work(self) -> Work:
        """What is compiled to put values side by side."""
        return Work(self.columns, 2 * self.values_in)


def taken_apart(rows: int) -> Work:
    """Return the work to take rows out of arrays: XLA compiles a kernel for each place."""
    return Work(rows, 2 * rows)


def stacked(
    columns: Iterable[Sequence[Any]],
    together: Callable[[Any], bool],
    colouring: Colouring,
    out: Sequence[Any],
) -> Stacked:
    """Return what is put side by side, as columns of operands, and what is taken apart.

    Parameters
    ----------
    columns : iterable of sequence of atoms
        The operands of alike nodes.
    together : callable
        ``together(x)`` says whether a value is a row of a pack already, or known.
    colouring : Colouring
        The nodes of the program.
    out : sequence of Var
        The variables that are needed apart.
    """
    found: dict[frozenset[Any], None] = {}
    for column in columns:
        apart = frozenset(x for x in column if type(x) is Var and not together(x))
        if len(apart) > 1:
            found[apart] = None
    fused = nbytes = 0.0
    for apart in found:
        for x in apart:
            made = colouring.maker.get(x)
            if made is not None and not is_kernel(colouring.nodes[made]):
                fused += elements(x)
            else:
                nbytes += _jax.nbytes(x.aval)
    values = sum(map(len, found))
    nbytes_out = sum(_jax.nbytes(v.aval) for v in out)
    return Stacked(len(found), values, int(fused), nbytes, len(out), nbytes_out)


def _written(copies: Copies, kept: Kept) -> int:
    """Return the elements that each step writes though XLA would fuse what makes and reads them."""
    first = copies.body
    carried = {(x.node, x.result) for xs in copies.reads for x in xs if x is not None and x.lag}
    stacked = {key for key, steps in kept.items() if len(steps) > 1}
    by_kernels = [xs for node, xs in zip(first, copies.reads, strict=True) if is_kernel(node)]
    read = {(x.node, x.result) for xs in by_kernels for x in xs if x is not None}
    fused = (key for key in (carried | stacked) - read if not is_kernel(first[key[0]]))
    return sum(elements(first[i].outvars[j]) for i, j in fused)


class Prices:
    """What it costs to batch each group of nodes.

    Parameters
    ----------
    jaxpr : Jaxpr
        The program.
    colouring : Colouring
        Its nodes.
    kernels : Kernels
        Its kernels.
    groups : mapping of int to Copies
        The nodes that can be batched, by their colours.
    looped : collection of int
        The identities of the nodes that become parts of loops.
    model : CostModel
        How times are weighed.

    Attributes
    ----------
    prices : dict of int to Price
        The price of each group.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        colouring: Colouring,
        kernels: Kernels,
        groups: Mapping[int, Copies],
        looped: Collection[int],
        model: CostModel,
    ) -> None:
        self._model = model
        self._colouring = colouring
        self._kernels = kernels
        self._groups = groups
        self.prices: dict[int, Price] = {}
        # Of groups that read results of loops: how much longer calls take, what is compiled in
        # their place, and the nodes.
        self._beside_loops: list[tuple[float, Work, Sequence[Node]]] = []
        self._owner = {v: key for key, c in groups.items() for n in c.nodes for v in n.outvars}
        self._known = frozenset[Any](jaxpr.constvars)
        outputs = (x for x in jaxpr.outvars if type(x) is Var and _jax.SHARES_KERNELS_OF_ROWS)
        self._by_one_kernel = frozenset[Any](outputs)  # Rows that are read by one kernel for all.
        # For each group, what reads it: groups, or other nodes and outputs, by negative numbers.
        self._readers: dict[int, set[int]] = {key: set() for key in groups}
        self._ends: set[int] = set()  # Groups whose rows are added up, or read one by one.
        self._terms: dict[int, int] = {}  # For each sum outside of groups, the number of terms.
        self._apart: dict[int, set[Any]] = {key: set() for key in groups}  # Rows read alone.
        self._touching_loops: set[int] = set()  # Groups whose rows loops read, or write.
        made = (v for node in colouring.nodes if id(node) in looped for v in node.outvars)
        self._looped = frozenset[Any](made)
        stacked = {*self._looped}
        for node in colouring.nodes:
            is_looped = id(node) in looped
            reader = node.colour if node.colour in groups and not is_looped else -1 - node.place
            if node.terms and reader < 0:
                self._terms[reader] = len(node.terms)
            if reader >= 0 and any(type(x) is Var and x in stacked for x in node.operands):
                self._touching_loops.add(reader)
                stacked.update(node.outvars)
            for x in node.operands:
                key = self._owner.get(x) if type(x) is Var else None
                if key is None:
                    continue
                if is_looped:
                    self._touching_loops.add(key)
                else:
                    self._readers[key].add(reader)
                    if node.terms or reader < 0:
                        self._ends.add(key)
                    if reader < 0 and is_kernel(node) and not is_join(node):
                        self._apart[key].add(x)
        for i, x in enumerate(jaxpr.outvars):
            key = self._owner.get(x) if type(x) is Var else None
            if key is not None:
                self._readers[key].add(-1 - len(jaxpr.eqns) - i)
                self._ends.add(key)
                self._apart[key].add(x)
        self._weigh_fused()
        self._weigh_stacked()

    def _weigh_fused(self) -> None:
        """Weigh functions that XLA fuses up to a sum or an output.

        Side by side, their rows would be written to memory.
        """
        cone: set[int] = set()
        for key, copies in sorted(self._groups.items(), key=lambda item: -item[1].body[0].place):
            may_fuse = key not in self._touching_loops and not is_kernel(copies.body[0])
            if may_fuse and all(x < 0 or x in cone for x in self._readers[key]):
                cone.add(key)
        packed = self._looped.union(v for v, key in self._owner.items() if key not in cone)
        edges = ((key, reader) for key in cone for reader in self._readers[key])
        for part in connected(cone, edges):
            ends = self._ends.intersection(part)
            written = sum(
                self._groups[k].times * elements(self._groups[k].body[0].outvars[0]) for k in ends
            )
            sums = {reader for key in part for reader in self._readers[key] if reader < 0}
            added = sum(self._terms.get(reader, 0) for reader in sums)
            body = [self._groups[key].body[0] for key in part]
            stored = sum(
                k in ends or self._kernels.is_stored(self._groups[k].body[0]) for k in part
            )
            together = Work(stored, sum(len(node.equations) for node in body))
            extra = self._model.constants.element * written
            before = total([Work(0, added), self._as_written(part), self._rows(part, packed)])
            self._weigh(part, extra, before, total([together, self._rows_out(part)]))

    def _weigh_stacked(self) -> None:
        """Weigh what reads, or hands out, values that have to be moved."""
        prices = self.prices
        rest = {key for key in self._groups if key not in prices or prices[key].is_worth_it}
        edges = ((key, reader) for key in rest for reader in self._readers[key] if reader in rest)
        for part in connected(rest, edges):
            moved = self._stacked(part)
            groups = [self._groups[key] for key in part]
            starts = sum((c.times - 1) * kernel_starts(c.repeated[0]) for c in groups)
            saved = self._model.constants.kernel * starts
            together = self._kernels.work(c.body[0] for c in groups)
            after = total([together, moved.work, self._rows_out(part)])
            rows = self._rows(part, self._looped)
            extra = moved.seconds(self._model) - saved
            self._weigh(part, extra, total([self._as_written(part), rows]), after)
            if rows.kernels and prices[part[0]].is_worth_it:
                nodes = [node for group in groups for node in group.nodes]
                self._beside_loops.append((extra, after, nodes))
            elif rows.kernels:
                self._beside_loops.append((0.0, rows, []))

    def _stacked(self, part: Sequence[int]) -> Stacked:
        own, known = {*part}, self._known | self._looped
        columns = (column for key in part for column in self._groups[key].columns())
        kernels = [key for key in part if is_kernel(self._groups[key].body[0])]
        out = [x for key in kernels for x in self._apart[key]]
        return stacked(
            columns, lambda x: x in known or self._owner.get(x) in own, self._colouring, out
        )

    def _weigh(self, part: Collection[int], extra: float, before: Work, after: Work) -> None:
        """Give groups a price: calls take longer, and other work is compiled than before."""
        compiling = self._model.compiling(before) - self._model.compiling(after)
        calls = self._model.calls
        self.prices.update(dict.fromkeys(part, Price(calls, calls * extra, compiling)))

    def _as_written(self, part: Iterable[int]) -> Work:
        return self._kernels.work(node for key in part for node in self._groups[key].nodes)

    def _rows_out(self, part: Iterable[int]) -> Work:
        return taken_apart(sum(len(self._apart[key] - self._by_one_kernel) for key in part))

    def _rows(self, part: Iterable[int], packed: Container[Any]) -> Work:
        """Return the work to read rows of packs one by one, for groups that stay as they are.

        XLA fuses a row with what reads it, so that each copy becomes a kernel of its own. A reader
        that is a kernel itself needs another one for each row.
        """
        rows = copies = 0
        for group in (self._groups[key] for key in part):
            read = {
                x for column in group.columns() for x in column if type(x) is Var and x in packed
            }
            if is_kernel(group.body[0]):
                rows += len(read)
            elif read:
                copies = max(copies, group.times)
        return taken_apart(rows + copies)

    def of_loops(
        self, loops: Sequence[tuple[Copies, Kept]], packs: Iterable[Copies], alone: Iterable[Node]
    ) -> Price:
        """Return what it costs to make loops of all steps, and of what that makes of other groups.

        Parameters
        ----------
        loops : sequence of (Copies, Kept)
            The steps of each loop, and their results that are read elsewhere.
        packs : iterable of Copies
            What is batched beside the loops.
        alone : iterable of Node
            What is neither in a loop nor batched.
        """
        model, c, alone = self._model, self._model.constants, [*alone]
        apart = {id(node) for node in alone if is_kernel(node) and not is_join(node)}
        readers = {-1, *apart}
        batched = [*packs, *(copies for copies, _ in loops)]
        together = {v for copies in batched for node in copies.nodes for v in node.outvars}
        together |= self._known
        extra = sum(extra for extra, *_ in self._beside_loops)
        after = [self._kernels.work(alone), *(work for _, work, _ in self._beside_loops)]
        for copies, kept in loops:
            out: list[Any] = []
            rows_out = 0
            for (i, j), steps in kept.items():
                each = steps.items() if len(steps) > 1 else ()
                read = {
                    copies.rows[t][i].outvars[j]: x for t, x in each if not readers.isdisjoint(x)
                }
                rows_out += len(read.keys() - self._by_one_kernel)
                # As it is written, an output that no kernel computes is copied as well.
                out += [
                    v
                    for v, x in read.items()
                    if is_kernel(copies.body[i]) or not apart.isdisjoint(x)
                ]
            moved = stacked(copies.columns(), together.__contains__, self._colouring, out)
            first, n = copies.repeated
            starts = kernel_starts(first)
            # A loop without kernels is one kernel, in which rows are read and written for nothing.
            written = sum(len(steps) > 1 for steps in kept.values())
            rows = written + sum(nbytes(x) > 0 for x in copies.columns()) if starts else 0
            step = c.step + c.kernel * (rows - starts) + c.element * _written(copies, kept)
            extra += moved.seconds(model) + n * step + (0 if starts else c.loop)
            own = Work(_LOOP + written, _LOOP + written)
            after += [self._kernels.work(copies.body), moved.work, taken_apart(rows_out), own]
        # Kernels of steps may be alike to those of nodes that stay alone.
        every = [*alone, *(node for _, _, nodes in self._beside_loops for node in nodes)]
        every += [node for copies, _ in loops for node in copies.nodes]
        before = self._kernels.work(every)
        saved = model.compiling(before) - model.compiling(total(after))
        return Price(model.calls, model.calls * extra, saved)
