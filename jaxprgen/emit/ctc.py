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

from jaxprgen._jax import Var
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import gather as ga
from jaxprgen.emit import reduce
from jaxprgen.emit.control import scan
from jaxprgen.emit.shape import concatenate, expand_dims
from jaxprgen.emit.softmax import log_softmax
from jaxprgen.emit.sort import argsort
from jaxprgen.emit.values import INT32, Value, atom, dtype_of, like, shape_of, splat
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax

NEVER = -np.inf


class _Paths(NamedTuple):
    """The classes of states (batch, states), the last state's number, and who can have none."""

    states: Value
    last: Value
    impossible: Value


def ctc(b: Builder, x: Value, labels: Value, lengths: Value) -> tuple[Value, Value]:
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
    times, batch, _ = shape_of(x)
    if 0 in shape_of(x):
        return splat(0, dtype_of(x), (batch,)), splat(0, dtype_of(x), shape_of(x))
    paths = _paths(b, labels, lengths)
    rows = np.arange(batch)
    scores = log_softmax(b, x, [2])
    emitted = ga.take(b, scores, [slice(None), rows[:, None], paths.states])
    before = _sweep(b, emitted, paths.states)
    likelihood = _likelihood(b, before, paths, lengths)
    cost = ew.where(b, paths.impossible, like(x, 0), ew.negative(b, likelihood))
    # What comes behind a state is what comes before it if time and states run backwards.
    mirror = _mirror(b, paths, lengths, times)
    states = ga.take(b, paths.states, [rows[:, None], mirror[2]])
    behind = ga.take(b, _sweep(b, ga.take(b, emitted, mirror), states), mirror)
    share = ew.subtract(b, ew.add(b, before, behind), emitted)
    share = ew.subtract(b, share, expand_dims(b, likelihood, [0, 2]))
    on_path = ew.bitwise_and(b, _inside(b, paths, lengths, times), _is_finite(b, emitted))
    on_path = ew.bitwise_and(b, on_path, expand_dims(b, _is_finite(b, likelihood), [0, 2]))
    share = ew.exp(b, ew.where(b, on_path, share, like(x, NEVER)))
    index = [slice(None), rows[:, None], paths.states]
    expected = ga.put(b, splat(0, dtype_of(x), shape_of(x)), share, index, add=True)
    slope = ew.subtract(b, ew.exp(b, scores), expected)
    counted = expand_dims(b, _counted(b, paths, lengths, times), [2])
    return cost, ew.where(b, counted, slope, like(x, 0))


def _paths(b: Builder, labels: Value, lengths: Value) -> _Paths:
    batch, count = shape_of(labels)
    if not count:
        blank = splat(0, INT32, (batch, 1))
        return _Paths(blank, splat(0, INT32, (batch,)), ew.less(b, lengths, like(lengths, 1)))
    skipped = ew.less(b, labels, like(labels, 0))
    order = argsort(b, ew.convert(b, skipped, INT32), 1)
    kept = ga.take(b, labels, [np.arange(batch)[:, None], order])
    real = ew.greater_equal(b, kept, like(kept, 0))
    number = _count(b, real)
    kept = ew.convert(b, ew.where(b, real, kept, like(kept, 0)), INT32)
    edges = [(0, 0, 0), (1, -1, 0)]
    again = ew.equal(b, kept, lax.pad(b, atom(b, kept), atom(b, like(kept, -1)), edges))
    needed = ew.add(b, number, _count(b, ew.bitwise_and(b, again, real)))
    needed = ew.maximum(b, needed, like(needed, 1))
    states = lax.pad(b, atom(b, kept), atom(b, like(kept, 0)), [(0, 0, 0), (1, 1, 1)])
    return _Paths(states, ew.add(b, number, number), ew.less(b, lengths, needed))


def _count(b: Builder, truths: Value) -> Value:
    return reduce.sum(b, ew.convert(b, truths, INT32), [1])


Rows: TypeAlias = list[Value]


def _sweep(b: Builder, emitted: Value, states: Value) -> Value:
    """The probability of all beginnings of paths that end in a state, for each time and state."""
    times, _, count = shape_of(emitted)
    entry = (np.arange(count) < 2)[None]
    first = ga.take(b, emitted, [0])
    first = ew.where(b, entry, first, like(emitted, NEVER))
    skips = _may_skip(b, states)

    def step(
        b: Builder, skips: Value, old: Value, new: Value
    ) -> tuple[list[Value], list[Value], None]:
        two = ew.where(b, skips, _moved(b, old, 2, NEVER), like(old, NEVER))
        now = ew.add(b, _log_sum(b, [old, _moved(b, old, 1, NEVER), two]), new)
        return [now], [now], None

    if times == 1:
        return expand_dims(b, first, [0])
    later = ga.take(b, emitted, [slice(1, None)])
    (rest,) = scan(b, step, [skips], [first], [later], times - 1).stacked
    return concatenate(b, [expand_dims(b, first, [0]), rest], 0)


