"""What `jaxprgen.check` found, as data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from aesara.graph.basic import Variable

from jaxprgen.aesara.library import name_of

BLOCKED = ("callback", "refused")
"""The verdicts of nodes that `jaxprgen.compile` does not take by itself."""
CHAIN = 20
"""Nodes of a chain up to which all are kept, so that many long chains take no more than a few."""
_ROWS = 40
"""Nodes that need the same, up to which the text shows all."""


class NodeCheck(NamedTuple):
    """One node.

    ``verdict`` is

    - "jit": it runs under `jax.jit`, given its inputs;
    - "static": so it does, once inputs that decide its shape by their values are static;
    - "callback": no rule, but with ``compile(..., fallback="callback")`` its Python ``perform``
      runs on the host;
    - "refused": no rule, and nothing that would stand for one.
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
    """A variable whose value decides a shape, and the nodes from it to the one whose shape it is.

    ``role`` is "input", "shared variable" or "missing input". Its value must be known while
    emitting. Of several such chains this is a shortest one; of ``length`` nodes, more than `CHAIN`
    are the first ones and the last.
    """

    name: str
    role: str
    length: int
    chain: tuple[NodeCheck, ...]


class Odd(NamedTuple):
    """A variable that `jaxprgen.compile` refuses: its name, its type, and what it is."""

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
    """What `jaxprgen.check` found; ``str()`` of it is a report.

    Attributes
    ----------
    nodes
        Every node, in an order of computing.
    deciding
        The variables whose values decide shapes.
    missing
        Variables that the outputs need and that are not among the inputs.
    no_arrays
        Inputs and outputs that are no arrays.
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

    @property
    def verdict(self) -> str:
        """The findings in one line."""
        counts = Counter(node.verdict for node in self.nodes)
        blocked = [f"{counts[v]} {v}" for v in BLOCKED if counts[v]]
        troubles: list[str] = []
        if blocked:
            number = sum(counts[v] for v in BLOCKED)
            troubles.append(f"{number} of {_nodes(len(self.nodes))} blocked ({', '.join(blocked)})")
        if self.missing:
            troubles.append(f"missing {_and(odd.name for odd in self.missing)}")
        if self.no_arrays:
            troubles.append(f"no array: {_and(odd.name for odd in self.no_arrays)}")
        if not troubles:
            static = f" with {_and(self.static)} static" if self.static else ""
            return f"jit-able{static}: all of {_nodes(len(self.nodes))}"
        if self.static:
            troubles.append(f"static: {_and(self.static)}")
        return f"not jit-able as a whole: {'; '.join(troubles)}"

    def as_dict(self) -> dict[str, Any]:
        """The findings as plain dictionaries, lists, numbers and strings."""
        return {
            "verdict": self.verdict,
            "compiles": self.compiles,
            "static": list(self.static),
            "nodes": [node._asdict() for node in self.nodes],
            "deciding": [
                {**d._asdict(), "chain": [node._asdict() for node in d.chain]}
                for d in self.deciding
            ],
            "missing": [odd._asdict() for odd in self.missing],
            "no_arrays": [odd._asdict() for odd in self.no_arrays],
            "subset": {
                "inputs": [name_of(v) for v in self.subset.inputs],
                "outputs": [name_of(v) for v in self.subset.outputs],
                "nodes": self.subset.nodes,
            },
        }

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        counts = Counter(node.verdict for node in self.nodes)
        parts = [f"{counts[v]} {v}" for v in ("jit", "static", *BLOCKED) if counts[v]]
        sections = [
            [f"{_nodes(len(self.nodes))}{': ' if parts else ''}{', '.join(parts)}"],
            _node_rows([node for node in self.nodes if node.verdict != "jit"]),
            [row for d in self.deciding for row in _deciding_rows(d)],
            [
                *(f"missing   {odd.name}, a {odd.type}" for odd in self.missing),
                *(f"no array  {odd.role} {odd.name}, a {odd.type}" for odd in self.no_arrays),
            ],
            [] if self.compiles else _subset_rows(self.subset, len(self.nodes)),
            [self.verdict],
        ]
        return "\n\n".join("\n".join(rows) for rows in sections if rows)


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _and(names: Iterable[str]) -> str:
    *first, last = dict.fromkeys(names)
    return f"{', '.join(first)} and {last}" if first else last


def _elide(rows: Sequence[str], limit: int) -> list[str]:
    if len(rows) <= limit:
        return list(rows)
    half = limit // 2
    return [*rows[:half], f"    … {len(rows) - 2 * half} more …", *rows[-half:]]


def _located(nodes: Sequence[NodeCheck]) -> list[str]:
    """Each node behind its line, one below the other."""
    width = max((len(node.line) for node in nodes), default=0)
    return [f"{node.line:<{width}}  {node}" if width else str(node) for node in nodes]


def _node_rows(nodes: Sequence[NodeCheck]) -> list[str]:
    """The nodes that need something, and what: once for all that need the same."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for node, row in zip(nodes, _located(nodes), strict=True):
        key = (node.verdict, node.reason, node.remedy)
        groups.setdefault(key, []).append(f"{node.verdict:<8}  {row}")
    return [
        row
        for (_, reason, remedy), rows in groups.items()
        for row in (
            *_elide(rows, _ROWS),
            f"{'':<10}{reason}",
            *([f"{'':<10}instead: {remedy}"] if remedy else []),
        )
    ]


def _deciding_rows(deciding: Deciding) -> list[str]:
    if deciding.role == "shared variable":
        what = "decides a shape, so each of its values gets a program"
    else:
        what = "must be static"
    *first, last = [f"    {row}" for row in _located(deciding.chain)]
    hidden = deciding.length - len(deciding.chain)
    more = [f"    … {hidden} more …"] if hidden else []
    return [f"{deciding.role} {deciding.name} {what}:", *first, *more, last]


def _subset_rows(subset: Subset, count: int) -> list[str]:
    if not subset.outputs:
        return ["no part can be compiled"]
    ends = [("from", subset.inputs), ("to", subset.outputs)]
    return [
        f"largest part that can be compiled: {subset.nodes} of {_nodes(count)}",
        *(f"    {end:<5} {', '.join(map(name_of, variables))}" for end, variables in ends),
    ]
