"""The softmax family, as SciPy computes it (`scipy.special.softmax`, `log_softmax`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import gather as ga
from jaxprgen.emit import reduce
from jaxprgen.emit.shape import expand_dims, slice_axis
from jaxprgen.emit.values import Value, broadcast_to, dtype_of, like, shape_of, splat
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def softmax(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """``exp(x)``, scaled to the sum 1 over the axes."""
    powers = ew.exp(b, ew.subtract(b, x, _largest(b, x, axes)))
    return ew.divide(b, powers, _kept(b, reduce.sum(b, powers, axes), axes))


def log_softmax(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """The logarithm of `softmax`, also where that is too small for a number."""
    shifted = ew.subtract(b, x, _kept(b, centre(b, x, axes), axes))
    total = _kept(b, reduce.sum(b, ew.exp(b, shifted), axes), axes)
    return ew.subtract(b, shifted, ew.log(b, total))


def centre(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """What to subtract lest powers overflow: the largest, or zero where that is infinite.

    It does not matter to derivatives.
    """
    largest = _constant(b, reduce.max(b, x, axes))
    size = ew.absolute(b, largest)
    return ew.where(b, ew.less(b, size, like(size, np.inf)), largest, like(x, 0))


def softmax_vjp(b: Builder, cotangent: Value, y: Value, axes: Sequence[int]) -> Value:
    """The vector-Jacobian product of `softmax` where its result is ``y``."""
    product = ew.multiply(b, cotangent, y)
    total = _kept(b, reduce.sum(b, product, axes), axes)
    return ew.subtract(b, product, ew.multiply(b, total, y))


# --- Losses of classifiers: rows of scores, of which one each is the target's --------------


def softmax_loss(b: Builder, x: Value, targets: Value) -> tuple[Value, Value]:
    """Of each row, minus the logarithm of the softmax of its target; and the softmax.

    A row that has an infinite score, or no finite one, has neither.
    """
    if shape_of(targets) != shape_of(x)[:1]:
        raise _too_few(x, targets)
    shifted = ew.subtract(b, x, _largest(b, x, [1]))
    powers = ew.exp(b, shifted)
    total = reduce.sum(b, powers, [1])
    loss = ew.subtract(b, ew.log(b, total), ga.take(b, shifted, _places(b, x, targets)))
    return loss, ew.divide(b, powers, _kept(b, total, [1]))


def softmax_loss_vjp(b: Builder, cotangent: Value, softmax: Value, targets: Value) -> Value:
    """The vector-Jacobian product of `softmax_loss` where the softmax is this one.

    Cotangents and targets of more rows than there are do not matter.
    """
    (count,) = shape_of(softmax)[:1]
    if shape_of(cotangent) > (1,):
        cotangent = slice_axis(b, cotangent, 0, 0, min(count, *shape_of(cotangent)))
    rows = broadcast_to(b, cotangent, (count,))
    scaled = ew.multiply(b, softmax, expand_dims(b, rows, [1]))
    return ga.put(b, scaled, ew.negative(b, rows), _places(b, softmax, targets), add=True)


def negative_log(b: Builder, x: Value, targets: Value) -> Value:
    """Of each row, minus the logarithm of its target's element."""
    return ew.negative(b, ew.log(b, ga.take(b, x, _places(b, x, targets))))


def negative_log_vjp(b: Builder, cotangent: Value, x: Value, targets: Value) -> Value:
    """The vector-Jacobian product of `negative_log`; zero in rows that no cotangent is left for."""
    places = _places(b, x, targets, *shape_of(cotangent))
    slopes = ew.divide(b, ew.negative(b, cotangent), ga.take(b, x, places))
    return ga.put(b, splat(0, dtype_of(x), shape_of(x)), slopes, places, add=False)


def _places(b: Builder, x: Value, targets: Value, count: int | None = None) -> list[ga.Entry]:
    """The index of one element in each of the first rows, or in all."""
    rows = shape_of(x)[0]
    count = rows if count is None else count
    if count > min(rows, *shape_of(targets)):
        raise _too_few(x, targets)
    return [np.arange(count), slice_axis(b, targets, 0, 0, count)]


def _too_few(x: Value, targets: Value) -> ShapeMismatchError:
    return ShapeMismatchError(
        f"Targets of shape {shape_of(targets)} are not one for each of {shape_of(x)[0]} rows."
    )


# --- What they share ----------------------------------------------------------------------


def _largest(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """What is subtracted so that no power overflows. It does not matter to derivatives."""
    return _kept(b, _constant(b, reduce.max(b, x, axes)), axes)


def _constant(b: Builder, x: Value) -> Value:
    return lax.stop_gradient(b, x) if type(x) is Var else x


def _kept(b: Builder, reduced: Value, axes: Sequence[int]) -> Value:
    return expand_dims(b, reduced, axes)
