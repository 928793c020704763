"""Observers of a `Pipeline`: print, compare, verify or time what each pass does."""

from __future__ import annotations

import difflib
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from jaxprgen import _jax
from jaxprgen.ir.programs import count_equations
from jaxprgen.passes.pipeline import Record, require_valid


def every(*observers: Callable[[Record], None]) -> Callable[[Record], None]:
    """Return an observer that passes each record on to several observers, in order."""

    def observe(record: Record) -> None:
        for observer in observers:
            observer(record)

    return observe


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


@dataclass(frozen=True)
class Diff:
    """Print how each pass changes the program, as a unified diff of the two texts.

    A variable has the same name in both texts. `jaxprgen.inspect.diff` also shows the user's names.

    Attributes
    ----------
    file : text file, optional
        The file to print to. The default is the standard output.
    """

    file: TextIO | None = None

    def __call__(self, record: Record) -> None:
        """Print the differences that one pass makes, if any."""
        before, after = _jax.texts([record.before.jaxpr, record.after.jaxpr])
        names = "before", f"after {record.name}"
        for line in difflib.unified_diff(before, after, *names, lineterm=""):
            print(line, file=self.file or sys.stdout)


@dataclass(frozen=True)
class Verify:
    """Check every program with JAX's type checker, including the programs inside equations.

    A pipeline checks those of your own passes in any case.

    Raises
    ------
    PassError
        A pass returned a program that JAX rejects.
    """

    def __call__(self, record: Record) -> None:
        """Check the program that one pass returned."""
        require_valid(record.rewrite, record.after)


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
