"""How much is tried: Hypothesis profiles, and which tests are for deep runs.

``quick`` is what ``make test`` runs, ``ci`` is the same with fixed examples, and ``deep`` is what
``make test-deep`` runs. A test that needs more or fewer examples than others says so relative to
the profile.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

from hypothesis import settings

EXAMPLES = {"quick": 10, "ci": 10, "deep": 100}
"""How many examples a test tries, by profile."""

# Compiling takes its time, hence no deadline. A failure prints the line that reproduces it.
for _name, _count in EXAMPLES.items():
    settings.register_profile(
        _name, max_examples=_count, deadline=None, derandomize="CI" in os.environ, print_blob=True
    )


def choose(*, deep: bool) -> None:
    """Load the profile for a run, before any test module is imported."""
    settings.load_profile("deep" if deep else "ci" if "CI" in os.environ else "quick")


def is_deep() -> bool:
    """Whether this is a deep run."""
    return settings.get_current_profile_name() == "deep"


def examples(times: float, *, quick: float | None = None, **options: Any) -> settings:
    """Settings that try this many times the examples of the profile, in quick runs ``quick`` times.

    Use a number above 1 for laws over large spaces whose examples are cheap, and one below 1 for
    examples that compile large programs. Other options are those of `hypothesis.settings`.
    """
    times = times if quick is None or is_deep() else quick
    return settings(max_examples=max(1, round(times * settings.default.max_examples)), **options)


def sample(cases: Iterable[Any], count: int) -> list[Any]:
    """Return all the cases in a deep run, and this many of them, evenly spread, in a quick one."""
    cases = list(cases)
    if is_deep() or len(cases) <= count:
        return cases
    return [cases[i * len(cases) // count] for i in range(count)]


def in_turn(cases: Iterable[Any], ways: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Return all pairs in a deep run, and in a quick one each case with one of the ways, in turn.

    There are at least as many cases as ways.
    """
    cases, ways = list(cases), list(ways)
    assert len(cases) >= len(ways)
    if is_deep():
        return list(itertools.product(cases, ways))
    return list(zip(cases, itertools.cycle(ways), strict=False))


def amount(*, quick: int, deep: int) -> int:
    """Return how many draws or points to try in this run."""
    return deep if is_deep() else quick
