"""Batch normalization: S. Ioffe and C. Szegedy, *Batch Normalization*, ICML 2015.

Operands have one rank and broadcast. Means and sums keep the axes that they reduce, with size one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jaxprgen._jax import Size
from jaxprgen.emit import elementwise as ew, reduce
from jaxprgen.emit.shape import expand_dims
from jaxprgen.emit.sizes import is_known, require_at_least
from jaxprgen.emit.values import Value


def _sum(x: Value, axes: Sequence[int]) -> Value:
    return expand_dims(reduce.sum(x, axes), axes)


def mean(x: Value, axes: Sequence[int]) -> Value:
    """Return the mean over axes, which are kept."""
    count = math.prod(x.shape[d] for d in axes)
    return _sum(x, axes) / count


def variance(x: Value, center: Value, axes: Sequence[int]) -> Value:
    """Return the mean squared distance from a center, which is the mean."""
    return mean(ew.square(x - center), axes)


def inverse_deviation(square: Value, epsilon: Value) -> Value:
    """Return ``1 / sqrt(square + epsilon)``."""
    return 1 / ew.sqrt(square + epsilon)


def normalize(x: Value, center: Value, factor: Value, bias: Value) -> Value:
    """Return ``(x - center) * factor + bias``."""
    return (x - center) * factor + bias


def moving(old: Value, new: Value, share: Value) -> Value:
    """Return a moving average: ``old`` with a share of ``new``."""
    return old * (1 - share) + new * share


def unbiased(square: Value, elements: Size, groups: Size) -> Value:
    """Return the variances of elements in groups of one size as unbiased estimates.

    Raises
    ------
    ShapeMismatchError
        A group has only one element.
    """
    text = "Cannot estimate a running variance from one element."
    require_at_least(elements, groups + 1, text)
    if not is_known((elements, groups)):
        return square * (square.like(elements) / square.like(elements - groups))
    return square * (np.float64(elements) / (elements - groups))


def normalize_vjp(
    x: Value, cotangent: Value, scale: Value, center: Value, inverse: Value, axes: Sequence[int]
) -> list[Value]:
    """Return the vector-Jacobian products of normalizing, scaling and adding a bias.

    Parameters
    ----------
    x, cotangent
        The operand and the cotangent of the result, of one shape.
    scale
        The scale.
    center, inverse
        The mean and the inverse standard deviation, which depend on ``x``.
    axes
        The axes of the mean.

    Returns
    -------
    list of Value
        The products with respect to ``x``, the scale and the bias.
    """
    shifted = x - center
    covariance = mean(cotangent * shifted, axes)
    cube = inverse * ew.square(inverse)
    slope = cotangent * inverse - shifted * covariance * cube
    of_x = scale * (slope - mean(slope, axes))
    return [of_x, _sum(cotangent * inverse * shifted, axes), _sum(cotangent, axes)]
