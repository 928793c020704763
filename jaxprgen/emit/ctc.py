"""Connectionist temporal classification: the likelihood of labels at unknown times.

A. Graves and others, *Connectionist Temporal Classification*, ICML 2006, with logarithms of
probabilities. A path gives each time one class, of which class 0 is blank. It stands for the labels
that remain after repeated classes are merged and blanks are dropped. States are the labels with
blanks around each. A path starts in one of the first two states and ends in one of the last two. At
each time it stays, moves on by one state, or skips a blank between different labels.
"""

from __future__ import annotations

import functools
import operator
from typing import NamedTuple

import numpy as np

from jaxprgen._jax import Size
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import gather as ga
from jaxprgen.emit import primitives as lax
from jaxprgen.emit import reduce
from jaxprgen.emit.control import scan
from jaxprgen.emit.create import positions
from jaxprgen.emit.shape import concatenate, expand_dims
from jaxprgen.emit.softmax import log_softmax
from jaxprgen.emit.sort import argsort
from jaxprgen.emit.values import INT32, Value, full, lift

NEVER = -np.inf


class _Paths(NamedTuple):
    """The paths of each sequence of a batch.

    Attributes
    ----------
    states : (batch, states) int32
        The class of each state.
    last : (batch,) int32
        The number of the last state.
    impossible : (batch,) bool
        Whether the sequence is too short for its labels.
    """

    states: Value
    last: Value
    impossible: Value


def ctc(x: Value, labels: Value, lengths: Value) -> tuple[Value, Value]:
    """Return minus the log-likelihood of labels, and its derivative with respect to the scores.

    Parameters
    ----------
    x : (times, batch, classes) float
        Scores, of which the softmax is taken.
    labels : (batch, labels) integers
        The labels; negative ones are ignored.
    lengths : (batch,) integers
        The number of times of each sequence.

    Returns
    -------
    cost : (batch,) float
        Minus the log-likelihood; 0 for a sequence that is too short for its labels, as in warp-ctc,
        the library that Aesara calls.
    slope : (times, batch, classes) float
        The derivative; 0 for such a sequence.
    """
    times, batch, _ = x.shape
    if 0 in x.shape:
        return full((batch,), 0, x.dtype), full(x.shape, 0, x.dtype)
    paths = _paths(labels, lengths)
    rows = positions((batch, 1), 0)
    scores = log_softmax(x, [2])
    emitted = ga.take(scores, [slice(None), rows, paths.states])
    before = _sweep(emitted, paths.states)
    likelihood = _likelihood(before, paths, lengths)
    cost = ew.where(paths.impossible, 0, -likelihood)
    # The ends of paths after a state are the beginnings if time and states are reversed.
    mirror = _mirror(paths, lengths, times)
    states = ga.take(paths.states, [rows, mirror[2]])
    after = ga.take(_sweep(ga.take(emitted, mirror), states), mirror)
    share = before + after - emitted - expand_dims(likelihood, [0, 2])
    on_path = _inside(paths, lengths, times) & _is_finite(emitted)
    on_path = on_path & expand_dims(_is_finite(likelihood), [0, 2])
    share = ew.exp(ew.where(on_path, share, NEVER))
    index = [slice(None), rows, paths.states]
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
    kept = ga.take(labels, [positions((batch, 1), 0), order])
    real = kept >= 0
    number = _count(real)
    kept = ew.where(real, kept, 0).astype(INT32)
    repeats = ew.equal(kept, _moved(kept, 1, -1)) & real
    needed = ew.maximum(number + _count(repeats), 1)
    states = lax.pad(kept, kept.like(0), [(0, 0, 0), (1, 1, 1)])
    return _Paths(states, number + number, lengths < needed)


def _count(truths: Value) -> Value:
    return reduce.sum(truths.astype(INT32), [1])


