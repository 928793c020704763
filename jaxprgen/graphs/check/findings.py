"""The findings of `jaxprgen.check`, as data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxprgen.graphs.library import name_of
from jaxprgen.lowering.names import Variable
from jaxprgen.texts import visible, visible_lines

BLOCKED = ("callback", "refused")
"""The verdicts on nodes that `jaxprgen.compile` does not take by itself."""
VERDICTS = ("jit", "static", "unclear", *BLOCKED)
CHAIN = 20
"""The number of nodes up to which a chain is kept whole."""
_ROWS = 40
"""The number of nodes with the same trouble up to which the text shows all."""


class NodeCheck(NamedTuple):
    """The verdict on one node.

    ``verdict`` is

    - "jit": it runs under `jax.jit`, given its inputs;
    - "static": it does once the inputs that decide its shape by their values are static;
    - "unclear": types leave sizes open, and `check` found no sizes for which it runs;
    - "callback": it has no rule, but with ``compile(..., fallback="callback")`` its Python
      ``perform`` runs on the host;
    - "refused": its rule refuses it, or it has neither a rule nor a ``perform``.
    """

    op: str
    name: str
    line: str
    verdict: str = "jit"
    reason: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.op} -> {self.name}" if self.name else self.op


class Deciding(NamedTuple):
    """A variable whose value decides a shape, and so must be known while emitting.

    ``role`` is "input", "shared variable" or "missing input". ``chain`` holds the nodes on a
    shortest way to such a shape. If their number, ``length``, is larger than `CHAIN`, it holds the
    first ones and the last.
    """

    name: str
    role: str
    length: int
    chain: tuple[NodeCheck, ...]


class Odd(NamedTuple):
    """A variable that `jaxprgen.compile` refuses: its name, its type and its role."""

    name: str
    type: str
    role: str


class Subset(NamedTuple):
    """A part of the graph that one call computes: what `jaxprgen.compile` takes, and its size."""

    inputs: tuple[Variable, ...]
    outputs: tuple[Variable, ...]
    nodes: int


@dataclass(frozen=True, repr=False)
class GraphCheck:
    """The findings of `jaxprgen.check`; ``str()`` of them is a report.

    Attributes
    ----------
    nodes
        The verdict on every node, in an order of computing.
    deciding
        The variables whose values decide shapes.
    missing
        Variables that the outputs need and that are not among the inputs.
    no_arrays
        Inputs and outputs that are not arrays.
    subset
        The largest part that can be compiled, see `jaxprgen.check`; with no outputs if none can.
    """

    nodes: tuple[NodeCheck, ...]
    deciding: tuple[Deciding, ...]
    missing: tuple[Odd, ...]
    no_arrays: tuple[Odd, ...]
    subset: Subset

    @property
    def compiles(self) -> bool:
        """Whether `jaxprgen.compile` takes the graph."""
        blocked = any(node.verdict in BLOCKED for node in self.nodes)
        return not (blocked or self.missing or self.no_arrays)

    @property
    def static(self) -> tuple[str, ...]:
        """The names of the inputs that must be static under `jax.jit`."""
        return tuple(d.name for d in self.deciding if d.role == "input")

    def _counts(self, *verdicts: str) -> str:
        """The numbers of nodes by verdict, as in ``2 jit, 1 static``."""
        counts = Counter(node.verdict for node in self.nodes)
        return ", ".join(f"{counts[v]} {v}" for v in verdicts if counts[v])

    @property
    def verdict(self) -> str:
        """The findings in one line."""
        total = _count_nodes(len(self.nodes))
        troubles: list[str] = []
        if counts := self._counts(*BLOCKED):
            number = sum(node.verdict in BLOCKED for node in self.nodes)
            troubles.append(f"{number} of {total} blocked ({counts})")
        if self.missing:
            troubles.append(f"missing {_and(odd.name for odd in self.missing)}")
        if self.no_arrays:
            troubles.append(f"not an array: {_and(odd.name for odd in self.no_arrays)}")
        if not troubles:
            static = f" with {_and(self.static)} static" if self.static else ""
            unclear = self._counts("unclear")
            return f"jit-able{static}: all of {total}{f', but {unclear}' if unclear else ''}"
        if self.static:
            troubles.append(f"static: {_and(self.static)}")
        return f"not jit-able as a whole: {'; '.join(troubles)}"

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        total = _count_nodes(len(self.nodes))
        sections = [
            [": ".join(filter(None, (total, self._counts(*VERDICTS))))],
            _node_rows([node for node in self.nodes if node.verdict != "jit"]),
            [row for d in self.deciding for row in _deciding_rows(d)],
            [
                *(f"missing  {odd.name}, a {odd.type}" for odd in self.missing),
                *(f"not an array  {odd.role} {odd.name}, a {odd.type}" for odd in self.no_arrays),
            ],
            [] if self.compiles else _subset_rows(self.subset, total),
            [self.verdict],
        ]
        return visible_lines("\n\n".join("\n".join(rows) for rows in sections if rows))


def _count_nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _and(names: Iterable[str]) -> str:
    *first, last = dict.fromkeys(names)
    return f"{', '.join(first)} and {last}" if first else last


def _located(nodes: Sequence[NodeCheck]) -> list[str]:
    """Each node with its line before it, one below the other."""
    lines = [visible(node.line, None) for node in nodes]
    width = max(map(len, lines), default=0)
    pairs = zip(lines, nodes, strict=True)
    return [f"{line:<{width}}  {node}" if width else str(node) for line, node in pairs]


def _node_rows(nodes: Sequence[NodeCheck]) -> list[str]:
    """The nodes that have a reason, with each reason and remedy once."""
    groups: dict[tuple[str, str], list[str]] = {}
    for node, row in zip(nodes, _located(nodes), strict=True):
        groups.setdefault((node.reason, node.remedy), []).append(f"{node.verdict:<8}  {row}")
    found: list[str] = []
    for (reason, remedy), rows in groups.items():
        if len(rows) > _ROWS:
            half = _ROWS // 2
            rows[half:-half] = [f"    … {len(rows) - _ROWS} more …"]
        found += [*rows, f"{'':<10}{reason}"]
        found += [f"{'':<10}instead: {remedy}"] if remedy else []
    return found


def _deciding_rows(deciding: Deciding) -> list[str]:
    must = "must be static"
    if deciding.role == "shared variable":
        must = "decides a shape, so each of its values gets a program"
    rows = [f"    {row}" for row in _located(deciding.chain)]
    hidden = deciding.length - len(rows)
    rows[-1:-1] = [f"    … {hidden} more …"] if hidden else []
    return [f"{deciding.role} {deciding.name} {must}:", *rows]


def _subset_rows(subset: Subset, total: str) -> list[str]:
    if not subset.outputs:
        return ["no part can be compiled"]
    return [
        f"largest part that can be compiled: {subset.nodes} of {total}",
        f"    from  {', '.join(map(name_of, subset.inputs))}",
        f"    to    {', '.join(map(name_of, subset.outputs))}",
    ]
