"""Copies of one body, and the proof that each of them computes what the body computes.

A *body* is the equations of one repetition. What it reads from elsewhere forms *columns*: for each
of these operands, the values for all copies. A body may also read what a copy before it computes,
as the steps of a recurrence do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir.redundancy import Identities
from jaxprgen.passes.repeats import CHAINS, Node, reads_a_block

Kept: TypeAlias = Mapping[tuple[int, int], Mapping[int, Sequence[int]]]
"""For a node of a body and one of its results, the copies whose result is read elsewhere, with what
reads it: nodes by identity, and -1 for the outputs of the program."""


class Read(NamedTuple):
    """Where a copy reads an operand that another one, or the same one, computes.

    Attributes
    ----------
    node, result : int
        The position in the body of the node that computes it, and which of its results it is.
    lag : int
        How many copies before.
    """

    node: int
    result: int
    lag: int


class Copies(NamedTuple):
    """Copies of one body.

    Attributes
    ----------
    rows : list of list of Node
        The nodes of each copy, in the same order in all of them.
    reads : list of list of (Read or None)
        For each node of the body, where it reads its operands; None for operands from elsewhere.
    """

    rows: list[list[Node]]
    reads: list[list[Read | None]]

    @property
    def body(self) -> list[Node]:
        """The nodes of the first copy."""
        return self.rows[0]

    @property
    def times(self) -> int:
        """How many copies there are."""
        return len(self.rows)

    @property
    def nodes(self) -> list[Node]:
        """The nodes of all copies."""
        return [node for row in self.rows for node in row]

    @property
    def repeated(self) -> tuple[Sequence[JaxprEqn], int]:
        """The equations of the first copy, and how many copies there are."""
        return [node.eqn for node in self.body], self.times

    def columns(self) -> Iterator[list[Any]]:
        """Yield the operands from elsewhere, each for all copies."""
        for i, reads in enumerate(self.reads):
            for k, read in enumerate(reads):
                if read is None:
                    yield [row[i].operands[k] for row in self.rows]

    def results(self, kept: Kept) -> Iterator[list[Any]]:
        """Yield the results that are read elsewhere, each for the copies of which it is read."""
        for (i, j), copies in kept.items():
            yield [self.rows[t][i].outvars[j] for t in copies]

    def kept(self, readers: Mapping[Any, Sequence[int]]) -> Kept:
        """Return which results are read elsewhere.

        Parameters
        ----------
        readers : mapping of Var to sequence of int
            What reads each variable, as in `Kept`.
        """
        own = {id(node) for node in self.nodes}
        found: dict[tuple[int, int], dict[int, list[int]]] = {}
        for i, node in enumerate(self.body):
            for j in range(len(node.outvars)):
                outside = {
                    t: [x for x in readers.get(row[i].outvars[j], ()) if x not in own]
                    for t, row in enumerate(self.rows)
                }
                outside = {t: others for t, others in outside.items() if others}
                if outside:
                    found[i, j] = outside
        return found


def side_by_side(nodes: Sequence[Node]) -> Copies:
    """Return alike nodes as copies; only sums may have different numbers of operands."""
    least = min(len(node.operands) for node in nodes)
    return Copies([[node] for node in nodes], [[None] * least])


def nbytes(column: Sequence[Any]) -> float:
    """Return the bytes that values take as rows: none if all are one variable, or numbers.

    Values of symbolic sizes take infinitely many.
    """
    first = column[0]
    if type(first) is not Var or all(x is first for x in column):
        return 0
    return _jax.nbytes(first.aval) * len(column)


# --- The proof --------------------------------------------------------------------------------


def is_proven(copies: Copies, *, as_loop: bool) -> bool:
    """Return whether the body, applied to the columns of each copy, gives the copy's equations.

    Nothing is taken from the search: nodes are compared by what they are, and operands by what
    binds them.

    Parameters
    ----------
    copies : Copies
        The copies.
    as_loop : bool
        Whether they become the steps of a loop. If not, they are computed side by side: none reads
        another one, slices may be at other places, and sums may have other numbers of terms.
    """
    identities = Identities()
    place = {
        v: (t, i, j)
        for t, row in enumerate(copies.rows)
        for i, node in enumerate(row)
        for j, v in enumerate(node.outvars)
        if type(v) is Var
    }
    for i, (first, reads) in enumerate(zip(copies.body, copies.reads, strict=True)):
        what = _what(first, identities, as_loop)
        for t, row in enumerate(copies.rows):
            node = row[i]
            if node is not first and _what(node, identities, as_loop) != what:
                return False
            if len(node.operands) != len(reads) and (as_loop or not node.terms):
                return False
            for x, y, read in zip(node.operands, first.operands, reads, strict=False):
                made = place.get(x) if type(x) is Var else None
                wanted = None
                if read is not None and read.lag <= t:
                    wanted = t - read.lag, read.node, read.result
                if made != wanted or not (x.aval is y.aval or x.aval == y.aval):
                    return False
    return True


def _what(node: Node, identities: Identities, as_loop: bool) -> Any:
    """Return what a node does, apart from its operands."""
    eqn, types = node.eqn, tuple(v.aval for v in node.outvars)
    if not node.terms:
        if reads_a_block(eqn) and not as_loop:
            return "slice", types, eqn.params["strides"]
        return identities.parameters(eqn), types
    family = CHAINS[eqn.primitive.name]
    if as_loop:
        return family, types, [t.sign for t in node.terms]
    # The terms of one kind in a stretch are added up, in all sums at once.
    kinds = [[*zip(*stretch.repetitions, strict=True)] for stretch in node.stretches]
    signs = [[{t.sign for run in runs for t in run} for runs in each] for each in kinds]
    is_uniform = all(len(own) == 1 for each in signs for own in each)
    return family, types, signs if is_uniform else object()
