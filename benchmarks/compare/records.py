"""Read the records of processes; estimate figures, with their intervals."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import statistics
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from scipy.special import stdtrit

MACHINE = "machine.json"
SAMPLING = "sampling.json"
MINUTE = 60.0
"""Seconds to the first number of the largest model that is measured."""
PACKAGES = "jax", "jaxlib", "numpy", "aesara", "pytensor", "pymc", "numpyro", "blackjax"


class Estimate(NamedTuple):
    """A figure of several processes.

    Attributes
    ----------
    value
        The median.
    low, high
        The interval; NaN if there is one process only.
    """

    value: float
    low: float
    high: float


def estimate(values: Sequence[float]) -> Estimate:
    """Return the median, and Student's 95 % interval for the mean of the logarithms.

    If a value is zero or negative, as differences can be, it is that of the values instead.
    """
    middle, count = statistics.median(values), len(values)
    if count < 2:
        return Estimate(middle, math.nan, math.nan)
    positive = min(values) > 0
    scaled = list(map(math.log, values)) if positive else values
    center = statistics.fmean(scaled)
    wide = float(stdtrit(count - 1, 0.975)) * statistics.stdev(scaled) / math.sqrt(count)
    ends = center - wide, center + wide
    return Estimate(middle, *(map(math.exp, ends) if positive else ends))


def power_law(seconds: dict[int, float]) -> tuple[float, float]:
    """Return a and k such that the two largest sizes n take a * n**k seconds."""
    (m, first), (n, second) = sorted(seconds.items())[-2:]
    power = math.log(second / first) / math.log(n / m)
    return second / n**power, power


def median(found: list[Any]) -> Any:
    """Merge the records of repeats: the median of every number."""
    first = found[0]
    if isinstance(first, dict):
        return {key: median([x[key] for x in found]) for key in first}
    return first if isinstance(first, str) else statistics.median(found)


class Records:
    """The figures of each workload and system, or its error or time limit."""

    def __init__(self, folder: Path) -> None:
        self._found: dict[tuple[str, str], dict[int, Any]] = {}
        for path in sorted(folder.glob("*.*.*.json")):
            workload, system, repeat = path.stem.split(".")
            rounds = self._found.setdefault((workload, system.replace("_", " ")), {})
            rounds[int(repeat)] = json.loads(path.read_text())
        every = [record for rounds in self._found.values() for record in rounds.values()]
        self.processes = len(every)
        self.seconds: float = sum(record.get("took", 0) for record in every)
        self.repeats = max(map(len, self._found.values()), default=0)
        self.devices = sorted({record["device"] for record in every if "device" in record})
        self.machine: dict[str, Any] = json.loads((folder / MACHINE).read_text())
        sampling = folder / SAMPLING
        self.sampling: dict[str, Any] = (
            json.loads(sampling.read_text()) if sampling.exists() else {}
        )

    def _rounds(self, workload: str, system: str) -> dict[int, Any]:
        """Return the records by round; none if a process failed."""
        rounds = self._found.get((workload, system), {})
        return {} if any(map(_failed, rounds.values())) else rounds

    def get(self, workload: str, system: str) -> dict[str, Any] | None:
        """Return the medians of all figures, or None if the system failed."""
        rounds = self._rounds(workload, system)
        return median(list(rounds.values())) if rounds else None

    def estimate(
        self, workload: str, systems: Sequence[str], quantity: Callable[..., float | None]
    ) -> Estimate | None:
        """Estimate a quantity from the systems' records of the same round."""
        each = [self._rounds(workload, system) for system in systems]
        rounds = [n for n in each[0] if all(n in found for found in each)]
        values = [quantity(*(found[n] for found in each)) for n in rounds]
        known = [x for x in values if x is not None]
        return estimate(known) if known else None

    def failure(self, workload: str, system: str) -> str:
        """Return why there are no figures; empty if nothing was measured."""
        rounds = self._found.get((workload, system), {})
        record = next(filter(_failed, rounds.values()), {})
        return f"> {record['limit']:g} s" if "limit" in record else record.get("error", "")

    def systems(self, workload: str) -> list[str]:
        """Return the systems that were measured."""
        return [system for name, system in self._found if name == workload]


def _failed(record: dict[str, Any]) -> bool:
    return bool({"error", "limit"} & record.keys())


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
