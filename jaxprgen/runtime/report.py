"""Reports of what became of every node of a graph, and what the program costs."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax

from jaxprgen import _jax
from jaxprgen.ir.describe import place_text
from jaxprgen.passes.repeat_notes import Repeats
from jaxprgen.runtime.collectives import Collective, collectives_of
from jaxprgen.runtime.observe import UNSEEN, Node, Observation, alike, constant_bytes, scopes_of
from jaxprgen.texts import visible, visible_lines


class NodeReport(NamedTuple):
    """One node, or ``times`` nodes that are alike: see `jaxprgen.runtime.observe.alike`.

    The fields are those of `jaxprgen.runtime.observe.Node`, added up over the nodes; ``equations``
    is their number.
    """

    op: str
    name: str
    line: str
    how: str
    equations: int
    nbytes: float
    seconds: float
    times: int


class Report(NamedTuple):
    """One program.

    Attributes
    ----------
    name
        The function's name.
    nodes
        The graph's nodes, in the order of computing, alike ones together; or those that became
        equations.
    hidden
        How many nodes are left out because they became no equations, by what became of them.
    equations
        The number of equations in the program.
    repeats
        What the program repeats, and what became of it.
    constant_bytes
        The size of the data that travels beside the program, in bytes.
    data_equations, data_bytes
        How many of the equations data decide, which are computed once for each value of the data,
        and the size of their results that are kept, in bytes.
    flops, bytes_accessed, temporary_bytes
        The costs of one call by XLA's estimate: floating-point operations, bytes read and written,
        bytes for intermediate results. None if XLA gives no estimate.
    collectives
        What the devices exchange in one call. None if the program runs on one device, or XLA was
        not asked.
    stages
        Seconds that each stage took: "plan" (once for a function), "emit", "passes", "lower"
        (to StableHLO), "compile" (by XLA), "data" (to compile and compute what data decide).
    """

    name: str
    nodes: tuple[NodeReport, ...]
    hidden: dict[str, int]
    equations: int
    repeats: Repeats
    constant_bytes: float
    data_equations: int
    data_bytes: float
    flops: float | None
    bytes_accessed: float | None
    temporary_bytes: int | None
    collectives: tuple[Collective, ...] | None
    stages: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Return the report as dictionaries and lists."""
        return _plain(self)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        rows = [("", "equations", "bytes", "µs", "", "Op", "name", "line"), *map(_row, self.nodes)]
        if all(node.times == 1 for node in self.nodes):
            rows = [(*row[:4], *row[5:]) for row in rows]
        table = _table(rows, numbers=len(rows[0]) - 4)
        hidden = ", ".join(f"{n} {how}" for how, n in self.hidden.items())
        repeats = self.repeats.summary
        stages = ", ".join(f"{stage} {s * 1e3:.1f} ms" for stage, s in self.stages.items())
        costs = {
            "FLOPs": self.flops,
            "bytes accessed": self.bytes_accessed,
            "bytes for intermediate results": self.temporary_bytes,
        }
        said = ", ".join(f"{cost:.0f} {what}" for what, cost in costs.items() if cost is not None)
        data = f"Data decide {self.data_equations} equations once; {self.data_bytes} bytes are kept"
        lines = [
            table,
            f"Not shown: {hidden}" if hidden else "",
            f"{self.name}: {self.equations} equations, {self.constant_bytes} bytes of constants",
            data if self.data_equations else "",
            f"Repeats: {repeats}" if repeats else "",
            f"XLA: {said or 'was not asked'}",
            _travelling(self.collectives),
            f"Time: {stages}",
        ]
        return visible_lines("\n".join(filter(None, lines)))


def _plain(x: Any) -> Any:
    """Return named tuples as dictionaries, and other tuples as lists."""
    if hasattr(x, "_asdict"):
        return {key: _plain(value) for key, value in x._asdict().items()}
    return [_plain(each) for each in x] if isinstance(x, tuple) else x


def _known(cost: float | None) -> float | None:
    """Return XLA's estimate; a negative number says that there is none."""
    return None if cost is None or cost < 0 else cost


