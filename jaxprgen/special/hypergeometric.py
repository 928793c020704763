"""Gauss's hypergeometric function of real arguments, by integrating its differential equation.

The Taylor series at 0 leads to a first point. From point to point, series of the equation lead on.
Each step is at most 0.4 of the distance to the singular points 0 and 1, and so short that terms
hardly cancel. No combination of parameters is degenerate on the way (J. Pearson, S. Olver,
M. Porter, *Numerical methods for the computation of the confluent and Gauss hypergeometric
functions*, 2017, 4.7). Negative arguments are first mapped to between 0 and 1 (DLMF 15.8.1); the
value at 1 is Gauss's (15.4.20). Derivatives with respect to parameters satisfy the differentiated
recurrences.

A series that ends is a polynomial, even if ``c`` is the same negative integer, where SciPy's value
depends on the order of ``a`` and ``b``. The derivatives with respect to its parameters are those of
the function: Aesara's implementation leaves out the terms that do not end, and has no derivatives
for ``z <= -1``.

Another solution is carried along with the function. At the first point it is as large as the terms
that are summed there, and rounding errors grow as it does. Where it shows that fewer than two
digits are left, the function is NaN. Derivatives with respect to parameters have no such guard.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxprgen.emit import elementwise as ew, primitives as lax
from jaxprgen.emit.custom_derivatives import undefined
from jaxprgen.emit.formula import formula, iterate, with_selector, zero_derivative
from jaxprgen.emit.values import Value, where
from jaxprgen.special.gamma_functions import gamma_sign

_TERMS = 5000
_STEPS = 20000
_NEGLIGIBLE = 1e-18
# For negative c the other solution outgrows this one on the way, so the series goes farther.
_FAR = 0.9
# Values with a larger estimated relative error become NaN.
_WORTH = 1e-2


class _Parameters(NamedTuple):
    """The parameters of the equation, and their rates of change along the derivative."""

    a: Value
    b: Value
    c: Value
    a_rate: Value
    b_rate: Value
    c_rate: Value


# --- The series at zero ------------------------------------------------------------------


def _at_zero(p: _Parameters, z: Value, *, watched: bool = False) -> list[Value]:
    """Return the function, its derivative in ``z``, and both differentiated along the rates.

    If ``watched``, the last two are the sums of the magnitudes of the terms of the first two
    instead, and there are no rates.
    """
    zero, one = z.like(0), z.like(1)
    state = [zero, one, zero, one, zero, zero, zero]
    step = _next_magnitude if watched else _next_term
    _, _, _, f, g, df, dg = iterate(_TERMS, step, state, [*p, z], _series_goes_on)
    safe = where(ew.equal(z, 0), 1, z)
    return [f, where(ew.equal(z, 0), p.a * p.b / p.c, g / safe), df, dg / safe]


def _series_goes_on(n: Value, term: Value, rate: Value, *rest: Value) -> Value:
    _, g, _, dg, a, b, c, _, _, _, z = rest
    some = ~(ew.equal(term, 0) & ew.equal(rate, 0))
    # Terms may be tiny before they rise, and may rise again where c + n is small.
    rising = some & (abs((a + n) * (b + n) * z) > abs((c + n) * (n + 1)))
    return (n < 4) | (n < 4 - c) | rising | _matters(n, term, g) | _matters(n, rate, dg)


def _matters(n: Value, term: Value, total: Value) -> Value:
    """Return whether a term still changes the sum of the derivative, which converges last."""
    return abs(term) * n > abs(total) * _NEGLIGIBLE


def _next_term(_: Value, n: Value, term: Value, rate: Value, *rest: Value) -> list[Value]:
    f, g, df, dg, a, b, c, a_rate, b_rate, c_rate, z = rest
    upper, lower = (a + n) * (b + n) * z, (c + n) * (n + 1)
    # A series that has ended stays ended, even where the denominator vanishes.
    factor = where(ew.equal(upper, 0) | ew.equal(term, 0), 0, upper / lower)
    upper_rate = (a_rate * (b + n) + b_rate * (a + n)) * z
    pole = c_rate / (c + n)
    moved = where(
        ew.equal(term, 0),
        0,
        term * (upper_rate / lower - where(ew.equal(pole, 0), 0, factor * pole)),
    )
    carried = where(ew.equal(rate, 0), 0, rate * (upper / lower))
    n, term, rate = n + 1, term * factor, carried + moved
    return [n, term, rate, f + term, g + n * term, df + rate, dg + n * rate]


def _next_magnitude(*state: Value) -> list[Value]:
    n, term, rate, f, g, size, slope = _next_term(*state)
    return [n, term, rate, f, g, size + abs(term), slope + n * abs(term)]


# --- From point to point ------------------------------------------------------------------


def _advance(p: _Parameters, state: Sequence[Value], end: Sequence[Value]) -> list[Value]:
    """Advance ``z``, ``1 - z`` and the four values at ``z`` to the last point, ``end``."""

    def more(z: Value, y: Value, *rest: Value) -> Value:
        z_end, y_end = rest[-2:]
        return where(z < 0.5, z < z_end, y > y_end)

    def step(_: Value, z: Value, y: Value, *rest: Value) -> list[Value]:
        values, parameters, (z_end, y_end) = rest[:4], _Parameters(*rest[4:10]), rest[10:]
        left = where(z < 0.5, z_end - z, y - y_end)
        h = _step_size(parameters, z, y)
        last = h >= left
        h = where(last, left, h)
        found = _taylor(parameters, z, y, h, values)
        return [where(last, z_end, z + h), where(last, y_end, y - h), *found]

    return iterate(_STEPS, step, state, [*p, *end], more)


def _step_size(p: _Parameters, z: Value, y: Value) -> Value:
    """Return at most 0.4 of the radius of convergence, within the equation's own scales."""
    leading = z * y
    damping = abs(p.c - (p.a + p.b + 1) * z) / leading
    stiffness = ew.sqrt(abs(p.a * p.b) / leading)
    return ew.minimum(ew.minimum(z, y) * 0.4, 2 / (damping + stiffness))


