"""Owen's T function."""

from __future__ import annotations

import functools
import math

import numpy as np

from jaxprgen.emit import formula as f
from jaxprgen.emit.derivative import with_derivatives
from jaxprgen.emit.formula import Term
from jaxprgen.emit.values import Array, dtype_of, shape_of

_COUNT = 28


@functools.cache
def _nodes(rank: int, dtype: str) -> tuple[Array, Array]:
    """Nodes and weights of Gauss and Legendre on [0, 1], along the last axis."""
    nodes, weights = np.polynomial.legendre.leggauss(_COUNT)
    shape = (*(1,) * rank, _COUNT)
    return ((nodes + 1) / 2).reshape(shape).astype(dtype), (weights / 2).reshape(shape).astype(
        dtype
    )


def _integral(h: Term, a: Term) -> Term:
    """``T(h, a)`` for ``h >= 0`` and ``0 <= a <= 1``, as the integral that defines it.

    The integrand is ``exp(-h²(1 + x²)/2) / (1 + x²)``. Beyond ``x = 9 / h`` it adds nothing.
    """
    b = h.builder
    rank = max(len(shape_of(h.value)), len(shape_of(a.value)))
    nodes, weights = (Term(b, x) for x in _nodes(rank, dtype_of(h.value).name))
    end = f.minimum(a, 9 / f.maximum(h, 1))
    x = f.along_new_axis(end) * nodes
    y = f.along_new_axis(h) * x
    total = f.sum_of_last_axis(weights * f.exp(-0.5 * y * y) / (1 + x * x))
    return end * total * f.exp(-0.5 * h * h) / (2 * math.pi)


def _upper(x: Term) -> Term:
    """The normal distribution's probability above ``x``."""
    return 0.5 * f.erfc(x * math.sqrt(0.5))


def _owens_t(h: Term, a: Term) -> Term:
    """The probability of ``X > h`` and ``0 < Y < a X`` for independent normal ``X`` and ``Y``.

    D. B. Owen, *Tables for computing bivariate normal probabilities*, Ann. Math. Stat. 27 (1956):
    equation 2.3 brings ``a > 1`` back to its reciprocal.
    """
    # The function is flat beyond these; no infinity then meets a zero.
    size, slope = f.minimum(f.magnitude(h), 1e10), f.minimum(f.magnitude(a), 1e30)
    steep = slope > 1
    far = size * slope
    direct = _integral(f.where(steep, far, size), f.where(steep, 1 / slope, slope))
    p, q = _upper(size), _upper(far)
    value = f.where(steep, 0.5 * (p + q) - p * q - direct, direct)
    return f.where(a < 0, -value, value)


def _by_h(h: Term, a: Term) -> Term:
    factor = -0.5 / math.sqrt(2 * math.pi)
    return factor * f.exp(-0.5 * h * h) * f.erf(a * h * math.sqrt(0.5))


def _by_a(h: Term, a: Term) -> Term:
    square = 1 + a * a
    return f.exp(-0.5 * square * h * h) / (2 * math.pi * square)


owens_t = f.computed_in(
    f.single, with_derivatives(f.formula(_owens_t), f.formula(_by_h), f.formula(_by_a))
)
