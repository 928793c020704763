"""Observers of a `Pipeline`: print or time what each pass does."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TextIO

from jaxprgen.ir.programs import count_equations
from jaxprgen.passes.pipeline import Record


@dataclass(frozen=True)
class Print:
    """Print one line per pass: its name, the number of equations before and after, and its time.

    With ``Pipeline(..., validate=True)``, the line says why results were not compared, if so.

    Attributes
    ----------
    file : text file, optional
        The file to print to. The default is the standard output.
    """

    file: TextIO | None = None

    def __call__(self, record: Record) -> None:
        """Print the line of one pass."""
        before, after = map(count_equations, (record.before, record.after))
        line = f"{record.name}: {before} → {after} equations, {record.seconds * 1e3:.1f} ms"
        if record.not_validated:
            line += f", results not compared: {record.not_validated}"
        print(line, file=self.file or sys.stdout)


@dataclass(frozen=True, eq=False)
class Time:
    """Add up how long passes take. ``str(time)`` is a table of the times in milliseconds.

    Attributes
    ----------
    seconds : dict of str to float
        The total time of each pass over all programs, by its name.
    """

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))

    def __call__(self, record: Record) -> None:
        """Add the time of one pass."""
        self.seconds[record.name] += record.seconds

    def __str__(self) -> str:
        width = max(map(len, self.seconds), default=0)
        rows = (f"{name:{width}} {s * 1e3:8.1f} ms" for name, s in self.seconds.items())
        return "\n".join(rows)
