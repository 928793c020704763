"""Choosing each element from one of several arrays."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.division import remainder
from jaxprgen.emit.values import INT32, INT64, Value, broadcast_to, common_shape
from jaxprgen.errors import IndexOutOfBoundsError, ShapeMismatchError


def choose(which: Value, cases: Sequence[Value], mode: str) -> Value:
    """Return `numpy.choose`: ``cases[which]``, elementwise; all operands broadcast.

    Numbers out of bounds are clamped, or wrap around in mode "wrap".

    Raises
    ------
    IndexOutOfBoundsError
        A known number is out of bounds, in mode "raise".
    ShapeMismatchError
        There are no cases.
    """
    if not cases:
        raise ShapeMismatchError("choose: needs at least one array of choices.")
    value, count = which.static, len(cases)
    if mode == "raise" and value is not None:
        wrong = value[(value < 0) | (value >= count)]
        if wrong.size:
            raise IndexOutOfBoundsError(f"Choice {wrong[0]} is out of bounds for {count} choices.")
    which = which.astype(ew.canonical(INT64))
    wraps = mode == "wrap"
    which = remainder(which, which.like(count)) if wraps else ew.clip(which, 0, count - 1)
    if count == 1:
        return broadcast_to(cases[0], common_shape(which, cases[0]))
    return lax.select_n(which.astype(INT32), *cases)


def choices_exist(which: Value, count: int) -> Value:
    """Return where numbers are in ``range(count)``."""
    which = which.astype(ew.canonical(INT64))
    clipped = ew.clip(which, 0, count - 1)
    return ew.equal(which, clipped)
