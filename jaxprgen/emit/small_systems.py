"""Factors and triangular systems of matrices with two or three rows, written out.

The algorithms are LAPACK's. On CPUs, XLA calls LAPACK for each matrix of a batch, which takes some
ten times as long, and keeps XLA from fusing what is around it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.shape import concatenate, slice_axis
from jaxprgen.emit.values import Value, full, where

ROWS = (2, 3)


def _part(x: Value, axis: int, i: int) -> Value:
    return slice_axis(x, x.ndim + axis, i, i + 1)


def _elements(x: Value) -> Callable[[int, int], Value]:
    """Return a function of a row and a column that returns (..., 1, 1) elements."""
    return functools.cache(lambda i, j: x[..., i : i + 1, j : j + 1])


def cholesky(x: Value) -> Value:
    """Return the lower factor of real matrices, and NaN for those that are not definite.

    Only the lower triangles are read.
    """
    n, element = x.shape[-1], _elements(x)
    factor: dict[tuple[int, int], Value] = {}
    pivots: list[Value] = []
    for j in range(n):
        for i in range(j, n):
            rest = element(i, j)
            for k in range(j):
                rest = rest - factor[i, k] * factor[j, k]
            if i == j:
                pivots.append(rest)
            factor[i, j] = ew.sqrt(rest) if i == j else rest / factor[j, j]
    zero = full(element(0, 0).shape, 0, x.dtype)
    rows = [concatenate([factor.get((i, j), zero) for j in range(n)], x.ndim - 1) for i in range(n)]
    is_definite = functools.reduce(operator.and_, (pivot > 0 for pivot in pivots))
    return where(is_definite, concatenate(rows, x.ndim - 2), np.nan)


def triangular_solve(
    a: Value, y: Value, *, left_side: bool, lower: bool, transpose: bool, unit_diagonal: bool
) -> Value:
    """Solve real systems as `jaxprgen.ir.primitives.triangular_solve` does."""
    n, element = a.shape[-1], _elements(a)
    by_columns = transpose == left_side  # Whether rows of the systems are columns of `a`.
    axis = -2 if left_side else -1
    solved: dict[int, Value] = {}
    for i in range(n) if lower != by_columns else reversed(range(n)):
        rest = _part(y, axis, i)
        for k, x in solved.items():
            rest = rest - (element(k, i) if by_columns else element(i, k)) * x
        solved[i] = rest if unit_diagonal else rest / element(i, i)
    return concatenate([solved[i] for i in range(n)], y.ndim + axis)