def report_of(
    observation: Observation,
    lower: Callable[[], jax.stages.Lowered] | None,
    plan_seconds: float,
    prepare: Callable[[], Any],
    *,
    emitted: bool,
    is_split: bool,
) -> Report:
    """Return the report on a program; without ``lower``, which lowers it, XLA is not asked.

    ``prepare`` computes what data decide. With ``emitted``, nodes that became no equations are left
    out. If data is split, the report needs the lines of this graph: JAX's persistent cache may have
    the program of another one.
    """
    stages = {"plan": plan_seconds, **observation.program.seconds}
    analysis: dict[str, Any] = {}
    temporary = collectives = None
    if lower is not None:
        start = time.perf_counter()
        lowered = lower()
        stages["lower"], start = time.perf_counter() - start, time.perf_counter()
        with _jax.cache_by_lines(True) if is_split else nullcontext():
            compiled = lowered.compile()
        stages["compile"] = time.perf_counter() - start
        analysis = compiled.cost_analysis() or {}
        temporary = getattr(compiled.memory_analysis(), "temp_size_in_bytes", None)
        collectives = collectives_of(compiled, scopes_of(observation.closed_jaxpr.jaxpr))
    prepared = observation.program.prepared
    if prepared is not None and lower is not None:
        start = time.perf_counter()
        jax.block_until_ready(prepare())
        stages["data"] = time.perf_counter() - start
    hidden = [n for n in observation.nodes if emitted and n.how in UNSEEN]
    shown = [n for n in observation.nodes if not emitted or n.how not in UNSEEN]
    return Report(
        observation.name,
        tuple(map(_node_report, alike(shown))),
        dict(Counter(n.how for n in hidden)),
        len(observation.closed_jaxpr.jaxpr.eqns),
        observation.repeats,
        constant_bytes(observation.closed_jaxpr),
        len(prepared.first.jaxpr.eqns) if prepared else 0,
        prepared.nbytes if prepared else 0,
        _known(analysis.get("flops")),
        _known(analysis.get("bytes accessed")),
        temporary,
        collectives,
        stages,
    )


def _node_report(nodes: Sequence[Node]) -> NodeReport:
    first = nodes[0]
    name = first.name if all(n.name == first.name for n in nodes) else f"{first.name}, …"
    place = first.frame.place if first.frame else ""
    equations = sum(len(n.equations) for n in nodes)
    nbytes, seconds = sum(n.nbytes for n in nodes), sum(n.seconds for n in nodes)
    return NodeReport(first.op, name, place, first.how, equations, nbytes, seconds, len(nodes))


WIDTH = 120
"""The number of columns that the text of a report takes at most."""


def _row(n: NodeReport) -> tuple[str, ...]:
    nbytes = "?" if math.isinf(n.nbytes) else str(n.nbytes)
    numbers = str(n.equations), nbytes, f"{n.seconds * 1e6:.0f}"
    times = f"× {n.times}" if n.times > 1 else ""
    return n.how, *numbers, times, n.op, n.name, place_text(n.line) if n.line else ""


def _travelling(collectives: Sequence[Collective] | None) -> str:
    """Return a table of collectives, with a row for each of their causes."""
    if collectives is None:
        return ""
    rows: list[tuple[str, ...]] = [("between devices", "bytes", "along", "", "name", "line")]
    for c in collectives:
        head = c.kind, str(c.nbytes), c.along, "each step" if c.per_step else ""
        for name, line in c.causes:
            rows.append((*head, name, place_text(line) if line else ""))
            head = "", "", "", ""
    return _table(rows, numbers=1) if collectives else "Between devices: nothing"


def _table(rows: Sequence[tuple[str, ...]], numbers: int) -> str:
    """Align rows in columns of at most `WIDTH` characters.

    After the first column come those of ``numbers``, aligned to the right, and then texts, of which
    the longest are shortened. The last column has lines.
    """
    rows = [tuple(visible(cell, None) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    texts = range(numbers + 1, len(widths))
    while sum(widths) + 2 * (len(widths) - 1) > WIDTH:
        widths[max(texts, key=widths.__getitem__)] -= 1
    lines = (
        [row[0].ljust(widths[0])]
        + [row[i].rjust(widths[i]) for i in range(1, numbers + 1)]
        + [_cell(row[i], widths[i], is_path=i == texts[-1]) for i in texts]
        for row in rows
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _cell(text: str, width: int, *, is_path: bool) -> str:
    if len(text) > width:  # The end of a path says most.
        text = f"…{text[len(text) - width + 1 :]}" if is_path else visible(text, width)
    return text.ljust(width)