def _taylor(p: _Parameters, z: Value, y: Value, h: Value, values: Sequence[Value]) -> list[Value]:
    """Return the four values one step further."""
    f, g, df, dg = values
    state = [h.like(0), f, g * h, df, dg * h, f + g * h, g * h, df + dg * h, dg * h]
    found = iterate(_TERMS, _next_coefficients, state, [*p, z, y, h], _taylor_goes_on)
    _, _, _, _, _, f, g, df, dg = found
    return [f, g / h, df, dg / h]


def _taylor_goes_on(n: Value, *rest: Value) -> Value:
    u, v, du, dv, _, g, _, dg = rest[:8]
    m = n + 1
    return (n < 3) | _matters(m, abs(u) + abs(v), g) | _matters(m, abs(du) + abs(dv), dg)


def _next_coefficients(_: Value, n: Value, *rest: Value) -> list[Value]:
    """Map coefficients ``n`` and ``n + 1`` of the step to ``n + 1`` and ``n + 2``."""
    u, v, du, dv, f, g, df, dg, a, b, c, a_rate, b_rate, c_rate, z, y, h = rest
    scale = h / (z * y * (n + 1) * (n + 2))
    below = (n + a) * (n + b) * h * scale
    here = (n + 1) * ((y - z) * n + c - (a + b + 1) * z) * scale
    below_rate = (a_rate * (n + b) + b_rate * (n + a)) * h * scale
    here_rate = (n + 1) * (c_rate - (a_rate + b_rate) * z) * scale
    w = below * u - here * v
    dw = below * du - here * dv + below_rate * u - here_rate * v
    m = n + 2
    return [n + 1, v, w, dv, dw, f + w, g + m * w, df + dw, dg + m * dw]


# --- The function ------------------------------------------------------------------------


def _inside(p: _Parameters, z: Value, y: Value, *, watched: bool) -> tuple[Value, Value]:
    """Return the function and its derivative along the rates, for ``0 <= z < 1`` and y = 1 - z."""
    a, b, c, *_ = p
    size = abs(a * b) / ew.maximum(abs(c), 1) + abs(a) + abs(b) + abs(c)
    first = ew.minimum(z, where(c < -1, _FAR, ew.minimum(2 / (size + 1), 0.5)))
    f, g, df, dg = _at_zero(p, first, watched=watched)
    if watched:  # Another solution, which rounding errors follow.
        df, dg = df + 1, -dg
    start = [first, where(ew.equal(first, z), y, 1 - first), f, g, df, dg]
    reached, rest, f, g, df, dg = _advance(p, start, [z, y])
    missed = where(reached < 0.5, reached < z, rest > y)
    if watched:
        missed = missed | _is_lost(f, g, df, dg, z * y)
    return where(missed, math.nan, f), where(missed, math.nan, df)


