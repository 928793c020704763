"""Minima and roots, as JAX functions with implicit derivatives.

The functions to minimize or to solve take an array, and return a number, or as many numbers as the
array has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Function = Callable[..., Any]

_GOLDEN = 0.3819660112501051


def implicit(residual: Function, find: Function) -> Function:
    """Return a function that finds a solution, with derivatives by the implicit function theorem.

    Parameters
    ----------
    residual
        ``residual(x, *operands)`` is zero at the solution.
    find
        ``find(start, *operands)`` returns the solution, and whether it was found. The solution does
        not depend on the start.
    """

    @jax.custom_jvp
    def solution(start: Any, *operands: Any) -> tuple[Any, Any]:
        return find(start, *operands)

    @solution.defjvp
    def push(primals: Any, tangents: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
        x, found = solution(*primals)
        operands, moves = primals[1:], tangents[1:]
        matrix = jax.jacobian(residual)(x, *operands).reshape(x.size, x.size)
        _, moved = jax.jvp(lambda *operands: residual(x, *operands), operands, moves)
        step = -jnp.linalg.solve(matrix, moved.ravel()).reshape(x.shape)
        return (x, found), (step, np.zeros(found.shape, jax.dtypes.float0))

    return solution


# --- Arrays -------------------------------------------------------------------------------


def bfgs(function: Function, start: Any, tolerance: float | None, **options: Any) -> Any:
    """Return a local minimum by BFGS, and whether the gradient vanishes there."""
    from jax.scipy.optimize import minimize  # Slow to import, and rarely needed.

    def of_vector(x: Any) -> Any:
        return function(x.reshape(start.shape))

    found = minimize(of_vector, start.ravel(), method="BFGS", tol=tolerance, options=options)
    # The line search ends early where rounding hides that the function falls.
    slope = jnp.max(abs(found.jac), initial=0.0)
    is_flat = slope <= jnp.finfo(start.dtype).eps ** 0.5 * (1 + abs(found.fun))
    return found.x.reshape(start.shape), found.success | is_flat


def newton(function: Function, start: Any, tolerance: float, limit: int) -> tuple[Any, Any]:
    """Return a root by Newton's method, with steps halved until residuals decrease."""

    def values(x: Any) -> Any:
        return function(x.reshape(start.shape)).ravel()

    def move(state: Any) -> Any:
        k, x, y, _ = state
        step = jnp.linalg.solve(jax.jacobian(values)(x), -y)

        def is_worse(trial: Any) -> Any:
            factor, moved = trial
            return ~(jnp.linalg.norm(moved) < jnp.linalg.norm(y)) & (factor > 1e-6)

        def halve(trial: Any) -> Any:
            factor = trial[0] / 2
            return factor, values(x + factor * step)

        one = jnp.ones((), x.dtype)
        factor, moved = lax.while_loop(is_worse, halve, (one, values(x + step)))
        return k + 1, x + factor * step, moved, _is_small(factor * step, x, tolerance)

    def goes_on(state: Any) -> Any:
        k, _, y, ends = state
        return (k < limit) & ~ends & jnp.any(y != 0)

    x = start.ravel()
    _, x, y, ends = lax.while_loop(goes_on, move, (0, x, values(x), jnp.zeros((), bool)))
    return x.reshape(start.shape), (ends | jnp.all(y == 0)) & jnp.all(jnp.isfinite(x))


def _is_small(step: Any, x: Any, tolerance: float) -> Any:
    return jnp.linalg.norm(step) <= tolerance * (1 + jnp.linalg.norm(x))


# --- Numbers ------------------------------------------------------------------------------


def secant(
    function: Function, start: Any, second: float | None, tolerance: float, limit: int
) -> tuple[Any, Any]:
    """Return a root by the secant method; SciPy chooses the same second point."""
    nudge = jnp.where(start >= 0, 1e-4, -1e-4)
    other = start * (1 + 1e-4) + nudge if second is None else jnp.full_like(start, second)

    def move(state: Any) -> Any:
        k, x, y, before, value, _ = state
        slope = (y - value) / (x - before)
        moved = x - y / jnp.where(slope == 0, jnp.nan, slope)
        return k + 1, moved, function(moved), x, y, abs(moved - x) <= tolerance

    def goes_on(state: Any) -> Any:
        k, _, y, *_, ends = state
        return (k < limit) & ~ends & (y != 0) & ~jnp.isnan(y)

    first = (0, other, function(other), start, function(start), jnp.zeros((), bool))
    _, x, y, *_, ends = lax.while_loop(goes_on, move, first)
    return x, (ends | (y == 0)) & jnp.isfinite(x)