def _sweep(emitted: Value, states: Value) -> Value:
    """Return the log-probability of all paths up to each state, at each time."""
    times, _, count = emitted.shape
    (entry,) = lift(positions((1, count), 1) < 2)
    first = ew.where(entry, ga.take(emitted, [0]), NEVER)
    skips = _may_skip(states)

    def step(skips: Value, old: Value, new: Value) -> tuple[list[Value], list[Value], None]:
        skipped = ew.where(skips, _moved(old, 2, NEVER), NEVER)
        now = _log_sum([old, _moved(old, 1, NEVER), skipped]) + new
        return [now], [now], None

    if times == 1:
        return expand_dims(first, [0])
    later = ga.take(emitted, [slice(1, None)])
    (rest,) = scan(step, [skips], [first], [later], times - 1).stacked
    return concatenate([expand_dims(first, [0]), rest], 0)


def _may_skip(states: Value) -> Value:
    """Return where a path may enter a state from the one before the last, past a blank."""
    return ew.truth(states) & ew.not_equal(states, _moved(states, 2, -1))


def _moved(x: Value, by: int, fill: float) -> Value:
    """Move rows to the right, and fill them from the left."""
    return lax.pad(x, x.like(fill), [(0, 0, 0), (by, -by, 0)])


def _log_sum(terms: list[Value]) -> Value:
    """Return the logarithm of the sum of exponentials, also if all terms are -inf."""
    largest = functools.reduce(ew.maximum, terms)
    largest = ew.stop_gradient(largest)
    is_empty = ew.equal(largest, NEVER)
    shift = ew.where(is_empty, 0, largest)
    total = functools.reduce(operator.add, [ew.exp(x - shift) for x in terms])
    total = ew.where(is_empty, 1, total)  # Otherwise log(0) makes derivatives NaN.
    return ew.where(is_empty, NEVER, ew.log(total) + shift)


def _likelihood(before: Value, paths: _Paths, lengths: Value) -> Value:
    """Return the log-likelihood of all paths, which end in one of the last two states."""
    rows = positions(before.shape[1:2], 0)
    ends = ga.take(before, [_last(lengths), rows])
    blank, label = (
        ga.take(ends, [rows, state]) for state in (paths.last, ew.maximum(paths.last - 1, 0))
    )
    return _log_sum([blank, ew.where(ew.equal(paths.last, 0), NEVER, label)])


def _last(lengths: Value) -> Value:
    return ew.maximum(lengths - 1, 0)


def _mirror(paths: _Paths, lengths: Value, times: Size) -> list[ga.ArrayEntry]:
    """Return the index (times, batch, states) that reverses each sequence and its states."""
    count = paths.states.shape[1]
    now = positions((times, 1, 1), 0)
    state = positions((1, count), 1)
    time = expand_dims(_last(lengths), [0, 2]) - now
    place = expand_dims(paths.last, [1]) - state
    rows = positions((paths.states.shape[0], 1), 0)
    return [ew.maximum(time, 0), rows, ew.maximum(place, 0)]


def _counted(paths: _Paths, lengths: Value, times: Size) -> Value:
    """Return (times, batch): where a time belongs to a sequence that has paths."""
    now = positions((times, 1), 0)
    during = expand_dims(lengths, [0]) > now
    return during & expand_dims(~paths.impossible, [0])


def _inside(paths: _Paths, lengths: Value, times: Size) -> Value:
    """Return (times, batch, states): where time and state belong to a sequence."""
    state = positions((1, paths.states.shape[1]), 1)
    own = expand_dims(paths.last, [1]) >= state
    counted = expand_dims(_counted(paths, lengths, times), [2])
    return counted & expand_dims(own, [0])


def _is_finite(x: Value) -> Value:
    return abs(x) < np.inf


def are_possible(x: Value, labels: Value, lengths: Value) -> Value:
    """Return whether labels are classes, and lengths <= the number of times."""
    times, _, classes = x.shape
    fits, exists = lengths <= times, labels < classes
    return reduce.bitwise_and(fits, [0]) & reduce.bitwise_and(exists, [0, 1])
