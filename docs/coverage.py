"""Writes docs/coverage.md: what becomes of every Op of Aesara's.

``python docs/coverage.py`` compiles the examples of tests/catalogue at every dtype that they take,
compares what is computed with Aesara's Python linker, and writes how each Op is handled.
"""

from __future__ import annotations

import collections
import importlib
import pkgutil
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]
importlib.import_module("conftest")  # Settles the environment, before anything else.

import aesara  # noqa: E402
from aesara.graph.op import Op  # noqa: E402
from catalogue import BASES, FAMILIES, LATER  # noqa: E402
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

from jaxprgen.lowering.registry import find_rule  # noqa: E402

PAGE = ROOT / "docs" / "coverage.md"
ELSEWHERE = ("aesara.misc", "aesara.bin", "aesara.d3viz")
"""Modules without Ops. The first runs benchmarks when it is imported."""

HEAD = """\
# Coverage

Every Op class of Aesara's, and what becomes of it. `python docs/coverage.py` writes this page: it
compiles an example or more of each Op, takes how the Op is handled from the report on the program,
and compares the results with those of Aesara's Python linker. The tests do the same, and fail
where this page is not what it would be written as. They do so on each of the stacks that are
supported, so that every row holds on all of them.

An Op is *emitted* as equations; or *staged*: JAX traced a routine that has no primitive; or *called
back*: it has no rule, and its Python implementation runs on the host where
`compile(..., fallback="callback")` asks for it; or *free*: it costs no equation; or *folded*: it is
computed while emitting; or *refused*, with an error that says why. An Op that is handled is refused
in some cases where its row says so; the sums below count it as handled. *Not built* are Ops of
which Aesara itself makes no node.

The dtypes are those of the operands with which results are compared: the ones for which Aesara's
Python implementation computes something, of floats and complex numbers where a whole result would
only be a cut off one. There are none where an Op has no Python implementation that works.
"""


class Row(NamedTuple):
    """An Op: what becomes of its examples, and at which dtypes."""

    op: type
    found: list[tuple[str, dict[Outcome, list[str]]]]

    @property
    def hows(self) -> list[str]:
        """All that becomes of it."""
        found = {outcome.how for _, outcomes in self.found for outcome in outcomes}
        return sorted(found, key=HOW.index)

    def cells(self) -> Iterator[str]:
        """The Op, its module, how it is handled, at which dtypes, and what is refused."""
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
    """The classes of Ops of all modules that can be imported here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.walk_packages(aesara.__path__, "aesara.", onerror=lambda _: None):
            if not module.name.startswith(ELSEWHERE):
                try:
                    importlib.import_module(module.name)
                except Exception:  # Without a C compiler, or what else it needs.
                    continue
    found: set[type] = set()
    pending = Op.__subclasses__()
    while pending:
        kind = pending.pop()
        if kind not in found:
            found.add(kind)
            pending += kind.__subclasses__()
    return {kind for kind in found if kind.__module__.startswith("aesara.") and _is_in_module(kind)}


def _is_in_module(kind: type) -> bool:
    """Whether a class is what its module has; others make classes in the name of modules."""
    return "." in kind.__qualname__ or hasattr(sys.modules[kind.__module__], kind.__name__)


def outcomes_of(example: Example) -> dict[Outcome, list[str]]:
    """What becomes of an example, and the dtypes with which results can be compared."""
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


def rows() -> dict[str, list[Row]]:
    """The rows of each family.

    Raises
    ------
    LookupError
        There is an Op with a rule, or of a family of its own, of which there is no example.
    """
    families: dict[str, list[Row]] = {}
    seen: set[type] = set()
    for family, examples in FAMILIES.items():
        by_op: dict[type, Row] = {}
        for example in examples:
            row = by_op.setdefault(example.op, Row(example.op, []))
            row.found.append((example.what, outcomes_of(example)))
        families[family] = list(by_op.values())
        seen |= set(by_op)
    bases = {(module, name) for module, names in BASES.items() for name in names}
    for op in every_op() - seen:
        if (op.__module__, op.__name__) in bases:
            continue
        family = next((f for f, ms in LATER.items() if op.__module__.startswith(ms)), None)
        if family is None or find_rule(op) is not None:
            raise LookupError(f"tests/catalogue has no example of {op.__module__}.{op.__name__}.")
        families.setdefault(family, []).append(Row(op, [("", {NO_RULE: []})]))
    order = [*FAMILIES, *LATER]
    return {
        family: sorted(families[family], key=lambda row: (row.op.__name__.lower(), str(row.op)))
        for family in sorted(families, key=order.index)
    }


GROUPS = {
    "bool": ["bool"],
    "integers": [dtype for dtype in DTYPES if "int" in dtype],
    "floats": [dtype for dtype in DTYPES if dtype.startswith("float")],
    "complex": [dtype for dtype in DTYPES if dtype.startswith("complex")],
}


def written(dtypes: Iterable[str]) -> str:
    """Dtypes by their groups, where those are complete."""
    given = set(dtypes)
    if given == set(DTYPES):
        return "all"
    names: list[str] = []
    for group, members in GROUPS.items():
        names += [group] if given >= set(members) else [d for d in members if d in given]
    return ", ".join(names)


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """A table."""
    head = list(head)
    all_lines = [head, ["---"] * len(head), *map(list, lines)]
    return "".join(f"| {' | '.join(line)} |\n" for line in all_lines)


def page(families: dict[str, list[Row]]) -> str:
    """The page that shows these rows."""
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
        "## Where special functions fall short\n\n"
        "Elsewhere their relative error in double precision is below 1e-10, near a zero that of "
        "the values around it.\n\n" + ("".join(short) or "- Nowhere that is recorded.\n")
    )
    return "\n".join(parts)


def compare_all() -> None:
    """All examples at all their dtypes; `AssertionError` names what differs."""
    for examples in FAMILIES.values():
        for example in examples:
            for dtype in example.dtypes:
                case = case_of(example, dtype)
                if case and case.wanted and outcome_of(case).how != "refused":
                    compare(case)


if __name__ == "__main__":
    compare_all()
    PAGE.write_text(page(rows()), "utf-8")
