"""What became of every node of a graph."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jaxprgen.frontend.context import RuleContext
from jaxprgen.frontend.graph import Plan
from jaxprgen.frontend.known import is_known
from jaxprgen.frontend.registry import Rule
from jaxprgen.specialize import Specializer


class NodeReport(NamedTuple):
    """One node: its Op, how it was lowered, equations appended, time its rule took in seconds.

    ``how`` is "folded" (evaluated while emitting), "emitted" or "staged" (a routine that JAX
    traced, see `jaxprgen.emit.staged`).
    """

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
    lowered: dict[int, NodeReport] = {}
    steps = tuple(step._replace(rule=_observed(step.rule, lowered)) for step in plan.steps)
    program = Specializer(replace(plan, steps=steps), name, checks, quiet=True)(operands, shared)
    nodes = [*plan.folded, *(step.node for step in plan.steps)]
    closed = program.closed_jaxpr
    return Report(
        name,
        # A node that the driver evaluated never came to its rule.
        tuple(lowered.get(id(n), NodeReport(str(n.op), "folded", 0, 0.0)) for n in nodes),
        len(closed.jaxpr.eqns),
        sum(np.asarray(c).nbytes for c in closed.consts),
        program.seconds,
    )


def _observed(rule: Rule, lowered: dict[int, NodeReport]) -> Rule:
    """The rule, leaving a report each time it lowers a node."""

    def observed(ctx: RuleContext, *inputs: Any) -> Any:
        builder, start = ctx.builder, time.perf_counter()
        before, inlined = len(builder), builder.inlined
        results = rule(ctx, *inputs)
        seconds, equations = time.perf_counter() - start, len(builder) - before
        values = results if type(results) is list else [results]
        if builder.inlined > inlined:
            how = "staged"
        else:
            how = "folded" if not equations and all(map(is_known, values)) else "emitted"
        lowered[id(ctx.node)] = NodeReport(str(ctx.op), how, equations, seconds)
        return results

    return observed