def _is_lost(f: Value, g: Value, error: Value, slope: Value, scale: Value) -> Value:
    """Return where rounding errors leave no digits; they grow as the solution ``error`` does.

    It starts as large as the terms of the first series together. Near a zero of the function, the
    slope of the function counts.
    """
    spread = (abs(error) + abs(slope) * scale) * (float(np.finfo(f.dtype).eps) / _WORTH)
    return spread > abs(f) + abs(g) * scale


def _whole(x: Value) -> Value:
    return (x <= 0) & ew.equal(x, ew.floor(x))


def _gammas(parts: Sequence[tuple[Value, Value, int]]) -> tuple[Value, Value, Value]:
    """Return a quotient of gamma functions: logarithm, sign, and derivative of the logarithm.

    Each part is an argument, the argument's rate, and 1 in the numerator or -1 in the denominator.
    """
    logarithms = [lax.lgamma(x) * k for x, _, k in parts]
    rates = [where(ew.equal(r, 0), 0, lax.digamma(x) * r * k) for x, r, k in parts]
    signs = [gamma_sign(x) for x, _, _ in parts]
    return (
        functools.reduce(operator.add, logarithms),
        functools.reduce(operator.mul, signs),
        functools.reduce(operator.add, rates),
    )


def _at_one(p: _Parameters) -> tuple[Value, Value]:
    """Return Gauss's value at 1, infinite where the series diverges, and its derivative."""
    a, b, c, a_rate, b_rate, c_rate = p
    s, s_rate = c - a - b, c_rate - a_rate - b_rate
    parts = [(c, c_rate, 1), (s, s_rate, 1), (c - a, c_rate - a_rate, -1)]
    logarithm, sign, rate = _gammas([*parts, (c - b, c_rate - b_rate, -1)])
    value = sign * ew.exp(logarithm)
    return where(s <= 0, math.inf, value), where(s <= 0, math.nan, value * rate)


def _beyond(p: _Parameters, z: Value, f: Value, df: Value) -> tuple[Value, Value]:
    """Replace the values at 1 and above, where only polynomials are finite."""
    a, c, ends = p.a, p.c, _whole(p.a)
    summed = ends & (z >= 1)
    total, _, rate, _ = _at_zero(p, where(summed, z, 0))
    gauss, gauss_slope = _at_one(p)
    f = where(ew.equal(z, 1), gauss, where(z > 1, math.inf, f))
    df = where(ew.equal(z, 1), gauss_slope, where(z > 1, math.nan, df))
    f = where(summed, total, f)
    df = where(summed, rate, df)
    # Unless a polynomial ends before c + n vanishes, the series has a pole.
    pole = _whole(c) & ~(ends & (a >= c))
    f = where(pole, math.inf, where(ew.equal(z, 0), 1, f))
    return f, where(pole, math.nan, where(ew.equal(z, 0), 0, df))


def _ordered(p: _Parameters) -> _Parameters:
    """Make ``a`` the parameter that ends the series first, or the smaller if none does."""
    ends_a, ends_b = _whole(p.a), _whole(p.b)
    swap = where(ends_a | ends_b, ends_b & (~ends_a | (p.b > p.a)), p.a > p.b)
    return _Parameters(
        *(where(swap, p.b, p.a), where(swap, p.a, p.b), p.c),
        *(where(swap, p.b_rate, p.a_rate), where(swap, p.a_rate, p.b_rate), p.c_rate),
    )


def _evaluate(p: _Parameters, z: Value, *, watched: bool = False) -> tuple[Value, Value]:
    """Return the function and its derivative along the rates, for any argument.

    If ``watched``, the function is NaN where it is lost to rounding, and there is no derivative.
    """
    p = _ordered(p)
    below, inner = z < 0, where(z < 1, z, 0)
    y = where(below, 1 / (1 - inner), 1 - inner)
    x = where(below, -inner * y, inner)
    logarithm = where(below, ew.log1p(-inner), 0)
    mapped = p._replace(
        b=where(below, p.c - p.b, p.b), b_rate=where(below, p.c_rate - p.b_rate, p.b_rate)
    )
    f, df = _mirrored(mapped, x, y, -p.a * logarithm, -p.a_rate * logarithm, watched=watched)
    return _beyond(p, z, f, df)


