"""Observers of a `Pipeline`: what they do with the record of each pass."""

from __future__ import annotations

import difflib
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from jaxprgen import _jax
from jaxprgen.errors import PassError
from jaxprgen.ir.programs import count_equations
from jaxprgen.passes.pipeline import Record


def every(*observers: Callable[[Record], None]) -> Callable[[Record], None]:
    """An observer that hands each record to several."""

    def observe(record: Record) -> None:
        for observer in observers:
            observer(record)

    return observe


@dataclass(frozen=True)
class Print:
    """Prints a line of each pass: its name, the equations before and after it, and its time.

    Attributes
    ----------
    file
        Where to; standard output by default.
    """

    file: TextIO | None = None

    def __call__(self, record: Record) -> None:
        """Print the line."""
        before, after = map(count_equations, (record.before, record.after))
        print(
            f"{record.name}: {before} → {after} equations, {record.seconds * 1e3:.1f} ms",
            file=self.file or sys.stdout,
        )


@dataclass(frozen=True)
class Diff:
    """Prints how each pass changed the program, as a unified diff of the texts.

    Variables of both have one name; `jaxprgen.inspect.diff` also gives them the user's names.

    Attributes
    ----------
    file
        Where to; standard output by default.
    """

    file: TextIO | None = None

    def __call__(self, record: Record) -> None:
        """Print the differences, if there are any."""
        before, after = _jax.texts([record.before.jaxpr, record.after.jaxpr])
        names = "before", f"after {record.name}"
        for line in difflib.unified_diff(before, after, *names, lineterm=""):
            print(line, file=self.file or sys.stdout)


@dataclass(frozen=True)
class Verify:
    """Has JAX type every program again, with those inside.

    Raises
    ------
    PassError
        A pass gave a program that JAX refuses, or one of another type.
    """

    def __call__(self, record: Record) -> None:
        """Check the program that a pass gave."""
        for wanted, found, what in (
            (record.before.in_avals, record.after.in_avals, "arguments"),
            (record.before.out_avals, record.after.out_avals, "results"),
        ):
            if list(wanted) != list(found):
                was, new = (", ".join(map(str, avals)) or "nothing" for avals in (wanted, found))
                raise PassError(
                    f"{record.rewrite} changed the types of the program's {what}.\n"
                    f"They were {was}, and are {new}.\n{_REMEDY}"
                )
        try:
            _jax.check_jaxpr(record.after.jaxpr)
        except Exception as error:
            raise PassError(
                f"{record.rewrite} gave a program that JAX refuses.\n{error}\n{_REMEDY}"
            ) from error


_REMEDY = "A pass keeps to the program's meaning: leave this one out, or correct it."


@dataclass(frozen=True, eq=False)
class Time:
    """Collects how long passes take; ``str()`` of it is a table.

    Attributes
    ----------
    seconds
        Of all programs together, by the name of the pass.
    """

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))

    def __call__(self, record: Record) -> None:
        """Add the time that a pass took."""
        self.seconds[record.name] += record.seconds

    def __str__(self) -> str:
        width = max(map(len, self.seconds), default=0)
        rows = (f"{name:{width}} {s * 1e3:8.1f} ms" for name, s in self.seconds.items())
        return "\n".join(rows)
