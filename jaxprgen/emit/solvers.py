"""Minima and roots, as JAX functions with implicit derivatives.

The functions to minimize or to solve take an array, and return a number, or as many numbers as the
array has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.numpy.linalg import norm

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


class _Point(NamedTuple):
    """A vector, the value and the slopes there, and about the inverse of the second derivative."""

    x: Any
    value: Any
    slopes: Any
    inverse: Any

    @property
    def step(self) -> Any:
        """The step to the minimum of the quadratic model."""
        return -self.inverse @ self.slopes

    @property
    def is_lowest(self) -> Any:
        """Whether the model falls by no more than rounding."""
        return -self.slopes @ self.step <= 4 * self.rounding

    @property
    def rounding(self) -> Any:
        """About the rounding error of the value."""
        return jnp.finfo(self.x.dtype).eps * (1 + abs(self.value))

    def moved(self, step: Any, value: Any, slopes: Any) -> _Point:
        """Return the point after a step, with the inverse by the formula of BFGS."""
        change = slopes - self.slopes
        product = step @ change
        part = jnp.eye(step.size, dtype=step.dtype) - jnp.outer(step, change) / product
        inverse = part @ self.inverse @ part.T + jnp.outer(step, step) / product
        inverse = jnp.where(product > 0, inverse, self.inverse)
        return _Point(self.x + step, value, slopes, inverse)


def bfgs(
    function: Function, start: Any, tolerance: float | None, limit: int | None
) -> tuple[Any, Any]:
    """Return a local minimum by BFGS, exact but for rounding, and whether it was found.

    J. Nocedal, S. J. Wright, *Numerical Optimization*, 2006, algorithm 6.1. If the steps run out, a
    point counts as a minimum if no slope there is above the tolerance, 1e-5 by default.
    """

    def of_vector(x: Any) -> Any:
        return function(x.reshape(start.shape))

    slopes = jax.value_and_grad(of_vector)
    limit = 200 * start.size if limit is None else limit

    def move(state: Any) -> Any:
        k, _, point = state
        length, *found = _line_search(slopes, point)
        moved = point.moved(length * point.step, *found)
        return k + 1, length > 0, _where(length > 0, moved, point)

    def goes_on(state: Any) -> Any:
        k, falls, point = state
        return (k < limit) & falls & ~point.is_lowest

    x = start.ravel()
    value, slope = slopes(x)
    scale = jnp.maximum(1, norm(slope))
    first = _Point(x, value, slope, jnp.eye(x.size, dtype=x.dtype) / scale)
    k, _, point = lax.while_loop(goes_on, move, (0, jnp.ones((), bool), first))
    point = _refined(slopes, point, limit - k)
    is_flat = jnp.max(abs(point.slopes), initial=0) <= (1e-5 if tolerance is None else tolerance)
    return point.x.reshape(start.shape), point.is_lowest | is_flat


def _where(condition: Any, a: _Point, b: _Point) -> _Point:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def _line_search(slopes: Function, point: _Point, limit: int = 60) -> tuple[Any, Any, Any]:
    """Return how much of the step to go, and the value and the slopes there; 0 if nothing is found.

    Bisection until the weak conditions of Wolfe hold: the value falls, and the slope rises.
    """
    fall = point.slopes @ point.step

    def move(state: Any) -> Any:
        k, low, high, length, *_ = state
        value, slope = slopes(point.x + length * point.step)
        falls = value <= point.value + 1e-4 * length * fall + point.rounding
        rises = slope @ point.step >= 0.9 * fall
        low, high = jnp.where(falls, length, low), jnp.where(falls, high, length)
        following = jnp.where(high < jnp.inf, (low + high) / 2, 2 * length)
        ends = falls & rises
        return k + 1, low, high, jnp.where(ends, length, following), value, slope, ends

    zero, one = jnp.zeros_like(fall), jnp.ones_like(fall)
    state = (0, zero, zero + jnp.inf, one, point.value, point.slopes, jnp.zeros((), bool))
    state = lax.while_loop(lambda s: (s[0] < limit) & ~s[-1], move, state)
    *_, length, value, slope, ends = state
    return jnp.where(ends, length, 0), value, slope


def _refined(slopes: Function, point: _Point, limit: Any) -> _Point:
    """Return a minimum, given a point whose value rounding cannot tell from that of the minimum.

    That point has half of the digits of the minimum. Full steps give the others; they go on while
    the slopes shrink.
    """

    def move(state: Any) -> Any:
        k, _, point = state
        value, new = slopes(point.x + point.step)
        shrinks = norm(new) < norm(point.slopes)
        shrinks &= value <= point.value + 4 * point.rounding
        return k + 1, shrinks, _where(shrinks, point.moved(point.step, value, new), point)

    state = (0, jnp.ones((), bool), point)
    return lax.while_loop(lambda s: (s[0] < limit) & s[1], move, state)[2]


def newton(function: Function, start: Any, tolerance: float, limit: int) -> tuple[Any, Any]:
    """Return a root by Newton's method, with steps halved until residuals decrease."""

    def values(x: Any) -> Any:
        return function(x.reshape(start.shape)).ravel()

    def move(state: Any) -> Any:
        k, x, y, _ = state
        step = jnp.linalg.solve(jax.jacobian(values)(x), -y)

        def is_worse(trial: Any) -> Any:
            factor, moved = trial
            return ~(norm(moved) < norm(y)) & (factor > 1e-6)

        def halve(trial: Any) -> Any:
            factor = trial[0] / 2
            return factor, values(x + factor * step)

        one = jnp.ones((), x.dtype)
        factor, moved = lax.while_loop(is_worse, halve, (one, values(x + step)))
        is_small = norm(factor * step) <= tolerance * (1 + norm(x))
        return k + 1, x + factor * step, moved, is_small

    def goes_on(state: Any) -> Any:
        k, _, y, ends = state
        return (k < limit) & ~ends & jnp.any(y != 0)

    tolerance = max(tolerance, 4 * float(jnp.finfo(start.dtype).eps))
    x = start.ravel()
    _, x, y, ends = lax.while_loop(goes_on, move, (0, x, values(x), jnp.zeros((), bool)))
    return x.reshape(start.shape), (ends | jnp.all(y == 0)) & jnp.all(jnp.isfinite(x))