def _may_skip(b: Builder, states: Value) -> Value:
    """Whether a state is entered from the one before the last as well: past a blank."""
    label = ew.not_equal(b, states, like(states, 0))
    return ew.bitwise_and(b, label, ew.not_equal(b, states, _moved(b, states, 2, -1)))


def _moved(b: Builder, x: Value, by: int, fill: float) -> Value:
    """Rows moved to the right, and filled from the left."""
    return lax.pad(b, atom(b, x), atom(b, like(x, fill)), [(0, 0, 0), (by, -by, 0)])


def _log_sum(b: Builder, terms: list[Value]) -> Value:
    """The logarithm of the sum of exponentials, also if there is none but of minus infinity."""
    largest = terms[0]
    for x in terms[1:]:
        largest = ew.maximum(b, largest, x)
    if type(largest) is Var:
        largest = lax.stop_gradient(b, largest)
    none = ew.equal(b, largest, like(largest, NEVER))
    shift = ew.where(b, none, like(largest, 0), largest)
    total = ew.exp(b, ew.subtract(b, terms[0], shift))
    for x in terms[1:]:
        total = ew.add(b, total, ew.exp(b, ew.subtract(b, x, shift)))
    total = ew.where(b, none, like(total, 1), total)  # Lest its logarithm spoil derivatives.
    return ew.where(b, none, like(total, NEVER), ew.add(b, ew.log(b, total), shift))


def _likelihood(b: Builder, before: Value, paths: _Paths, lengths: Value) -> Value:
    """Of all paths: they end in the last state, or, if there is one, in the label before."""
    rows = np.arange(shape_of(before)[1])
    ends = ga.take(b, before, [_last(b, lengths), rows])
    label = ew.maximum(b, ew.subtract(b, paths.last, like(paths.last, 1)), like(paths.last, 0))
    blank, other = (ga.take(b, ends, [rows, where]) for where in (paths.last, label))
    alone = ew.equal(b, paths.last, like(paths.last, 0))
    return _log_sum(b, [blank, ew.where(b, alone, like(other, NEVER), other)])


def _last(b: Builder, lengths: Value) -> Value:
    return ew.maximum(b, ew.subtract(b, lengths, like(lengths, 1)), like(lengths, 0))


def _mirror(b: Builder, paths: _Paths, lengths: Value, times: int) -> list[Value]:
    """Where in (times, batch, states) there is what comes as late from the end of its sequence."""
    count = shape_of(paths.states)[1]
    now = np.arange(times, dtype=dtype_of(lengths))[:, None, None]
    state = np.arange(count, dtype=dtype_of(paths.last))[None]
    time = ew.subtract(b, expand_dims(b, _last(b, lengths), [0, 2]), now)
    place = ew.subtract(b, expand_dims(b, paths.last, [1]), state)
    rows = np.arange(shape_of(paths.states)[0])[:, None]
    return [ew.maximum(b, time, like(time, 0)), rows, ew.maximum(b, place, like(place, 0))]


def _counted(b: Builder, paths: _Paths, lengths: Value, times: int) -> Value:
    """Which times are of a sequence, and of one with paths: an array (times, batch)."""
    now = np.arange(times, dtype=dtype_of(lengths))[:, None]
    during = ew.less(b, now, expand_dims(b, lengths, [0]))
    return ew.bitwise_and(b, during, expand_dims(b, ew.invert(b, paths.impossible), [0]))


def _inside(b: Builder, paths: _Paths, lengths: Value, times: int) -> Value:
    """Which (times, batch, states) are of a sequence and of its labels."""
    state = np.arange(shape_of(paths.states)[1], dtype=dtype_of(paths.last))[None]
    own = ew.less_equal(b, state, expand_dims(b, paths.last, [1]))
    counted = expand_dims(b, _counted(b, paths, lengths, times), [2])
    return ew.bitwise_and(b, counted, expand_dims(b, own, [0]))


def _is_finite(b: Builder, x: Value) -> Value:
    return ew.less(b, ew.absolute(b, x), like(x, np.inf))


def are_possible(b: Builder, x: Value, labels: Value, lengths: Value) -> Value:
    """Whether labels are classes, and no sequence is longer than there are times."""
    times, _, classes = shape_of(x)
    short = ew.less_equal(b, lengths, like(lengths, times))
    known = ew.less(b, labels, like(labels, classes))
    both = [reduce.bitwise_and(b, v, range(len(shape_of(v)))) for v in (short, known)]
    return ew.bitwise_and(b, *both)
