"""Owen's T function."""

from __future__ import annotations

import math

import numpy as np

from jaxprgen.emit import expression as fx
from jaxprgen.emit.expression import Expression, formula, where

# Nodes and weights of Gauss and Legendre on [0, 1].
_NODES, _WEIGHTS = (0.5 * x for x in np.polynomial.legendre.leggauss(28))


def _integral(h: Expression, a: Expression) -> Expression:
    """``T(h, a)`` for ``h >= 0`` and ``0 <= a <= 1``, as the integral that defines it.

    The integrand is ``exp(-h²(1 + x²)/2) / (1 + x²)``. Beyond ``x = 9 / h`` it adds nothing.
    """
    end = fx.minimum(a, 9 / fx.maximum(h, 1))
    scaled, square = h * end * math.sqrt(0.5), end * end
    total = 0 * scaled
    for node, weight in zip(_NODES + 0.5, _WEIGHTS, strict=True):
        y = scaled * node
        total = total + weight * fx.exp(-y * y) / (1 + square * node**2)
    return end * total * fx.exp(-0.5 * h * h) / (2 * math.pi)


def _upper(x: Expression) -> Expression:
    """The normal distribution's probability above ``x``."""
    return 0.5 * fx.erfc(x * math.sqrt(0.5))


def _owens_t(h: Expression, a: Expression) -> Expression:
    """The probability of ``X > h`` and ``0 < Y < a X`` for independent normal ``X`` and ``Y``.

    D. B. Owen, *Tables for computing bivariate normal probabilities*, Ann. Math. Stat. 27 (1956):
    equation 2.3 brings ``a > 1`` back to its reciprocal.
    """
    # The function is flat beyond these; no infinity then meets a zero.
    size, slope = fx.minimum(abs(h), 1e10), fx.minimum(abs(a), 1e30)
    steep = slope > 1
    far = fx.minimum(size * slope, 1e10)
    direct = _integral(where(steep, far, size), where(steep, 1 / slope, slope))
    p, q = _upper(size), _upper(far)
    value = where(steep, 0.5 * (p + q) - p * q - direct, direct)
    return where(a < 0, -value, value)


def _by_h(h: Expression, a: Expression) -> Expression:
    factor = -0.5 / math.sqrt(2 * math.pi)
    return factor * fx.exp(-0.5 * h * h) * fx.erf(a * h * math.sqrt(0.5))


def _by_a(h: Expression, a: Expression) -> Expression:
    square = 1 + a * a
    return fx.exp(-0.5 * square * h * h) / (2 * math.pi * square)


owens_t = formula(_owens_t, _by_h, _by_a)