def _mirrored(
    p: _Parameters, x: Value, y: Value, logarithm: Value, rate: Value, *, watched: bool
) -> tuple[Value, Value]:
    """Return the values at ``x = 1 - y``, times a factor given by its logarithm and its rate.

    A polynomial has no share in the solution that is singular at 1, by which errors would outgrow
    it. Where the other solution is singular, the polynomial is expressed by one of ``1 - x``.
    """
    a, b, c, a_rate, b_rate, c_rate = p
    mirrored = _whole(a) & ew.equal(a_rate, 0) & (c < a + b) & (x > 0.5)
    turned = p._replace(
        c=where(mirrored, a + b - c + 1, c), c_rate=where(mirrored, b_rate - c_rate, c_rate)
    )
    f, df = _inside(turned, where(mirrored, y, x), where(mirrored, x, y), watched=watched)
    more, sign, more_rate = _mirror(p)
    logarithm = where(mirrored, logarithm + more, logarithm)
    rate = where(mirrored, rate + more_rate, rate)
    # Apply the factor in halves: it may overflow where the product does not.
    half = ew.exp(logarithm * 0.5)
    factor = where(mirrored, half * sign, half)
    return f * factor * half, (df + rate * f) * factor * half


def _mirror(p: _Parameters) -> tuple[Value, Value, Value]:
    """Return ``(c - b)_n / (c)_n`` for a polynomial of degree ``n = -a``, in the form of `_gammas`.

    It is the factor of the polynomial of ``1 - z`` (DLMF 15.8.7), for ``c < a + b``.
    """
    a, b, c, _, b_rate, c_rate = p
    moved = b_rate - c_rate
    parts = [(b - c + 1, moved, 1), (a + b - c + 1, moved, -1), (c, c_rate, 1), (c - a, c_rate, -1)]
    logarithm, sign, rate = _gammas(parts)
    return logarithm, sign * gamma_sign(a + 0.5), rate


def _hyp2f1(a: Value, b: Value, c: Value, z: Value) -> Value:
    """Return Gauss's hypergeometric function; infinite at poles and above 1, if not finite."""
    none = z * 0
    f, _ = _evaluate(_Parameters(a, b, c, none, none, none), z, watched=True)
    return where(ew.isnan(z) | ew.isnan(a) | ew.isnan(b) | ew.isnan(c), math.nan, f)


def _hyp2f1_der(a: Value, b: Value, c: Value, z: Value, which: Value) -> Value:
    """Return the derivative of `hyp2f1` with respect to parameter 0, 1 or 2: a, b or c."""
    rates = [where(ew.equal(which, i), z * 0 + 1, 0) for i in range(3)]
    _, df = _evaluate(_Parameters(a, b, c, *rates), z)
    known = (ew.equal(which, 0) | ew.equal(which, 1) | ew.equal(which, 2)) & ew.equal(z, z)
    return where(known, df, math.nan)


def _point_derivative(a: Value, b: Value, c: Value, z: Value) -> Value:
    """Return the derivative with respect to the argument (DLMF 15.5.1)."""
    return a * b / c * hyp2f1(a + 1, b + 1, c + 1, z)


def _mixed_derivative(a: Value, b: Value, c: Value, z: Value, which: Value) -> Value:
    """Return the derivative with respect to the argument and a parameter."""
    raised = (a + 1, b + 1, c + 1, z)
    rate = where(ew.equal(which, 0), b / c, where(ew.equal(which, 1), a / c, -(a * b / (c * c))))
    return rate * hyp2f1(*raised) + a * b / c * hyp2f1_der(*raised, which)


_NONE = undefined(
    "Gauss's hypergeometric function has no second derivative with respect to its parameters."
)
hyp2f1_der = formula(_hyp2f1_der, _NONE, _NONE, _NONE, _mixed_derivative, zero_derivative)
hyp2f1 = formula(_hyp2f1, *(with_selector(hyp2f1_der, i) for i in range(3)), _point_derivative)
