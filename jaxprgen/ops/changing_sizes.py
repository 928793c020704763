"""Sizes that change from one step of a loop to the next, where the loop's sequences are known.

Every step then computes the largest size. A mask selects the elements that the step has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen.emit import elementwise as ew, index as ix
from jaxprgen.emit.selection import Selected, nonnegative, select_first
from jaxprgen.emit.sizes import as_size, is_symbolic, require_at_least
from jaxprgen.emit.values import INT64, Shape, Value
from jaxprgen.errors import ShapeMismatchError, StaticShapeError, SymbolicSizeError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import is_a


class Sizes(NamedTuple):
    """The sizes of a result, which may change along one axis.

    Attributes
    ----------
    shape
        The largest sizes.
    axis
        The axis along which sizes change, or None.
    number
        The size along this axis.
    refuse
        Returns the error for a graph that needs the size.
    """

    shape: Shape
    axis: int | None = None
    number: Value | None = None
    refuse: Callable[[], Exception] | None = None

    def of(self, x: Value) -> Value | Selected:
        """Return the part of an array of the largest sizes that there is."""
        if self.axis is None:
            return x
        assert self.number is not None and self.refuse is not None
        return select_first(x, self.number, self.axis, self.refuse)


def sizes_of(ctx: RuleContext, positions: Sequence[int], xs: Sequence[Value]) -> Sizes:
    """Return the sizes that inputs hold: scalars, or one vector.

    Raises
    ------
    StaticShapeError
        Sizes depend on values that are not known, or change along several axes.
    ShapeMismatchError
        A size of a step is negative.
    """
    try:
        shape = _integers([ctx.static(i) for i in positions])
    except SymbolicSizeError:
        raise
    except StaticShapeError as error:
        found = ctx.decided(positions, _largest, over_steps=True)
        if found is None:
            raise ctx.undecided(positions, over_steps=True) from None
        refusal = error
    else:
        for n in filter(is_symbolic, shape):
            require_at_least(n, 0, _negative(shape))
        return Sizes(shape)
    shape = tuple(most for most, _ in found)
    changing = [d for d, (_, changes) in enumerate(found) if changes]
    if not changing:
        return Sizes(shape)
    if len(changing) > 1:
        raise refusal
    (axis,) = changing
    number = xs[axis] if xs[0].ndim == 0 else _element(ctx, positions[0], xs[0], axis)
    return Sizes(shape, axis, nonnegative(number.astype(ew.canonical(INT64))), lambda: refusal)


def _element(ctx: RuleContext, position: int, x: Value, index: int) -> Value:
    """Return an element of a vector, as it was before the graph made a vector of it."""
    made = ctx.producer(position)
    if made is not None and is_a(made[0].op, "tensor.MakeVector"):
        return made[1][index]
    return ix.take(x, [index])


def _integers(values: Sequence[Any]) -> Shape:
    return tuple(as_size(n) for x in values for n in np.atleast_1d(x))


def _largest(steps: Sequence[Sequence[Any]]) -> tuple[tuple[int, bool], ...]:
    """Return the largest size along each axis, and whether sizes change along it."""
    sizes = [_integers(values) for values in steps]
    for own in sizes:
        if min(own) < 0:
            raise _negative(own)
    return tuple((max(ns), len(set(ns)) > 1) for ns in zip(*sizes, strict=True))


def _negative(shape: Shape) -> ShapeMismatchError:
    return ShapeMismatchError(f"Sizes must be >= 0, got {shape}.")
