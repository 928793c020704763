"""Batch normalization: S. Ioffe and C. Szegedy, *Batch Normalization*, 2015.

Arrays of one rank that broadcast; means and sums keep the axes that they go over, with size one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import reduce
from jaxprgen.emit.shape import expand_dims
from jaxprgen.emit.values import Value, like, shape_of
from jaxprgen.errors import ShapeMismatchError
from jaxprgen.ir import Builder


def _sum(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    return expand_dims(b, reduce.sum(b, x, axes), axes)


def mean(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """The mean over axes."""
    count = math.prod(shape_of(x)[d] for d in axes)
    return ew.divide(b, _sum(b, x, axes), like(x, count))


def variance(b: Builder, x: Value, center: Value, axes: Sequence[int]) -> Value:
    """The mean square of the distance from a center, which is the mean."""
    return mean(b, ew.square(b, ew.subtract(b, x, center)), axes)


def inverse_deviation(b: Builder, square: Value, epsilon: Value) -> Value:
    """``1 / sqrt(square + epsilon)``."""
    return ew.reciprocal(b, ew.sqrt(b, ew.add(b, square, epsilon)))


def normalize(b: Builder, x: Value, center: Value, factor: Value, bias: Value) -> Value:
    """``(x - center) * factor + bias``."""
    return ew.add(b, ew.multiply(b, ew.subtract(b, x, center), factor), bias)


def moving(b: Builder, old: Value, new: Value, share: Value) -> Value:
    """A moving average: ``old`` with a share of ``new``."""
    rest = ew.subtract(b, like(share, 1), share)
    return ew.add(b, ew.multiply(b, old, rest), ew.multiply(b, new, share))


def unbiased(b: Builder, square: Value, count: float) -> Value:
    """A variance of ``count`` elements as an estimate of that of all there might be.

    Raises
    ------
    ShapeMismatchError
        There is but one element.
    """
    if count == 1:
        raise ShapeMismatchError("One element has no variance to estimate a running one from.")
    return ew.multiply(b, square, like(square, np.float64(count) / (count - 1)))


def normalize_vjp(
    b: Builder,
    x: Value,
    cotangent: Value,
    scale: Value,
    center: Value,
    inverse: Value,
    axes: Sequence[int],
) -> list[Value]:
    """The vector-Jacobian products of normalizing, then scaling and adding a bias.

    With respect to ``x``, on which mean and deviation depend, to the scale, and to the bias.
    ``inverse`` is one by the deviation.
    """
    shifted = ew.subtract(b, x, center)
    both = mean(b, ew.multiply(b, cotangent, shifted), axes)
    cube = ew.multiply(b, inverse, ew.square(b, inverse))
    along = ew.multiply(b, ew.multiply(b, shifted, both), cube)
    own = ew.subtract(b, ew.multiply(b, cotangent, inverse), along)
    return [
        ew.multiply(b, scale, ew.subtract(b, own, mean(b, own, axes))),
        _sum(b, ew.multiply(b, ew.multiply(b, cotangent, inverse), shifted), axes),
        _sum(b, cotangent, axes),
    ]
