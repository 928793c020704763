"""Draws from discrete distributions by inversion of given uniform numbers."""

from __future__ import annotations

import numpy as np

from jaxprgen.emit import elementwise as ew, primitives as lax, reduce
from jaxprgen.emit.shape import concatenate, expand_dims, reshape, slice_axis
from jaxprgen.emit.sizes import require_at_least, with_size
from jaxprgen.emit.values import INT32, INT64, Dtype, Value, full


def _by_draw(p: Value, u: Value, count: int) -> Value:
    """Return the uniform numbers as a matrix: one row per draw, one column per distribution."""
    rows = p.shape[0]
    text = f"{count} draws from {rows} distributions need {rows * count} uniform numbers, got "
    return reshape(with_size(u, 0, rows * count, f"{text}{u.shape[0]}."), (count, rows))


def multinomial_counts(p: Value, u: Value, count: int) -> Value:
    """Return how often each outcome is drawn: the first at which the running sum reaches ``u``.

    A number above the sum of all probabilities draws nothing.

    Parameters
    ----------
    p : (rows, outcomes)
        The probabilities of each distribution.
    u : (count * rows,)
        The uniform numbers, those of all rows for the first draw, then for the second.
    count
        The number of draws per row.

    Returns
    -------
    (rows, outcomes) int32

    Raises
    ------
    ShapeMismatchError
        There are more or fewer uniform numbers than draws.
    """
    u, outcomes = _by_draw(p, u, count), p.shape[1]
    if not (p.size and count):
        return full(p.shape, 0, INT32)
    total = reduce.cumsum(p.astype(ew.canonical(np.float64)), 1)
    dtype = np.promote_types(total.dtype, u.dtype)
    total, u = total.astype(dtype), expand_dims(u.astype(dtype), [2])
    precedes = ~((total >= u) | ew.isnan(total))
    outcome = expand_dims(reduce.sum(precedes.astype(INT32), (2,)), [2])
    drawn = ew.equal(outcome, lax.iota(INT32, (outcomes,), 0))
    return reduce.sum(drawn.astype(INT32), (0,))


def choose(p: Value, u: Value, count: int, dtype: Dtype, *, replace: bool) -> Value:
    """Return drawn outcomes: the first at which the running sum exceeds ``u``, or else -1.

    Parameters
    ----------
    p, u, count
        As of `multinomial_counts`.
    dtype
        The dtype of the result.
    replace
        Whether an outcome may be drawn again. If not, the others are divided by their sum.

    Returns
    -------
    (rows, count)

    Raises
    ------
    ShapeMismatchError
        As `multinomial_counts`, or ``count`` exceeds the number of outcomes.
    """
    rows, outcomes = p.shape
    require_at_least(outcomes, count, f"Cannot draw {count} times from only {outcomes} outcomes.")
    draws = _by_draw(p, u, count)
    if p.dtype.kind in "biu":  # The running sum of booleans would be a boolean.
        p = p.astype(ew.canonical(np.float64))
    if not (rows and count):
        return full((rows, count), -1, dtype)
    positions = lax.iota(ew.canonical(INT64), (outcomes,), 0)
    chosen: list[Value] = []
    for i in range(count):
        u = reshape(slice_axis(draws, 0, i, i + 1), (rows, 1))
        total = reduce.cumsum(p, 1)
        wide = np.promote_types(total.dtype, u.dtype)
        exceeds = total.astype(wide) > u.astype(wide)
        first = expand_dims(reduce.argmax(exceeds, (1,)), [1])
        found = expand_dims(reduce.bitwise_or(exceeds, (1,)), [1])
        chosen.append(ew.where(found, first, -1))
        if not replace:
            rest = ew.where(ew.equal(positions, first) & found, 0, p)
            rest = rest / expand_dims(reduce.sum(rest, (1,)), [1])
            p = ew.where(found, rest, p)
    return concatenate(chosen, 1).astype(dtype)
