"""Bessel functions of the first kind of orders 0 and 1.

They are the power series for ``|x| < 8``, and beyond ``sqrt(2 / (πx)) (P cos χ - Q sin χ)`` with
``χ = x - vπ/2 - π/4`` (DLMF 10.17.3). The error relative to ``sqrt(2 / (πx))`` is 1e-14.
"""

from __future__ import annotations

import math

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.formula import formula, polynomial
from jaxprgen.emit.values import Value, where
from jaxprgen.special import bessel

# Of P and of Q x/8 for the orders 0 and 1: interpolation polynomials in 64/x² at 13 Chebyshev nodes
# on [0, 1], of the Hankel functions that mpmath computes with 50 digits.
# fmt: off
_P_AND_Q = (
    (
        1.0, -0.0010986328124985556, 2.738088361130017e-05,
        -2.183917728558513e-06, 3.620184781129259e-07, -1.0229475399421496e-07,
        4.339314718568921e-08, -2.4185615179408813e-08, 1.4845549354895297e-08,
        -8.31251965044764e-09, 3.589369421372812e-09, -1.0029066979633945e-09,
        1.3219700423350835e-10,
    ),
    (
        -0.015624999999999995, 0.00014305114745934768, -6.9307860941428686e-06,
        8.238425985656106e-07, -1.8162398074592788e-07, 6.399781418673288e-08,
        -3.228985891642277e-08, 2.0428537127580895e-08, -1.3609419519258223e-08,
        8.000995612956512e-09, -3.555524278992273e-09, 1.011031238186147e-09,
        -1.3477937580357612e-10,
    ),
    (
        1.0, 0.001831054687498473, -3.520399323335166e-05,
        2.5809939131965017e-06, -4.102893385438351e-07, 1.1307073738668152e-07,
        -4.719167778074151e-08, 2.6030250382020736e-08, -1.5879522872690333e-08,
        8.860855361799285e-09, -3.818735305533677e-09, 1.0657770307911482e-09,
        -1.4038395089577798e-10,
    ),
    (
        0.04687499999999999, -0.00020027160644363478, 8.470960796899506e-06,
        -9.5058781859599e-07, 2.0299308556246271e-07, -7.010042468690825e-08,
        3.489697880824557e-08, -2.1888377038312212e-08, 1.4507979244604333e-08,
        -8.504914198988601e-09, 3.773309315230924e-09, -1.071914270433146e-09,
        1.4280722112309597e-10,
    ),
)
# fmt: on
_SERIES = tuple(
    [(-1) ** k / (math.factorial(k) * math.factorial(k + order)) for k in range(26)]
    for order in (0, 1)
)


def _parts(order: int, size: Value) -> tuple[Value, Value]:
    """The function over ``(size / 2)^order`` if ``size < 8``, and the function else."""
    half = 0.5 * ew.minimum(size, 8)
    large = ew.maximum(size, 8)
    inverse = 8 / large
    u = inverse * inverse
    p = polynomial(u, _P_AND_Q[2 * order])
    q = polynomial(u, _P_AND_Q[2 * order + 1]) * inverse
    sin, cos = ew.sin(large), ew.cos(large)
    # The cosine and the sine of the phase, times the square root of 2.
    c, s = (sin + cos, sin - cos) if order == 0 else (sin - cos, -sin - cos)
    beyond = (p * c - q * s) / ew.sqrt(math.pi * large)
    return polynomial(half * half, _SERIES[order]), beyond


def _j0(x: Value) -> Value:
    """The Bessel function of the first kind of order 0."""
    size = abs(x)
    near, far = _parts(0, size)
    return where(size < 8, near, far)


def _j1(x: Value) -> Value:
    """The Bessel function of the first kind of order 1."""
    size = abs(x)
    near, far = _parts(1, size)
    return where(size < 8, 0.5 * x * near, where(x < 0, -far, far))


def _j0_slope(x: Value) -> Value:
    return -j1(x)


def _j1_slope(x: Value) -> Value:
    return 0.5 * (j0(x) - bessel.jv(2, x))


j0 = formula(_j0, _j0_slope)
j1 = formula(_j1, _j1_slope)