# --- Numbers ------------------------------------------------------------------------------


def secant(
    function: Function, start: Any, second: float | None, tolerance: float, limit: int
) -> tuple[Any, Any]:
    """Return a root by the secant method; SciPy chooses the same second point."""
    nudge, eps = jnp.where(start >= 0, 1e-4, -1e-4), jnp.finfo(start.dtype).eps
    other = start * (1 + 1e-4) + nudge if second is None else jnp.full_like(start, second)

    def move(state: Any) -> Any:
        k, x, y, before, value, _ = state
        slope = (y - value) / (x - before)
        moved = x - y / jnp.where(slope == 0, jnp.nan, slope)
        ends = abs(moved - x) <= tolerance + 4 * eps * abs(moved)
        return k + 1, moved, function(moved), x, y, ends

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

    def move(state: Any) -> Any:
        k, t, a, fa, b, fb, *_ = state
        x = a + t * (b - a)
        y = function(x)
        same = jnp.sign(y) == jnp.sign(fa)
        c, fc = jnp.where(same, a, b), jnp.where(same, fa, fb)
        b, fb = jnp.where(same, b, a), jnp.where(same, fb, fa)
        a, fa = x, y
        best = jnp.where(abs(fa) < abs(fb), a, b)
        # The relative distance to keep from the ends.
        least = (2 * eps * abs(best) + 0.5 * tolerance) / abs(b - a)
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        fits = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        inverse = fa / (fb - fa) * fc / (fb - fc)
        inverse += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
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
    """Return a minimum inside of an interval, by golden-section search, and whether it was found.

    The result is exact but for rounding if the function has a second derivative there.
    """
    tolerance = max(tolerance, float(jnp.finfo(low.dtype).eps))

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
    x = jnp.where(fx < fy, x, y)
    curvature = jax.grad(jax.grad(function))(x)
    inverse = jnp.where(curvature > 0, 1 / curvature, 0)
    slopes = jax.value_and_grad(lambda x: function(x[0]))
    point = _Point(x[None], *slopes(x[None]), inverse[None, None])
    (exact,) = _refined(slopes, point, 20).x
    return jnp.where((low < exact) & (exact < high), exact, x), ~is_wide(a, b)
