"""What became of every node of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen.frontend.graph import Plan
from jaxprgen.specialize import Specializer


class NodeReport(NamedTuple):
    """One node: its Op, whether it was folded or emitted, equations appended, time taken."""

    op: str
    how: str
    equations: int
    seconds: float


class Report(NamedTuple):
    """The nodes of one program, and the program's size once dead equations are dropped."""

    name: str
    nodes: tuple[NodeReport, ...]
    equations: int
    constant_bytes: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The report as plain dictionaries and lists."""
        return {**self._asdict(), "nodes": [node._asdict() for node in self.nodes]}

    def __str__(self) -> str:
        rows = [f"{n.how:<8} {n.equations:>9} {n.seconds * 1e6:>8.0f}  {n.op}" for n in self.nodes]
        head = f"{'':<8} {'equations':>9} {'µs':>8}  Op"
        foot = (
            f"{self.name}: {self.equations} equations in the program, "
            f"{self.constant_bytes} bytes of constants, emitted in {self.seconds * 1e3:.1f} ms"
        )
        return "\n".join([head, *rows, foot])


def observe(
    plan: Plan, name: str, operands: Sequence[Any], shared: Sequence[Any], checks: bool
) -> Report:
    """Emit a plan anew for these arguments and report on it."""
    program = Specializer(plan, name, checks, observe=True)(operands, shared)
    nodes = tuple(
        NodeReport(str(e.node.op), "folded" if e.folded else "emitted", e.equations, e.seconds)
        for e in program.events
    )
    closed = program.closed_jaxpr
    constant_bytes = sum(np.asarray(c).nbytes for c in closed.consts)
    return Report(name, nodes, len(closed.jaxpr.eqns), constant_bytes, program.seconds)
