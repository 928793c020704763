"""Read the records of processes, and take medians."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

MACHINE = "machine.json"
SAMPLING = "sampling.json"
PACKAGES = "jax", "jaxlib", "numpy", "aesara", "pytensor", "pymc", "numpyro"


def median(found: list[Any]) -> Any:
    """Merge the records of repeats: the median of every number."""
    first = found[0]
    if isinstance(first, dict):
        return {key: median([x[key] for x in found]) for key in first}
    return first if isinstance(first, str) else statistics.median(found)


class Records:
    """The figures of each workload and system, or its error or time limit."""

    def __init__(self, folder: Path) -> None:
        found: dict[tuple[str, str], list[Any]] = {}
        for path in sorted(folder.glob("*.*.*.json")):
            workload, system, _ = path.stem.split(".")
            key = workload, system.replace("_", " ")
            found.setdefault(key, []).append(json.loads(path.read_text()))
        self._found = {key: _of_repeats(repeats) for key, repeats in found.items()}
        self.repeats = max(map(len, found.values()), default=0)
        self.machine: dict[str, Any] = json.loads((folder / MACHINE).read_text())
        sampling = folder / SAMPLING
        self.sampling: dict[str, Any] = (
            json.loads(sampling.read_text()) if sampling.exists() else {}
        )

    def get(self, workload: str, system: str) -> dict[str, Any] | None:
        """Return the figures, or None if the system failed."""
        record = self._found.get((workload, system), {"error": ""})
        return None if {"error", "limit"} & record.keys() else record

    def failure(self, workload: str, system: str) -> str:
        """Return why there are no figures; empty if nothing was measured."""
        record = self._found.get((workload, system), {})
        return f"> {record['limit']:g} s" if "limit" in record else record.get("error", "")

    def systems(self, workload: str) -> list[str]:
        """Return the systems that were measured."""
        return [system for name, system in self._found if name == workload]


def _of_repeats(repeats: list[Any]) -> Any:
    failed = [x for x in repeats if {"error", "limit"} & x.keys()]
    return failed[0] if failed else median(repeats)


def describe_machine(folder: Path) -> None:
    """Describe the machine and the versions in the folder of records."""
    try:
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        model = None
    record = {
        "processor": model[1].strip() if model else platform.processor(),
        "cores": os.cpu_count(),
        "Python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }
    (folder / MACHINE).write_text(json.dumps(record, indent=1))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
