"""Sums of floating-point numbers in their written order: terms, and stretches of them that repeat.

Parentheses are part of a sum's meaning: ``s + (a - b)`` may be exact where ``(s + a) - b`` has no
correct digit, and ``(s + a0 - b0) + a1 - b1`` stays small where ``a0 + a1`` overflows. So a sum is
read as a left fold, and only consecutive terms are added up before they join the others. Each such
partial sum is the difference of two that the written order has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from jaxprgen.ir import Atom


class Term(NamedTuple):
    """One term of a sum.

    Attributes
    ----------
    sign : int
        1, or -1 if the term is subtracted.
    atom : Atom
        The term.
    """

    sign: int
    atom: Atom


class Stretch(NamedTuple):
    """Consecutive terms of a sum that repeat kinds of terms in the same order.

    Attributes
    ----------
    kinds : tuple
        The kinds of one repetition. Neighbours differ.
    repetitions : list of list of list of Term
        For each repetition, the terms of each kind: one or several in a row.
    """

    kinds: tuple[Hashable, ...]
    repetitions: list[list[list[Term]]]

    @property
    def terms(self) -> list[Term]:
        """The terms in their written order."""
        return [term for row in self.repetitions for run in row for term in run]

    @property
    def most(self) -> int:
        """How many terms there are of the most frequent kind."""
        rows = zip(*self.repetitions, strict=True)
        return max(sum(map(len, runs)) for runs in rows)


def stretches(terms: Sequence[Term], kinds: Sequence[Hashable]) -> list[Stretch]:
    """Split a sum into stretches, in the written order.

    Where terms are both added and subtracted, each repetition has equally many of each kind: they
    may only be small together.

    Parameters
    ----------
    terms : sequence of Term
        The terms.
    kinds : sequence of hashable
        The kind of each term.
    """
    runs = [
        (kind, [term for _, term in run])
        for kind, run in groupby(zip(kinds, terms, strict=True), key=lambda pair: pair[0])
    ]
    is_mixed = len({term.sign for term in terms}) > 1
    found: list[Stretch] = []
    looks = [(kind, len(run) if is_mixed else 0) for kind, run in runs]
    for start, period, times in _repetitions(looks):
        stops = range(start + period, start + period * times + 1, period)
        rows = [[run for _, run in runs[stop - period : stop]] for stop in stops]
        found.append(Stretch(tuple(kind for kind, _ in runs[start : start + period]), rows))
    return found


_TIMES = 3
"""From how many repetitions of several kinds on they form one stretch."""
_PERIODS = 8
"""How many numbers of kinds in a repetition are tried."""


def _repetitions(kinds: Sequence[Hashable]) -> list[tuple[int, int, int]]:
    """Split a sequence into parts that repeat something: start, period and number of times.

    At each place the part that reaches furthest is taken. The cost is linear: periods are guessed
    from the distances between equal kinds.
    """
    n, places = len(kinds), dict[Hashable, list[int]]()
    distances: Counter[int] = Counter()
    for i, kind in enumerate(kinds):
        before = places.setdefault(kind, [])
        distances.update(i - j for j in before[-4:])
        before.append(i)
    number = {kind: i for i, kind in enumerate(places)}
    array = np.asarray([number[kind] for kind in kinds])
    periods = sorted(p for p, _ in distances.most_common(_PERIODS))
    # For each period, where an element and the one a period later differ.
    ends = {p: [*np.flatnonzero(array[p:] != array[:-p]).tolist(), n - p] for p in periods}
    found: list[tuple[int, int, int]] = []
    start = 0
    while start < n:
        period, count = 1, 1
        for p, differing in ends.items():
            end = differing[bisect_left(differing, min(start, n - p))]
            times = max(end - start, 0) // p + 1
            if times >= _TIMES and times * p > period * count:
                period, count = p, times
        found.append((start, period, count))
        start += period * count
    return found
