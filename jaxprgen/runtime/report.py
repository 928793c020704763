"""Reports of what became of every node of a graph, and what the program costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from jaxprgen.runtime.observe import Node, Observation, constant_bytes


class NodeReport(NamedTuple):
    """One node: see `jaxprgen.runtime.observe.Node`; ``equations`` is their number."""

    op: str
    name: str
    line: str
    how: str
    equations: int
    nbytes: int
    seconds: float


class Report(NamedTuple):
    """One program.

    Attributes
    ----------
    name
        The function's name.
    nodes
        The graph's nodes, in the order of computing.
    equations
        The number of equations in the program.
    constant_bytes
        The size of the data that travels beside the program, in bytes.
    flops, bytes_accessed, temporary_bytes
        The costs of one call by XLA's estimate: floating-point operations, bytes read and written,
        bytes for intermediate results. None if XLA gives no estimate.
    stages
        Seconds that each stage took: "plan" (once for a function), "emit", "passes", "lower"
        (to StableHLO), "compile" (by XLA).
    """

    name: str
    nodes: tuple[NodeReport, ...]
    equations: int
    constant_bytes: int
    flops: float | None
    bytes_accessed: float | None
    temporary_bytes: int | None
    stages: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Return the report as dictionaries and lists."""
        return {**self._asdict(), "nodes": [node._asdict() for node in self.nodes]}

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        head = ("", "equations", "bytes", "µs", "Op", "name", "line")
        rows = [
            (n.how, str(n.equations), str(n.nbytes), f"{n.seconds * 1e6:.0f}", n.op, n.name, n.line)
            for n in self.nodes
        ]
        table = _align([head, *rows], right={1, 2, 3})
        stages = ", ".join(f"{stage} {s * 1e3:.1f} ms" for stage, s in self.stages.items())
        costs = {
            "FLOPs": self.flops,
            "bytes accessed": self.bytes_accessed,
            "bytes for intermediate results": self.temporary_bytes,
        }
        said = ", ".join(f"{cost:.0f} {what}" for what, cost in costs.items() if cost is not None)
        return (
            f"{table}\n{self.name}: {self.equations} equations, "
            f"{self.constant_bytes} bytes of constants\nXLA: {said or 'was not asked'}\n"
            f"Time: {stages}"
        )


def _known(cost: float | None) -> float | None:
    """Return XLA's estimate; a negative number says that there is none."""
    return None if cost is None or cost < 0 else cost


def report_of(
    observation: Observation,
    lower: Callable[[], jax.stages.Lowered] | None,
    plan_seconds: float,
) -> Report:
    """Return the report on a program; without ``lower``, which lowers it, XLA is not asked."""
    stages = {"plan": plan_seconds, **observation.program.seconds}
    analysis: dict[str, Any] = {}
    temporary = None
    if lower is not None:
        start = time.perf_counter()
        lowered = lower()
        stages["lower"], start = time.perf_counter() - start, time.perf_counter()
        compiled = lowered.compile()
        stages["compile"] = time.perf_counter() - start
        analysis = compiled.cost_analysis() or {}
        temporary = getattr(compiled.memory_analysis(), "temp_size_in_bytes", None)
    return Report(
        observation.name,
        tuple(map(_node, observation.nodes)),
        len(observation.closed_jaxpr.jaxpr.eqns),
        constant_bytes(observation.closed_jaxpr),
        _known(analysis.get("flops")),
        _known(analysis.get("bytes accessed")),
        temporary,
        stages,
    )


def _node(node: Node) -> NodeReport:
    return NodeReport(
        node.op,
        node.name,
        node.frame.place if node.frame else "",
        node.how,
        len(node.equations),
        node.nbytes,
        node.seconds,
    )


def _align(rows: list[tuple[str, ...]], right: set[int]) -> str:
    """Align rows in columns; those numbered in ``right`` to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
