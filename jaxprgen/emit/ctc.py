"""Connectionist temporal classification: sequences of labels, at times that are not known.

A. Graves and others, *Connectionist Temporal Classification*, ICML 2006; all in logarithms. A path
gives each time one class; class 0 is blank. It stands for the labels that are left once repeated
classes are joined and blanks then dropped. States are the labels with blanks around each: a path
goes from one of the first two states to one of the last two, and at each time it stays, goes on by
one, or leaves out a blank between different labels.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import gather as ga
from jaxprgen.emit import primitives as lax
from jaxprgen.emit import reduce
from jaxprgen.emit.control import scan
from jaxprgen.emit.shape import concatenate, expand_dims
from jaxprgen.emit.softmax import log_softmax
from jaxprgen.emit.sort import argsort
from jaxprgen.emit.values import INT32, Value, full

NEVER = -np.inf


class _Paths(NamedTuple):
    """The classes of states (batch, states), the last state's number, and who can have none."""

    states: Value
    last: Value
    impossible: Value


def ctc(x: Value, labels: Value, lengths: Value) -> tuple[Value, Value]:
    """Minus the logarithm of the probability of labels, and its derivative by the scores.

    Parameters
    ----------
    b
        Where to emit.
    x
        Scores of shape (times, batch, classes), of which the softmax is taken.
    labels
        Integers of shape (batch, labels); negative ones are passed over.
    lengths
        How many times there are in each sequence.

    Returns
    -------
    cost, slope
        Of shapes (batch,) and (times, batch, classes). Both are 0 for a sequence that is too short
        for its labels, as with the library that Aesara calls, warp-ctc.
    """
    times, batch, _ = x.shape
    if 0 in x.shape:
        return full((batch,), 0, x.dtype), full(x.shape, 0, x.dtype)
    paths = _paths(labels, lengths)
    rows = np.arange(batch)
    scores = log_softmax(x, [2])
    emitted = ga.take(scores, [slice(None), rows[:, None], paths.states])
    before = _sweep(emitted, paths.states)
    likelihood = _likelihood(before, paths, lengths)
    cost = ew.where(paths.impossible, 0, -likelihood)
    # What comes behind a state is what comes before it if time and states run backwards.
    mirror = _mirror(paths, lengths, times)
    states = ga.take(paths.states, [rows[:, None], mirror[2]])
    behind = ga.take(_sweep(ga.take(emitted, mirror), states), mirror)
    share = before + behind - emitted
    share = share - expand_dims(likelihood, [0, 2])
    on_path = _inside(paths, lengths, times) & _is_finite(emitted)
    on_path = on_path & expand_dims(_is_finite(likelihood), [0, 2])
    share = ew.exp(ew.where(on_path, share, NEVER))
    index = [slice(None), rows[:, None], paths.states]
    expected = ga.put(full(x.shape, 0, x.dtype), share, index, add=True)
    slope = ew.exp(scores) - expected
    counted = expand_dims(_counted(paths, lengths, times), [2])
    return cost, ew.where(counted, slope, 0)


def _paths(labels: Value, lengths: Value) -> _Paths:
    batch, count = labels.shape
    if not count:
        blank = full((batch, 1), 0, INT32)
        return _Paths(blank, full((batch,), 0, INT32), lengths < 1)
    skipped = labels < 0
    order = argsort(skipped.astype(INT32), 1)
    kept = ga.take(labels, [np.arange(batch)[:, None], order])
    real = kept >= 0
    number = _count(real)
    kept = ew.where(real, kept, 0).astype(INT32)
    edges = [(0, 0, 0), (1, -1, 0)]
    again = ew.equal(kept, lax.pad(kept, kept.like(-1), edges))
    needed = number + _count(again & real)
    needed = ew.maximum(needed, 1)
    states = lax.pad(kept, kept.like(0), [(0, 0, 0), (1, 1, 1)])
    return _Paths(states, number + number, lengths < needed)


def _count(truths: Value) -> Value:
    return reduce.sum(truths.astype(INT32), [1])


Rows: TypeAlias = list[Value]


