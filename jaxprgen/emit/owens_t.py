"""Owen's T function."""

from __future__ import annotations

import math

import numpy as np

from jaxprgen.emit import formula as f
from jaxprgen.emit.derivatives import with_derivatives
from jaxprgen.emit.formula import Term

# Nodes and weights of Gauss and Legendre on [0, 1].
_NODES, _WEIGHTS = (0.5 * x for x in np.polynomial.legendre.leggauss(28))


def _integral(h: Term, a: Term) -> Term:
    """``T(h, a)`` for ``h >= 0`` and ``0 <= a <= 1``, as the integral that defines it.

    The integrand is ``exp(-h²(1 + x²)/2) / (1 + x²)``. Beyond ``x = 9 / h`` it adds nothing.
    """
    end = f.minimum(a, 9 / f.maximum(h, 1))
    scaled, square = h * end * math.sqrt(0.5), end * end
    total = 0 * scaled
    for node, weight in zip(_NODES + 0.5, _WEIGHTS, strict=True):
        y = scaled * node
        total = total + weight * f.exp(-y * y) / (1 + square * node**2)
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
    far = f.minimum(size * slope, 1e10)
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
