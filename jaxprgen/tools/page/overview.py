"""The view of a program by source line: a table of costs, and a picture of who reads whom."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from jaxprgen._jax import Jaxpr, Var
from jaxprgen.ir.describe import atom_text, place_text
from jaxprgen.passes.repeat_notes import Repeat
from jaxprgen.texts import visible
from jaxprgen.tools.page.elements import SourceLines, metric, tag
from jaxprgen.tools.page.lines import LineCost, Lines
from jaxprgen.tools.page.listings import times_text

MOST = 500
"""The largest number of lines in the table and in the picture."""
_ENDS = 12
"""The number of inputs, and of outputs, that have a box each."""
_WIDTH, _HEIGHT, _GAP, _DROP = 238, 42, 18, 46
"""The size of a box in the picture, and the space beside and below it, in pixels."""


def overview(
    jaxpr: Jaxpr, names: Mapping[Var, str], sources: SourceLines, repeated: Mapping[Var, Repeat]
) -> list[str]:
    """Return the columns of the view."""
    lines = Lines(jaxpr, repeated)
    return [_table(lines.costs, sources), _picture(lines, jaxpr, names, sources)]


def _largest(costs: Sequence[LineCost]) -> list[int]:
    """The positions of the lines with most equations, in that order."""
    order = sorted(range(len(costs)), key=lambda i: (-costs[i].equations, -costs[i].nbytes))
    return order[:MOST]


# --- The table ------------------------------------------------------------------------------


def _table(costs: Sequence[LineCost], sources: SourceLines) -> str:
    total = sum(cost.equations for cost in costs), sum(cost.nbytes for cost in costs)
    heads = [
        tag("button", head, data_sort=key, aria_pressed=str(key == "equations").lower())
        for head, key in (("equations", "equations"), ("bytes", "bytes"), ("FLOP", "flop"))
    ]
    head = tag("p", *(tag("small", button) for button in heads), tag("span"), class_="head")
    rows = [_row(costs[i], total, sources) for i in _largest(costs)]
    more = f", the largest {MOST} of {len(costs)}" if len(costs) > MOST else ""
    title = f"{total[0]} equations on {len(costs)} lines{more}"
    return tag("article", tag("h2", escape(title)), head, *rows, class_="lines")


def _row(cost: LineCost, total: tuple[int, float], sources: SourceLines) -> str:
    most = cost.primitives.most_common(4)
    what = ", ".join(f"{n} {name}" for name, n in most)
    what += ", …" * (len(cost.primitives) > len(most))
    shares = zip((cost.equations, cost.nbytes), total, strict=True)
    bars = (tag("rect", width=f"{n / max(whole, 1):.1%}") for n, whole in shares)
    line = sources.index(cost.frame)
    return tag(
        "p",
        tag("small", str(cost.equations)),
        tag("small", metric(cost.nbytes)),
        tag("small", metric(cost.operations)),
        tag("span", tag("button", escape(_text(cost)), data_line=line), times_text(cost.times)),
        tag("svg", *bars),
        tag("code", escape(what)),
        data_s=line,
        data_equations=cost.equations,
        data_bytes=cost.nbytes,
        data_flop=cost.operations,
    )


def _text(cost: LineCost) -> str:
    if cost.frame is None:
        return "lines that are not known"
    return f"{place_text(cost.frame.place)}  {visible(cost.frame.text)}"


# --- The picture ----------------------------------------------------------------------------


class _Box(NamedTuple):
    kind: str
    title: str
    text: str
    line: int | None = None


def _picture(lines: Lines, jaxpr: Jaxpr, names: Mapping[Var, str], sources: SourceLines) -> str:
    """A box for each line, input and output, in ranks from the top, and who reads whom."""
    count = len(lines.costs)
    boxes = {i: _line_box(lines.costs[i], sources) for i in sorted(_largest(lines.costs))}
    inputs = {i: v for i, v in enumerate(jaxpr.invars, count) if any(a == i for a, _ in lines.flow)}
    outputs = list(zip(lines.reads, jaxpr.outvars, strict=True))
    edges = Counter[tuple[int, int]]()
    for (a, b), n in lines.flow.items():
        edges[a if a < count else _end(inputs, a, count), b] += n
    for i, v in inputs.items():
        title = f"{len(inputs)} inputs" if len(inputs) > _ENDS else atom_text(v, names)
        boxes[_end(inputs, i, count)] = _Box("input", title, "input")
    for i, (line, x) in enumerate(outputs, count + len(jaxpr.invars)):
        title = f"{len(outputs)} outputs" if len(outputs) > _ENDS else atom_text(x, names)
        end = _end(outputs, i, count + len(jaxpr.invars))
        boxes[end] = _Box("output", title, "output")
        edges.update([] if line is None else [(line, end)])
    shown = {(a, b): n for (a, b), n in edges.items() if a in boxes and b in boxes}
    places = _places(list(boxes), shown)
    width = max((x for x, _ in places.values()), default=0) + _WIDTH + _GAP
    height = max((y for _, y in places.values()), default=0) + _HEIGHT + _GAP
    drawn = [
        *(_edge(places[a], places[b], n) for (a, b), n in shown.items()),
        *(_draw(box, *places[i]) for i, box in boxes.items()),
    ]
    svg = tag("svg", *drawn, viewBox=f"0 0 {width:.0f} {height:.0f}")
    hint = tag("i", " Scroll to zoom, drag to move, double-click for all, click for the rows.")
    return tag("article", tag("h2", "Which lines read which", hint), svg, class_="picture")


def _end(ends: Collection[Any], i: int, first: int) -> int:
    """The box of an input or an output: its own, or the first for all if there are many."""
    return first if len(ends) > _ENDS else i


def _line_box(cost: LineCost, sources: SourceLines) -> _Box:
    times = f"× {cost.times} · " if cost.times > 1 else ""
    count = f"{cost.equations} equation{'s' * (cost.equations != 1)}"
    costs = f"{times}{count}, {metric(cost.nbytes, 'B')}"
    if cost.frame is None:
        return _Box("line", "lines that are not known", costs)
    place = place_text(cost.frame.place).rpartition("/")[2]
    return _Box("line", cost.frame.text or place, f"{place} · {costs}", sources.index(cost.frame))


def _places(
    nodes: Sequence[int], edges: Mapping[tuple[int, int], int]
) -> dict[int, tuple[float, float]]:
    """The upper left corner of each node; those of one rank are sorted by what they read."""
    reading = {b for _, b in edges}
    order = sorted(nodes, key=reading.__contains__)  # Inputs first.
    reads, read_by = {i: list[int]() for i in order}, {i: list[int]() for i in order}
    place = {node: i for i, node in enumerate(order)}
    for a, b in edges:
        if place[a] < place[b]:  # Against the order runs what a line that runs again reads.
            reads[b].append(a)
            read_by[a].append(b)
    rank: dict[int, int] = {}
    for i in order:
        rank[i] = max((rank[a] + 1 for a in reads[i]), default=0)
    for i in order:  # Inputs are as near as possible to the first line that reads them.
        if not reads[i] and read_by[i]:
            rank[i] = min(rank[b] for b in read_by[i]) - 1
    rows = [[i for i in order if rank[i] == r] for r in range(max(rank.values(), default=0) + 1)]
    middle = max(map(len, rows)) / 2
    columns: dict[int, float] = {}
    for row in rows:
        wanted = {i: [columns[a] for a in reads[i] if a in columns] for i in row}
        row.sort(key=lambda i: sum(wanted[i]) / len(wanted[i]) if wanted[i] else middle)
        columns.update((i, middle - len(row) / 2 + k) for k, i in enumerate(row))
    return {
        i: (_GAP + columns[i] * (_WIDTH + _GAP), _GAP + rank[i] * (_HEIGHT + _DROP)) for i in order
    }


def _edge(start: tuple[float, float], end: tuple[float, float], count: int) -> str:
    x, y = start[0] + _WIDTH / 2, start[1] + _HEIGHT
    u, v = end[0] + _WIDTH / 2, end[1]
    bend = max(_DROP / 2, abs(v - y) / 2)
    path = f"M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {u:.0f} {v - bend:.0f} {u:.0f} {v:.0f}"
    return tag("path", d=path, stroke_width=f"{1 + math.log2(count) / 2:.1f}")


def _draw(box: _Box, x: float, y: float) -> str:
    def text(content: str, below: int, longest: int) -> str:
        shown = escape(visible(content, longest))
        return tag("text", shown, x=f"{x + 8:.0f}", y=f"{y + below:.0f}")

    is_line = box.line is not None
    return tag(
        "g",
        tag("title", escape(f"{box.title}\n{box.text}")),
        tag("rect", x=f"{x:.0f}", y=f"{y:.0f}", width=_WIDTH, height=_HEIGHT, rx=5),
        text(box.title, 17, 35),
        text(box.text, 34, 35),
        class_=box.kind,
        data_line=box.line,
        tabindex=0 if is_line else None,
        role="button" if is_line else None,
    )
