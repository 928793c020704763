"""Measure one thing in a process: a workload with a system, NUTS, or calls as data grows."""

from __future__ import annotations

import json
import textwrap
import traceback
from pathlib import Path
from typing import NamedTuple

import jax

from compare import nuts, preload, rows
from compare.measure import measure_system, warm_up
from compare.systems import BESIDE_PYTENSOR, GROWING, PYTENSOR_WORKLOAD, SYSTEMS
from compare.workloads import WORKLOADS

PARTS = {"nuts": nuts, "rows": rows}
"""Workloads that are measured in another way, by the first word of their names."""
NAMES = [*WORKLOADS, *(f"nuts-{model}" for model in nuts.MODELS), "rows"]
ON_REQUEST = ("logistic", "network")
"""Workloads that are measured only by name: `rows` covers ``logistic``, and the JAX modes of Aesara
and PyTensor cannot compile ``network``."""


class Cell(NamedTuple):
    """The workload and the system that one process measures."""

    workload: str
    system: str

    @property
    def record(self) -> str:
        """Return the prefix of the names of its records."""
        return f"{self.workload}.{self.system.replace(' ', '_')}"


def systems(workload: str) -> list[str]:
    """Return the systems that a workload is measured with. By hand comes first, as reference."""
    part = PARTS.get(workload.partition("-")[0])
    if part:
        return list(part.SYSTEMS)
    known = WORKLOADS[workload]
    if known.steps:
        return list(GROWING)
    without = () if workload == PYTENSOR_WORKLOAD else BESIDE_PYTENSOR
    return [s for s in SYSTEMS if s not in without and (known.numpyro or s != "numpyro")]


def run(cell: Cell, repeat: int, folder: Path, path: Path) -> None:
    """Measure, and write a record, or the error if it fails."""
    workload, system = cell
    part = PARTS.get(workload.partition("-")[0])
    preload.prepare(system, part.MODULES if part else ())
    try:
        warm_up()
        if part:
            record = part.measure(workload, system, repeat)
        else:
            record = measure_system(workload, system, folder)
        record["device"] = jax.devices()[0].device_kind
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        text = textwrap.shorten(f"{type(error).__name__}: {lines[0]}", 160, placeholder=" …")
        record = {"error": text}
        path.with_suffix(".txt").write_text(traceback.format_exc())
    path.write_text(json.dumps(record, indent=1))
