"""The softmax family, as SciPy computes it (`scipy.special.softmax`, `log_softmax`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import gather as ga
from jaxprgen.emit import primitives as lax
from jaxprgen.emit import reduce
from jaxprgen.emit.shape import expand_dims, slice_axis
from jaxprgen.emit.values import Value, broadcast_to, full
from jaxprgen.errors import ShapeMismatchError


def softmax(x: Value, axes: Sequence[int]) -> Value:
    """``exp(x)``, scaled to the sum 1 over the axes."""
    powers = ew.exp(x - _largest(x, axes))
    return powers / _kept(reduce.sum(powers, axes), axes)


def log_softmax(x: Value, axes: Sequence[int]) -> Value:
    """The logarithm of `softmax`, also where that is too small for a number."""
    shifted = x - _kept(centre(x, axes), axes)
    total = _kept(reduce.sum(ew.exp(shifted), axes), axes)
    return shifted - ew.log(total)


def centre(x: Value, axes: Sequence[int]) -> Value:
    """What to subtract lest powers overflow: the largest, or zero where that is infinite.

    It does not matter to derivatives.
    """
    largest = _constant(reduce.max(x, axes))
    size = abs(largest)
    return ew.where(size < np.inf, largest, 0)


def softmax_vjp(cotangent: Value, y: Value, axes: Sequence[int]) -> Value:
    """The vector-Jacobian product of `softmax` where its result is ``y``."""
    product = cotangent * y
    total = _kept(reduce.sum(product, axes), axes)
    return product - total * y


# --- Losses of classifiers: rows of scores, of which one each is the target's --------------


def softmax_loss(x: Value, targets: Value) -> tuple[Value, Value]:
    """Of each row, minus the logarithm of the softmax of its target; and the softmax.

    A row that has an infinite score, or no finite one, has neither.
    """
    if targets.shape != x.shape[:1]:
        raise _too_few(x, targets)
    shifted = x - _largest(x, [1])
    powers = ew.exp(shifted)
    total = reduce.sum(powers, [1])
    loss = ew.log(total) - ga.take(shifted, _places(x, targets))
    return loss, powers / _kept(total, [1])


def softmax_loss_vjp(cotangent: Value, softmax: Value, targets: Value) -> Value:
    """The vector-Jacobian product of `softmax_loss` where the softmax is this one.

    Cotangents and targets of more rows than there are do not matter.
    """
    (count,) = softmax.shape[:1]
    if cotangent.shape > (1,):
        cotangent = slice_axis(cotangent, 0, 0, min(count, *cotangent.shape))
    rows = broadcast_to(cotangent, (count,))
    scaled = softmax * expand_dims(rows, [1])
    return ga.put(scaled, -rows, _places(softmax, targets), add=True)


def negative_log(x: Value, targets: Value) -> Value:
    """Of each row, minus the logarithm of its target's element."""
    return -ew.log(ga.take(x, _places(x, targets)))


def negative_log_vjp(cotangent: Value, x: Value, targets: Value) -> Value:
    """The vector-Jacobian product of `negative_log`; zero in rows that no cotangent is left for."""
    places = _places(x, targets, *cotangent.shape)
    slopes = -cotangent / ga.take(x, places)
    return ga.put(full(x.shape, 0, x.dtype), slopes, places, add=False)


def _places(x: Value, targets: Value, count: int | None = None) -> list[ga.Entry]:
    """The index of one element in each of the first rows, or in all."""
    rows = x.shape[0]
    count = rows if count is None else count
    if count > min(rows, *targets.shape):
        raise _too_few(x, targets)
    return [np.arange(count), slice_axis(targets, 0, 0, count)]


def _too_few(x: Value, targets: Value) -> ShapeMismatchError:
    return ShapeMismatchError(
        f"Targets of shape {targets.shape} are not one for each of {x.shape[0]} rows."
    )


# --- What they share ----------------------------------------------------------------------


def _largest(x: Value, axes: Sequence[int]) -> Value:
    """What is subtracted so that no power overflows. It does not matter to derivatives."""
    return _kept(_constant(reduce.max(x, axes)), axes)


def _constant(x: Value) -> Value:
    return lax.stop_gradient(x) if x.static is None else x


def _kept(reduced: Value, axes: Sequence[int]) -> Value:
    return expand_dims(reduced, axes)
