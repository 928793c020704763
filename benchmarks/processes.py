"""Measure in fresh processes, and compare medians."""

import json
import statistics
import subprocess
import sys
from collections.abc import Iterable
from typing import Any


def measured(script: str, *arguments: object) -> dict[str, float]:
    """Return what a script prints, as JSON on its last line, in a process of its own."""
    command = [sys.executable, script, "--one", *map(str, arguments)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(text.splitlines()[-1])


def in_turn(script: str, rounds: int, cases: Iterable[tuple[Any, ...]]) -> list[dict[str, float]]:
    """Return for each case the medians of what a script prints, with all cases in each round."""
    cases = list(cases)
    rows = [[measured(script, *case) for case in cases] for _ in range(rounds)]
    return [medians(column) for column in zip(*rows, strict=True)]


def medians(rows: Iterable[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure."""
    rows = list(rows)
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}
