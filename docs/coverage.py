"""Write docs/coverage.md, the table of all Ops of Aesara and how each one is handled.

``python docs/coverage.py`` compiles the examples of tests/catalogue at every dtype that they take
and compares the results with those of Aesara's Python linker.
"""

from __future__ import annotations

import collections
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]
importlib.import_module("conftest")  # Sets up the environment; comes first.

import aesara  # noqa: E402
from aesara.graph.op import Op  # noqa: E402
from catalogue import BASES, FAMILIES  # noqa: E402
from catalogue.example import Example  # noqa: E402
from catalogue.outcome import (  # noqa: E402
    HOW,
    NO_RULE,
    Outcome,
    can_be_called_back,
    case_of,
    compare,
    outcome_of,
)
from catalogue.shortfalls import SHORTFALLS  # noqa: E402
from laws import DTYPES  # noqa: E402
from op_classes import op_classes  # noqa: E402

PAGE = ROOT / "docs" / "coverage.md"
ELSEWHERE = ("aesara.misc", "aesara.bin", "aesara.d3viz")
"""Modules to skip: they define no Ops, and the first runs benchmarks when it is imported."""

HEAD = """\
# Coverage

This page lists every Op class of Aesara and how jaxprgen handles it. `python docs/coverage.py`
writes the page: it compiles at least one example of each Op, reads from the report how the Op is
handled, and compares the results with those of Aesara's Python linker. The deep tests do the same,
and fail if this page is out of date; quick runs try a few Ops of each family.

| handled | meaning |
| --- | --- |
| emitted | becomes equations |
| staged | JAX traces a routine, because no primitive fits |
| called back | has no rule; runs in Python on the host with `compile(..., fallback="callback")` |
| free | costs no equation |
| folded | is computed while the program is built |
| refused | is an error that says why, and what to do instead |
| not built | Aesara itself cannot build a node of it |

The column *Refused* lists the cases that are refused of an Op that is otherwise handled; the sums
below count such an Op as handled. The column *dtypes* lists the dtypes of operands for which
results are compared: those for which Aesara's Python implementation computes a result. It leaves
out floats and complex numbers whose results Aesara would truncate to integers. It is empty if an
Op has no working Python implementation.
"""


class Row(NamedTuple):
    """An Op, and how each of its examples is handled at which dtypes."""

    op: type
    found: list[tuple[str, dict[Outcome, list[str]]]]

    @property
    def hows(self) -> list[str]:
        """The ways in which the examples are handled, in the order of the page."""
        found = {outcome.how for _, outcomes in self.found for outcome in outcomes}
        return sorted(found, key=HOW.index)

    def cells(self) -> Iterator[str]:
        """Yield the cells of the row: Op, module, handled, dtypes, refused."""
        handled = [how for how in self.hows if how != "refused"]
        dtypes = {
            dtype
            for _, outcomes in self.found
            for outcome, dtypes in outcomes.items()
            for dtype in dtypes
            if outcome.how != "refused"
        }
        yield f"`{self.op.__name__}`"
        yield f"`{self.op.__module__.removeprefix('aesara.')}`"
        yield ", ".join(handled) or "refused"
        yield written(dtypes)
        yield "; ".join(dict.fromkeys(self._refusals()))

    def _refusals(self) -> Iterator[str]:
        for what, outcomes in self.found:
            for outcome, dtypes in outcomes.items():
                if outcome.why:
                    case = what if len(outcomes) == 1 else written(dtypes)
                    yield f"{case}: {outcome.why}" if case else outcome.why


def every_op() -> set[type]:
    """Return the Op classes of all modules that can be imported here."""
    return op_classes(aesara, Op, ELSEWHERE)


