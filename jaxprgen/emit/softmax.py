"""The softmax family, as SciPy computes it (`scipy.special.softmax`, `log_softmax`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import reduce
from jaxprgen.emit.shape import expand_dims
from jaxprgen.emit.values import Value, like
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def softmax(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """``exp(x)``, scaled to the sum 1 over the axes."""
    powers = ew.exp(b, ew.subtract(b, x, _largest(b, x, axes)))
    return ew.divide(b, powers, _kept(b, reduce.sum(b, powers, axes), axes))


def log_softmax(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """The logarithm of `softmax`, also where that is too small for a number."""
    largest = _largest(b, x, axes)
    finite = ew.less(b, ew.absolute(b, largest), like(x, np.inf))
    shifted = ew.subtract(b, x, ew.where(b, finite, largest, like(x, 0)))
    total = _kept(b, reduce.sum(b, ew.exp(b, shifted), axes), axes)
    return ew.subtract(b, shifted, ew.log(b, total))


def softmax_vjp(b: Builder, cotangent: Value, y: Value, axes: Sequence[int]) -> Value:
    """The vector-Jacobian product of `softmax` where its result is ``y``."""
    product = ew.multiply(b, cotangent, y)
    total = _kept(b, reduce.sum(b, product, axes), axes)
    return ew.subtract(b, product, ew.multiply(b, total, y))


def _largest(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """What is subtracted so that no power overflows. It does not matter to derivatives."""
    largest = reduce.max(b, x, axes)
    if type(largest) is Var:
        largest = lax.stop_gradient(b, largest)
    return _kept(b, largest, axes)


def _kept(b: Builder, reduced: Value, axes: Sequence[int]) -> Value:
    return expand_dims(b, reduced, axes)
