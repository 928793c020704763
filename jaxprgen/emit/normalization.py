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
from jaxprgen.emit.values import Value
from jaxprgen.errors import ShapeMismatchError


def _sum(x: Value, axes: Sequence[int]) -> Value:
    return expand_dims(reduce.sum(x, axes), axes)


def mean(x: Value, axes: Sequence[int]) -> Value:
    """The mean over axes."""
    count = math.prod(x.shape[d] for d in axes)
    return _sum(x, axes) / count


def variance(x: Value, center: Value, axes: Sequence[int]) -> Value:
    """The mean square of the distance from a center, which is the mean."""
    return mean(ew.square(x - center), axes)


def inverse_deviation(square: Value, epsilon: Value) -> Value:
    """``1 / sqrt(square + epsilon)``."""
    return 1 / ew.sqrt(square + epsilon)


def normalize(x: Value, center: Value, factor: Value, bias: Value) -> Value:
    """``(x - center) * factor + bias``."""
    return (x - center) * factor + bias


def moving(old: Value, new: Value, share: Value) -> Value:
    """A moving average: ``old`` with a share of ``new``."""
    rest = 1 - share
    return old * rest + new * share


def unbiased(square: Value, count: float) -> Value:
    """A variance of ``count`` elements as an estimate of that of all there might be.

    Raises
    ------
    ShapeMismatchError
        There is but one element.
    """
    if count == 1:
        raise ShapeMismatchError("One element has no variance to estimate a running one from.")
    return square * (np.float64(count) / (count - 1))


def normalize_vjp(
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
    shifted = x - center
    both = mean(cotangent * shifted, axes)
    cube = inverse * ew.square(inverse)
    along = shifted * both * cube
    own = cotangent * inverse - along
    return [
        scale * (own - mean(own, axes)),
        _sum(cotangent * inverse * shifted, axes),
        _sum(cotangent, axes),
    ]
