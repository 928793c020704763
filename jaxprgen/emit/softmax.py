"""The softmax family, as in `scipy.special`, and losses of classifiers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxprgen._jax import Size, min_size
from jaxprgen.emit import elementwise as ew, gather as ga, reduce
from jaxprgen.emit.create import positions
from jaxprgen.emit.shape import expand_dims, slice_axis
from jaxprgen.emit.sizes import is_known, require_at_least, with_shape
from jaxprgen.emit.values import Value, broadcast_to, full


def softmax(x: Value, axes: Sequence[int]) -> Value:
    """Return `scipy.special.softmax` over axes."""
    powers = ew.exp(x - _largest(x, axes))
    return powers / expand_dims(reduce.sum(powers, axes), axes)


def log_softmax(x: Value, axes: Sequence[int]) -> Value:
    """Return `scipy.special.log_softmax` over axes, also where the softmax underflows."""
    shifted = x - expand_dims(centre(x, axes), axes)
    total = expand_dims(reduce.sum(ew.exp(shifted), axes), axes)
    return shifted - ew.log(total)


def centre(x: Value, axes: Sequence[int]) -> Value:
    """Return the maximum over axes, or 0 where it is infinite: a shift that keeps powers finite.

    Derivatives do not depend on it.
    """
    largest = ew.stop_gradient(reduce.max(x, axes))
    return ew.where(abs(largest) < np.inf, largest, 0)


def softmax_vjp(cotangent: Value, y: Value, axes: Sequence[int]) -> Value:
    """Return the vector-Jacobian product of `softmax`, given its result ``y``."""
    product = cotangent * y
    return product - expand_dims(reduce.sum(product, axes), axes) * y


# --- Losses of classifiers: one target for each row of scores -----------------------------


def softmax_loss(x: Value, targets: Value) -> tuple[Value, Value]:
    """Return minus the logarithm of each row's softmax at its target, and the softmax.

    Both are NaN for rows with an infinite score, or without a finite one.

    Parameters
    ----------
    x : (rows, classes) float
        The scores.
    targets : (rows,) integers
        The target of each row.
    """
    targets = with_shape(targets, x.shape[:1], _too_few(x, targets))
    shifted = x - _largest(x, [1])
    powers = ew.exp(shifted)
    total = reduce.sum(powers, [1])
    loss = ew.log(total) - ga.take(shifted, _target_index(x, targets))
    return loss, powers / expand_dims(total, [1])


def softmax_loss_vjp(cotangent: Value, softmax: Value, targets: Value) -> Value:
    """Return the vector-Jacobian product of `softmax_loss`, given the softmax.

    Surplus cotangents and targets are ignored.
    """
    count = softmax.shape[0]
    if not is_known(cotangent.shape) or cotangent.shape > (1,):
        cotangent = slice_axis(cotangent, 0, 0, min_size(count, *cotangent.shape))
    rows = broadcast_to(cotangent, (count,))
    scaled = softmax * expand_dims(rows, [1])
    return ga.put(scaled, -rows, _target_index(softmax, targets), add=True)


def negative_log(x: Value, targets: Value) -> Value:
    """Return minus the logarithm of each row's element at its target."""
    return -ew.log(ga.take(x, _target_index(x, targets)))


def negative_log_vjp(cotangent: Value, x: Value, targets: Value) -> Value:
    """Return the vector-Jacobian product of `negative_log`; 0 in rows without a cotangent."""
    index = _target_index(x, targets, *cotangent.shape)
    slopes = -cotangent / ga.take(x, index)
    return ga.put(full(x.shape, 0, x.dtype), slopes, index, add=False)


def _target_index(x: Value, targets: Value, count: Size | None = None) -> list[ga.ArrayEntry]:
    """Return the index of one element in each of the first ``count`` rows, or in all."""
    rows = x.shape[0]
    count = rows if count is None else count
    for n in (rows, *targets.shape):
        require_at_least(n, count, _too_few(x, targets))
    return [positions((count,), 0), slice_axis(targets, 0, 0, count)]


def _too_few(x: Value, targets: Value) -> str:
    return f"Expected one target for each of {x.shape[0]} rows, got shape {targets.shape}."


# --- Helpers ------------------------------------------------------------------------------


def _largest(x: Value, axes: Sequence[int]) -> Value:
    """Return the maximum to subtract so that no power overflows; derivatives ignore it."""
    return expand_dims(ew.stop_gradient(reduce.max(x, axes)), axes)
