"""Formulas: elementwise functions of real values with the precision that they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from jaxprgen import _jax
from jaxprgen.emit import elementwise as ew, reduce
from jaxprgen.emit.control import while_loop
from jaxprgen.emit.custom_derivatives import with_derivatives
from jaxprgen.emit.values import Dtype, Emit, Value, ValueLike, broadcast_to, common_shape, lift
from jaxprgen.errors import UnsupportedOpError

Precision: TypeAlias = Callable[[Dtype], Dtype]


def single(dtype: Dtype) -> Dtype:
    """Return single precision at least: half precision cannot hold typical coefficients."""
    return np.result_type(dtype, np.float32)


def widest(dtype: Dtype) -> Dtype:
    """Return float64, in which SciPy computes; float32 where x64 is off."""
    return _jax.canonicalize_dtype(np.dtype(np.float64))


def formula(function: Emit, *derivatives: Emit, precision: Precision = single) -> Emit:
    """Make a function of real values that computes in a dtype of its own.

    Parameters
    ----------
    function
        A function of values of one dtype, which broadcast.
    derivatives
        Its partial derivatives, one per operand, or nothing; see `with_derivatives`.
    precision
        Returns the dtype to compute in, given the dtype of the operands. The result is rounded
        to the operands' dtype.

    Raises
    ------
    UnsupportedOpError
        When the function is called: the operands are complex.
    """
    name = function.__name__.strip("_")
    inner = with_derivatives(function, *derivatives) if derivatives else function

    def emit(*operands: ValueLike) -> Value:
        values = lift(*operands)
        dtype = values[0].dtype
        if dtype.kind == "c":
            raise UnsupportedOpError(f"JAX has no {name} of complex numbers.")
        wide = precision(dtype)
        return inner(*[x.astype(wide) for x in values]).astype(dtype)

    emit.__name__ = emit.__qualname__ = name
    emit.__doc__ = function.__doc__
    return emit


def with_selector(function: Emit, *choice: float) -> Emit:
    """Bind the last operands of a function, which select one of its cases, to numbers."""
    return lambda *xs: function(*xs, *choice)


def zero_derivative(*xs: Value) -> Value:
    """Return zero: the derivative with respect to an operand that selects a case."""
    return xs[0].like(0)


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Return the sum of ``coefficients[n] * x**n`` for two or more coefficients, by Horner."""
    *others, leading = coefficients
    value = x.like(leading)
    for coefficient in reversed(others):
        value = value * x + coefficient
    return value


# --- Loops --------------------------------------------------------------------------------


def iterate(
    limit: int,
    step: Callable[..., Sequence[Value]],
    changing: Sequence[Value],
    fixed: Sequence[Value],
    more: Callable[..., Value] | None = None,
) -> list[Value]:
    """Return ``changing`` after ``step(k, *changing, *fixed)`` for ``k`` from 0 to ``limit - 1``.

    Parameters
    ----------
    limit
        The largest number of steps.
    step
        Returns the next ``changing``.
    changing
        The initial values; they broadcast to the common shape of all operands.
    fixed
        Operands that every step reads. A known number is no operand of the loop.
    more
        ``more(*changing, *fixed)`` returns where elements still change. The loop ends where it
        holds nowhere. By default all elements change in every step.
    """
    shape = common_shape(*changing, *fixed)
    start = [changing[0].like(0), *(broadcast_to(x, shape) for x in changing)]

    def goes_on(k: Value, *values: Value) -> Value:
        below = k < limit
        if more is None:
            return below
        return reduce.sum(more(*values), range(len(shape))) & below

    def body(k: Value, *values: Value) -> list[Value]:
        found = step(k, *values)
        if more is not None:
            active = more(*values)
            found = [ew.where(active, y, x) for y, x in zip(found, values, strict=False)]
        return [k + 1, *(broadcast_to(x, shape) for x in found)]

    return while_loop(goes_on, body, start, fixed)[1:]


def sum_terms(
    number: int, count: int, part: Callable[..., Sequence[Value]], *xs: Value
) -> list[Value]:
    """Return the sums over ``k`` below ``count`` of the ``number`` terms ``part(k, *xs)``.

    A loop adds them up, so that no array is ``count`` times as large as the operands.
    """

    def step(k: Value, *rest: Value) -> list[Value]:
        parts = part(k, *rest[number:])
        return [s + p for s, p in zip(rest[:number], parts, strict=True)]

    return iterate(count, step, [xs[0].like(0)] * number, xs)
