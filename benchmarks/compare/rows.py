"""Measure calls as data grows: a logistic regression and its gradient, beside handwritten JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from compare.measure import costs_in_turn
from compare.records import Estimate, Records
from compare.systems import SYSTEMS as MAKES
from compare.workloads import WORKLOADS, logistic

MODULES = ()
SYSTEMS = ("jaxprgen",)
ROWS = 100, 1_000, 10_000, 100_000


def measure(_: str, system: str, repeat: int) -> dict[str, Any]:
    """Measure calls of both in turn, for each number of rows."""
    record = {}
    for rows in ROWS:
        args = list(map(jnp.asarray, logistic.arguments(rows)))
        names = "by hand", system
        functions = {name: MAKES[name](WORKLOADS["logistic"], args)().call for name in names}
        record[str(rows)] = costs_in_turn(functions, args)
    return record


def estimate(records: Records, rows: int, system: str) -> Estimate | None:
    """Estimate the wall time of a call in microseconds; large calls use several threads."""
    return records.estimate("rows", SYSTEMS, lambda record: record[str(rows)][system]["wall"])


def ratio(records: Records, rows: int) -> Estimate | None:
    """Estimate a call of ours over one by hand."""

    def quantity(record: dict[str, Any]) -> float:
        calls = record[str(rows)]
        return calls["jaxprgen"]["wall"] / calls["by hand"]["wall"]

    return records.estimate("rows", SYSTEMS, quantity)