def _sweep(emitted: Value, states: Value) -> Value:
    """The probability of all beginnings of paths that end in a state, for each time and state."""
    times, _, count = emitted.shape
    entry = Value((np.arange(count) < 2)[None])
    first = ga.take(emitted, [0])
    first = ew.where(entry, first, NEVER)
    skips = _may_skip(states)

    def step(skips: Value, old: Value, new: Value) -> tuple[list[Value], list[Value], None]:
        two = ew.where(skips, _moved(old, 2, NEVER), NEVER)
        now = _log_sum([old, _moved(old, 1, NEVER), two]) + new
        return [now], [now], None

    if times == 1:
        return expand_dims(first, [0])
    later = ga.take(emitted, [slice(1, None)])
    (rest,) = scan(step, [skips], [first], [later], times - 1).stacked
    return concatenate([expand_dims(first, [0]), rest], 0)


def _may_skip(states: Value) -> Value:
    """Whether a state is entered from the one before the last as well: past a blank."""
    label = ew.not_equal(states, 0)
    return label & ew.not_equal(states, _moved(states, 2, -1))


def _moved(x: Value, by: int, fill: float) -> Value:
    """Rows moved to the right, and filled from the left."""
    return lax.pad(x, x.like(fill), [(0, 0, 0), (by, -by, 0)])


def _log_sum(terms: list[Value]) -> Value:
    """The logarithm of the sum of exponentials, also if there is none but of minus infinity."""
    largest = terms[0]
    for x in terms[1:]:
        largest = ew.maximum(largest, x)
    if largest.static is None:
        largest = lax.stop_gradient(largest)
    none = ew.equal(largest, NEVER)
    shift = ew.where(none, 0, largest)
    total = ew.exp(terms[0] - shift)
    for x in terms[1:]:
        total = total + ew.exp(x - shift)
    total = ew.where(none, 1, total)  # Lest its logarithm spoil derivatives.
    return ew.where(none, NEVER, ew.log(total) + shift)


def _likelihood(before: Value, paths: _Paths, lengths: Value) -> Value:
    """Of all paths: they end in the last state, or, if there is one, in the label before."""
    rows = np.arange(before.shape[1])
    ends = ga.take(before, [_last(lengths), rows])
    label = ew.maximum(paths.last - 1, 0)
    blank, other = (ga.take(ends, [rows, where]) for where in (paths.last, label))
    alone = ew.equal(paths.last, 0)
    return _log_sum([blank, ew.where(alone, NEVER, other)])


def _last(lengths: Value) -> Value:
    return ew.maximum(lengths - 1, 0)


def _mirror(paths: _Paths, lengths: Value, times: int) -> list[ga.Entry]:
    """Where in (times, batch, states) there is what comes as late from the end of its sequence."""
    count = paths.states.shape[1]
    now = np.arange(times)[:, None, None]
    state = np.arange(count, dtype=paths.last.dtype)[None]
    time = expand_dims(_last(lengths), [0, 2]) - now
    place = expand_dims(paths.last, [1]) - state
    rows = np.arange(paths.states.shape[0])[:, None]
    return [ew.maximum(time, 0), rows, ew.maximum(place, 0)]


def _counted(paths: _Paths, lengths: Value, times: int) -> Value:
    """Which times are of a sequence, and of one with paths: an array (times, batch)."""
    now = np.arange(times)[:, None]
    during = expand_dims(lengths, [0]) > now
    return during & expand_dims(~paths.impossible, [0])


def _inside(paths: _Paths, lengths: Value, times: int) -> Value:
    """Which (times, batch, states) are of a sequence and of its labels."""
    state = np.arange(paths.states.shape[1])[None]
    own = expand_dims(paths.last, [1]) >= state
    counted = expand_dims(_counted(paths, lengths, times), [2])
    return counted & expand_dims(own, [0])


def _is_finite(x: Value) -> Value:
    return abs(x) < np.inf


def are_possible(x: Value, labels: Value, lengths: Value) -> Value:
    """Whether labels are classes, and no sequence is longer than there are times."""
    times, _, classes = x.shape
    short = lengths <= times
    known = labels < classes
    both = [reduce.bitwise_and(v, range(v.ndim)) for v in (short, known)]
    return both[0] & both[1]