def bracketed(
    function: Function, low: Any, high: Any, tolerance: float, limit: int
) -> tuple[Any, Any]:
    """Return a root between two points of opposite signs, by Chandrupatla's method.

    T. R. Chandrupatla, *A new hybrid quadratic/bisection algorithm for finding the zero of a
    nonlinear function without using derivatives*, 1997. The result is NaN if the signs are equal.
    """
    eps = jnp.finfo(low.dtype).eps

    def limit_of(a: Any, fa: Any, b: Any, fb: Any) -> tuple[Any, Any]:
        """Return the best point, and the relative distance to keep from the ends."""
        best = jnp.where(abs(fa) < abs(fb), a, b)
        return best, (2 * eps * abs(best) + 0.5 * tolerance) / abs(b - a)

    def move(state: Any) -> Any:
        k, t, a, fa, b, fb, *_ = state
        x = a + t * (b - a)
        y = function(x)
        same = jnp.sign(y) == jnp.sign(fa)
        c, fc = jnp.where(same, a, b), jnp.where(same, fa, fb)
        b, fb = jnp.where(same, b, a), jnp.where(same, fb, fa)
        a, fa = x, y
        best, least = limit_of(a, fa, b, fb)
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        fits = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        inverse = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (
            fc - fb
        )
        t = jnp.clip(jnp.where(fits, inverse, 0.5), least, 1 - least)
        ends = (least > 0.5) | (fa == 0) | (fb == 0)
        return k + 1, t, a, fa, b, fb, jnp.where(fa == 0, a, jnp.where(fb == 0, b, best)), ends

    fl, fh = function(low), function(high)
    at_end = (fl == 0) | (fh == 0)
    is_bracket = jnp.sign(fl) * jnp.sign(fh) < 0
    best = jnp.where(fl == 0, low, jnp.where(fh == 0, high, jnp.nan))
    first = (0, jnp.full_like(low, 0.5), high, fh, low, fl, best, ~is_bracket | at_end)
    *_, x, ends = lax.while_loop(lambda s: (s[0] < limit) & ~s[-1], move, first)
    return x, ends & (is_bracket | at_end)


def bracket(function: Function, a: Any, b: Any, limit: int = 1000) -> tuple[Any, Any, Any]:
    """Return the ends of an interval with a minimum inside, and whether there is one.

    The interval grows downhill by the golden ratio.
    """
    swaps = function(a) < function(b)
    a, b = jnp.where(swaps, b, a), jnp.where(swaps, a, b)

    def beyond(a: Any, b: Any) -> Any:
        return b + (b - a) * (1 / _GOLDEN - 1)

    def move(state: Any) -> Any:
        k, _, b, c, _, fc = state
        following = beyond(b, c)
        return k + 1, b, c, following, fc, function(following)

    def falls(state: Any) -> Any:
        k, *_, fb, fc = state
        return (k < limit) & (fc < fb)

    c = beyond(a, b)
    k, a, _, c, *_ = lax.while_loop(falls, move, (0, a, b, c, function(b), function(c)))
    return jnp.minimum(a, c), jnp.maximum(a, c), (k < limit) & jnp.isfinite(c)


def golden_section(
    function: Function, low: Any, high: Any, tolerance: float, limit: int
) -> tuple[Any, Any]:
    """Return a minimum inside of an interval, by golden-section search."""

    def inner(a: Any, b: Any) -> Any:
        return a + _GOLDEN * (b - a)

    def move(state: Any) -> Any:
        k, a, b, x, fx, y, fy = state
        is_left = fx < fy
        a, b = jnp.where(is_left, a, x), jnp.where(is_left, y, b)
        kept, value = jnp.where(is_left, x, y), jnp.where(is_left, fx, fy)
        new = jnp.where(is_left, inner(a, b), inner(b, a))
        found = function(new)
        left = jnp.where(is_left, new, kept), jnp.where(is_left, found, value)
        return k + 1, a, b, *left, jnp.where(is_left, kept, new), jnp.where(is_left, value, found)

    def is_wide(a: Any, b: Any) -> Any:
        return abs(b - a) > tolerance * (abs(a) + abs(b)) + 1e-11

    x, y = inner(low, high), inner(high, low)
    state = (0, low, high, x, function(x), y, function(y))
    state = lax.while_loop(lambda s: (s[0] < limit) & is_wide(s[1], s[2]), move, state)
    _, a, b, x, fx, y, fy = state
    return jnp.where(fx < fy, x, y), ~is_wide(a, b)
