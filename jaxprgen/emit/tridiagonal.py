"""Systems with tridiagonal matrices, as LAPACK's ``gttrf`` and ``gttrs`` factorize and solve them.

A matrix is given by its diagonals. Its LU decomposition with row swaps has the multipliers ``dl``,
the upper factor's diagonals ``d``, ``du`` and ``du2``, and ``pivots``: the row, counted from one,
that takes the place of each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprgen.emit import elementwise as ew, primitives as lax
from jaxprgen.emit.control import scan
from jaxprgen.emit.shape import concatenate, expand_dims, slice_axis
from jaxprgen.emit.values import INT32, Value, full, where

Stepped = tuple[list[Value], list[Value], None]


def factorize(dl: Value, d: Value, du: Value) -> tuple[Value, Value, Value, Value, Value]:
    """Return ``dl``, ``d``, ``du``, ``du2`` and ``pivots`` of a matrix of ``n`` rows.

    Parameters
    ----------
    dl, d, du : (n - 1,), (n,) and (n - 1,) arrays of one dtype
        The diagonals below, on and above the main diagonal.
    """
    n = d.shape[0]
    numbers = lax.iota(INT32, (n,), 0) + 1
    if n < 2:
        return dl, d, du, full((0,), 0, d.dtype), numbers

    def step(d: Value, u: Value, low: Value, next_d: Value, next_u: Value) -> Stepped:
        stays = abs(d) >= abs(low)
        is_zero = ew.equal(d, 0) & stays
        upper, lower = where(stays, d, low), where(stays, low, d)
        factor = where(is_zero, lower, lower / where(is_zero, 1, upper))
        top = where(stays, u, next_d)
        left = where(is_zero, next_d, where(stays, next_d, u) - factor * top)
        fill = where(stays, 0, next_u)
        after = where(stays, next_u, -factor * next_u)
        return [left, after], [factor, upper, top, fill, stays], None

    tail = concatenate([slice_axis(du, 0, 1, n - 1), full((1,), 0, du.dtype)], 0)
    start = [_row(d, 0), _row(du, 0)]
    found = scan(step, [], start, [dl, slice_axis(d, 0, 1, n), tail], n - 1)
    factors, upper, top, fill, stays = found.stacked
    rows = slice_axis(numbers, 0, 0, n - 1)
    pivots = concatenate([where(stays, rows, rows + 1), slice_axis(numbers, 0, n - 1, n)], 0)
    d = concatenate([upper, expand_dims(found.carries[0], [0])], 0)
    return factors, d, top, slice_axis(fill, 0, 0, n - 2), pivots


def solve(
    dl: Value, d: Value, du: Value, du2: Value, pivots: Value, y: Value, *, transpose: bool
) -> Value:
    """Return the solution for the right-hand sides ``y``, of shape (n,) or (n, k)."""
    n = d.shape[0]
    if n == 0:
        return y
    stays = ew.equal(slice_axis(pivots, 0, 0, n - 1), lax.iota(INT32, (n - 1,), 0) + 1)
    if transpose:
        return _backward_swaps(dl, stays, _lower(d, du, du2, y))
    return _reversed(_lower(*map(_reversed, (d, du, du2, _forward_swaps(dl, stays, y)))))


def _forward_swaps(dl: Value, stays: Value, y: Value) -> Value:
    """Return ``y`` after the row operations of the decomposition."""

    def step(row: Value, factor: Value, stays: Value, below: Value) -> Stepped:
        kept, moved = where(stays, row, below), where(stays, below, row)
        return [moved - factor * kept], [kept], None

    last, (kept,) = _steps(step, [_row(y, 0)], [dl, stays, slice_axis(y, 0, 1, y.shape[0])])
    return concatenate([kept, expand_dims(last[0], [0])], 0)


def _backward_swaps(dl: Value, stays: Value, y: Value) -> Value:
    """Return ``y`` after the transposed row operations, in reverse order."""

    def step(below: Value, factor: Value, stays: Value, row: Value) -> Stepped:
        changed = row - factor * below
        return [where(stays, changed, below)], [where(stays, below, changed)], None

    n = y.shape[0]
    rows = [_reversed(x) for x in (dl, stays, slice_axis(y, 0, 0, n - 1))]
    first, (kept,) = _steps(step, [_row(y, n - 1)], rows)
    return _reversed(concatenate([kept, expand_dims(first[0], [0])], 0))


def _lower(d: Value, e: Value, e2: Value, y: Value) -> Value:
    """Solve with a lower triangle of the diagonals ``d``, ``e`` and ``e2``."""
    n, zero = d.shape[0], full((1,), 0, d.dtype)
    first = concatenate([zero, e], 0)
    second = concatenate([zero, zero, e2], 0) if n > 1 else zero

    def step(one: Value, two: Value, d: Value, e: Value, e2: Value, y: Value) -> Stepped:
        x = (y - e * one - e2 * two) / d
        return [x, one], [x], None

    nothing = full(y.shape[1:], 0, y.dtype)
    return _steps(step, [nothing, nothing], [d, first, second, y])[1][0]


def _steps(
    step: Callable[..., Stepped], carries: Sequence[Value], arrays: Sequence[Value]
) -> tuple[list[Value], list[Value]]:
    count = arrays[0].shape[0]
    if count == 0:
        shape = arrays[-1].shape
        return list(carries), [full(shape, 0, carries[0].dtype)]
    found = scan(step, [], carries, arrays, count)
    return found.carries, found.stacked


def _row(x: Value, i: int) -> Value:
    return lax.squeeze(slice_axis(x, 0, i, i + 1), [0])


def _reversed(x: Value) -> Value:
    return lax.rev(x, [0])