def outcomes_of(example: Example) -> dict[Outcome, list[str]]:
    """Return how an example is handled, with the dtypes at which results are compared."""
    cases = [case for dtype in example.dtypes if (case := case_of(example, dtype))]
    if not cases:
        return {Outcome("not built"): []}
    taken = [case for case in cases if case.wanted is not None]
    if not taken:
        return {outcome_of(cases[-1]): []}
    found: dict[Outcome, list[str]] = {}
    for case in taken:
        found.setdefault(outcome_of(case), []).append(case.dtype)
    if NO_RULE in found and can_be_called_back(taken[-1]):
        found = {NO_RULE._replace(how="called back"): found[NO_RULE]}
    return found


def rows(is_tried: Callable[[type], bool] = lambda op: True) -> dict[str, list[Row]]:
    """Return the rows of each family.

    Parameters
    ----------
    is_tried
        Whether to try the examples of an Op; else it has no row.

    Raises
    ------
    LookupError
        An Op has no example.
    """
    families: dict[str, list[Row]] = {}
    seen: set[type] = set()
    for family, examples in FAMILIES.items():
        by_op: dict[type, Row] = {}
        for example in filter(lambda example: is_tried(example.op), examples):
            row = by_op.setdefault(example.op, Row(example.op, []))
            row.found.append((example.what, outcomes_of(example)))
        families[family] = list(by_op.values())
        seen |= {example.op for example in examples}
    bases = {(module, name) for module, names in BASES.items() for name in names}
    for op in every_op() - seen:
        if (op.__module__, op.__name__) not in bases:
            raise LookupError(f"tests/catalogue has no example of {op.__module__}.{op.__name__}.")
    return {
        family: sorted(found, key=lambda row: (row.op.__name__.lower(), str(row.op)))
        for family, found in families.items()
    }


GROUPS = {
    "bool": ["bool"],
    "integers": [dtype for dtype in DTYPES if "int" in dtype],
    "floats": [dtype for dtype in DTYPES if dtype.startswith("float")],
    "complex": [dtype for dtype in DTYPES if dtype.startswith("complex")],
}


def written(dtypes: Iterable[str]) -> str:
    """Write dtypes as text, complete groups by their names."""
    given = set(dtypes)
    if given == set(DTYPES):
        return "all"
    names: list[str] = []
    for group, members in GROUPS.items():
        names += [group] if given >= set(members) else [d for d in members if d in given]
    return ", ".join(names)


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Write a table in Markdown."""
    head = list(head)
    all_lines = [head, ["---"] * len(head), *map(list, lines)]
    return "".join(f"| {' | '.join(line)} |\n" for line in all_lines)


def page(families: dict[str, list[Row]]) -> str:
    """Write the page."""
    counts = {
        family: collections.Counter(row.hows[0] for row in found)
        for family, found in families.items()
    }
    counts["All"] = sum(counts.values(), collections.Counter())
    sums = [
        [family, str(found.total()), *(str(found[how] or "") for how in HOW)]
        for family, found in counts.items()
    ]
    parts = [HEAD, table(["Family", "Ops", *HOW], sums)]
    for family, found in families.items():
        head = ["Op", "Module", "Handled", "dtypes", "Refused"]
        parts.append(f"## {family}\n\n{table(head, (row.cells() for row in found))}")
    short = [f"- `{op}`: {where}\n" for op, found in sorted(SHORTFALLS.items()) for where in found]
    parts.append(
        "## Accuracy of special functions\n\n"
        "In double precision, the relative error is below 1e-10; near a zero of a function, this "
        "holds relative to the values around it. The exceptions are:\n\n"
        + ("".join(short) or "- None is known.\n")
    )
    return "\n".join(parts)


def compare_all() -> None:
    """Compare all examples at all their dtypes; an `AssertionError` names a difference."""
    for examples in FAMILIES.values():
        for example in examples:
            for dtype in example.dtypes:
                case = case_of(example, dtype)
                if case and case.wanted and outcome_of(case).how != "refused":
                    compare(case)


if __name__ == "__main__":
    PAGE.write_text(page(rows()), "utf-8")
    compare_all()
