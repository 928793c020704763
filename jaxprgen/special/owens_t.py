"""Owen's T function."""

from __future__ import annotations

import math

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit.formula import formula
from jaxprgen.emit.values import Value, where

# Nodes and weights of Gauss and Legendre on [0, 1].
_NODES, _WEIGHTS = (0.5 * x for x in np.polynomial.legendre.leggauss(28))


def _integral(h: Value, a: Value) -> Value:
    """``T(h, a)`` for ``h >= 0`` and ``0 <= a <= 1``, as the integral that defines it.

    The integrand is ``exp(-h²(1 + x²)/2) / (1 + x²)``. Beyond ``x = 9 / h`` it adds nothing.
    """
    end = ew.minimum(a, 9 / ew.maximum(h, 1))
    scaled, square = h * end * math.sqrt(0.5), end * end
    total = 0 * scaled
    for node, weight in zip(_NODES + 0.5, _WEIGHTS, strict=True):
        y = scaled * node
        total = total + weight * ew.exp(-y * y) / (1 + square * node**2)
    return end * total * ew.exp(-0.5 * h * h) / (2 * math.pi)


def _upper(x: Value) -> Value:
    """The normal distribution's probability above ``x``."""
    return 0.5 * lax.erfc(x * math.sqrt(0.5))


def _owens_t(h: Value, a: Value) -> Value:
    """The probability of ``X > h`` and ``0 < Y < a X`` for independent normal ``X`` and ``Y``.

    D. B. Owen, *Tables for computing bivariate normal probabilities*, Ann. Math. Stat. 27 (1956):
    equation 2.3 brings ``a > 1`` back to its reciprocal.
    """
    # The function is flat beyond these; no infinity then meets a zero.
    size, slope = ew.minimum(abs(h), 1e10), ew.minimum(abs(a), 1e30)
    steep = slope > 1
    far = ew.minimum(size * slope, 1e10)
    direct = _integral(where(steep, far, size), where(steep, 1 / slope, slope))
    p, q = _upper(size), _upper(far)
    value = where(steep, 0.5 * (p + q) - p * q - direct, direct)
    return where(a < 0, -value, value)


def _by_h(h: Value, a: Value) -> Value:
    factor = -0.5 / math.sqrt(2 * math.pi)
    return factor * ew.exp(-0.5 * h * h) * lax.erf(a * h * math.sqrt(0.5))


def _by_a(h: Value, a: Value) -> Value:
    square = 1 + a * a
    return ew.exp(-0.5 * square * h * h) / (2 * math.pi * square)


owens_t = formula(_owens_t, _by_h, _by_a)
