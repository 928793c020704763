"""Systems of linear equations and least squares, with their meaning in NumPy and SciPy.

Matrices are the last two axes of operands, whose leading axes broadcast. Operands are float32,
float64, complex64 or complex128, as for `jaxprgen.emit.decompositions`. Where NumPy and SciPy raise
because a matrix is singular, the result is infinite or NaN. NaN in an operand, which SciPy rejects,
propagates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from jaxprgen.emit import elementwise as ew, primitives as lax, reduce
from jaxprgen.emit.decompositions import adjoint, cholesky, is_number, svd
from jaxprgen.emit.linalg import dot
from jaxprgen.emit.shape import concatenate, expand_dims, reshape, squeeze, transpose
from jaxprgen.emit.sizes import require_equal, with_size
from jaxprgen.emit.values import INT32, Value, broadcast_shapes, broadcast_to, full
from jaxprgen.errors import LinearAlgebraError, ShapeMismatchError


def _for_columns(a: Value, y: Value, solve: Callable[[Value, Value], Value]) -> Value:
    """Solve for a vector, or for all columns of matrices, after checking the shapes."""
    text = f"Cannot solve a system of shape {a.shape} for a right-hand side of shape {y.shape}."
    if a.ndim < 2 or not y.ndim:
        raise ShapeMismatchError(text)
    a = with_size(a, a.ndim - 1, a.shape[-2], text)
    y = with_size(y, max(y.ndim - 2, 0), a.shape[-2], text)
    if y.ndim == 1:
        x = _for_columns(a, expand_dims(y, [1]), solve)
        return squeeze(x, [x.ndim - 1])
    batch = broadcast_shapes(a.shape[:-2], y.shape[:-2])
    y = broadcast_to(y, (*batch, *y.shape[-2:]))
    return solve(a, y) if y.size else full(y.shape, 0, y.dtype)


def solve(a: Value, y: Value) -> Value:
    """Return ``x`` with ``a x = y``, by an LU decomposition with partial pivoting.

    Leading axes broadcast. A one-dimensional ``y`` is a vector, as in NumPy 2.
    """

    def by_lu(a: Value, y: Value) -> Value:
        if is_number(a):
            return y / a
        factors, _, permutation = lax.lu(a)
        *batch, n, _ = y.shape
        factors = broadcast_to(factors, (*batch, n, n))
        rows = _permuted(y, broadcast_to(permutation, (*batch, n)))
        rows = lax.triangular_solve(factors, rows, lower=True, unit_diagonal=True)
        return lax.triangular_solve(factors, rows, lower=False)

    return _for_columns(a, y, by_lu)


def _permuted(y: Value, permutation: Value) -> Value:
    """Return the rows of matrices in another order."""
    shape, rank = permutation.shape, permutation.ndim
    places = [lax.iota(INT32, shape, d) for d in range(rank - 1)]
    index = concatenate([expand_dims(d, [rank]) for d in (*places, permutation)], rank)
    return lax.gather(y, index, range(rank), range(rank), in_bounds=True, unique=True)


def solve_triangular(
    a: Value,
    y: Value,
    *,
    lower: bool,
    transpose: bool = False,
    conjugate: bool = False,
    unit_diagonal: bool = False,
) -> Value:
    """Return ``x`` with ``op(a) x = y`` for one triangle of ``a``, or its transpose."""

    def by_substitution(a: Value, y: Value) -> Value:
        if is_number(a):
            return y if unit_diagonal else y / (ew.conjugate(a) if conjugate else a)
        diagonal = _known_diagonal(a, lower=lower)
        if diagonal is not None:
            return y if unit_diagonal else y / (ew.conjugate(diagonal) if conjugate else diagonal)
        a = broadcast_to(a, (*y.shape[:-2], *a.shape[-2:]))
        return lax.triangular_solve(
            a, y, lower=lower, transpose=transpose, conjugate=conjugate, unit_diagonal=unit_diagonal
        )

    return _for_columns(a, y, by_substitution)


def _known_diagonal(a: Value, *, lower: bool) -> Value | None:
    """Return the diagonal of a known diagonal matrix as a column; None of another matrix."""
    matrix = a.static
    if matrix is None or matrix.ndim != 2:
        return None
    diagonal = np.diag(matrix)
    triangle = np.tril(matrix) if lower else np.triu(matrix)
    is_diagonal = np.count_nonzero(triangle) == np.count_nonzero(diagonal)
    return Value(diagonal[:, None]) if is_diagonal else None


def solve_cholesky(factor: Value, y: Value, *, lower: bool) -> Value:
    """Return ``x`` with ``a x = y``, given the `cholesky` factor of ``a``."""
    first, second = (
        {"lower": lower, "transpose": transposed, "conjugate": transposed}
        for transposed in (not lower, lower)
    )
    return solve_triangular(factor, solve_triangular(factor, y, **first), **second)


def solve_positive(a: Value, y: Value, *, lower: bool) -> Value:
    """Return `solve` for a positive definite matrix, given one triangle; NaN if it is not."""
    return solve_cholesky(cholesky(a, lower=lower), y, lower=lower)


def tensorsolve(a: Value, y: Value, axes: Sequence[int] | None) -> Value:
    """Return `numpy.linalg.tensorsolve`; the ``axes`` of ``a`` are moved to the end.

    Parameters
    ----------
    a : (*y.shape, *shape), before ``axes`` were moved
    y : array

    Returns
    -------
    (*shape,)
    """
    rank = a.ndim
    last = [d % rank for d in axes or ()]
    a = transpose(a, [*(d for d in range(rank) if d not in last), *last])
    shape = a.shape[y.ndim :]
    size = math.prod(shape)
    text = f"A tensor of shape {a.shape} does not map unknowns of shape {shape} to as many "
    error = LinearAlgebraError(f"{text}right-hand sides, got {y.shape}.")
    for given, needed in ((a.size, size**2), (y.size, size)):
        require_equal(given, needed, error)
    flat = solve(reshape(a, (size, size)), reshape(y, (size,)))
    return reshape(flat, shape)


def lstsq(a: Value, y: Value, rcond: Value) -> tuple[Value, Value, Value, Value]:
    """Return `numpy.linalg.lstsq` of matrices.

    NumPy returns no residuals where the rank is deficient. The shapes of a program cannot depend on
    values, so the residuals are NaN there.

    Parameters
    ----------
    a : (m, n)
        The matrix.
    y : (m, k) or (m,)
        The right-hand sides, or the only one.
    rcond : scalar
        The smallest singular value to keep, relative to the largest. LAPACK's ``gelsd`` replaces it
        by the machine precision if it is not between 0 and 1.

    Returns
    -------
    x : (n, k) or (n,)
        The solutions.
    residuals : (k,) or (1,), or (0,) where m <= n
        The squared distances.
    rank : scalar int32
        The rank of the matrix.
    s : (min(m, n),)
        The singular values.
    """
    if a.ndim != 2:
        raise LinearAlgebraError(f"Least squares need a matrix, got shape {a.shape}.")
    m, n = a.shape
    text = f"Least squares with a matrix of shape {a.shape} need right-hand sides of shape ({m},) "
    error = LinearAlgebraError(f"{text}or ({m}, k), got {y.shape}.")
    if y.ndim not in (1, 2):
        raise error
    y = with_size(y, 0, m, error)
    if y.ndim == 1:
        x, residuals, rank, s = lstsq(a, expand_dims(y, [1]), rcond)
        return squeeze(x, [1]), residuals, rank, s
    u, s, vh = svd(a, full_matrices=False)
    rcond = rcond.astype(s.dtype)
    sensible = (rcond > 0) & (rcond < 1)
    kept = above(s, ew.where(sensible, rcond, np.finfo(s.dtype).eps / 2))
    rank = reduce.sum(kept.astype(INT32), (0,))
    scaled = expand_dims(reciprocal(s, kept), [1]) * dot(adjoint(u), y)
    x = dot(adjoint(vh), scaled)
    if m <= n:
        return x, full((0,), 0, s.dtype), rank, s
    distance = ew.square(abs(y - dot(a, x)))
    residuals = ew.where(ew.equal(rank, n), reduce.sum(distance, (0,)), np.nan)
    return x, residuals, rank, s


def above(s: Value, relative: Value) -> Value:
    """Return where values exceed ``relative`` times the largest of their row."""
    if not s.size:
        return s > s
    last = s.ndim - 1
    return s > relative * expand_dims(reduce.max(s, (last,)), [last])


def reciprocal(s: Value, kept: Value) -> Value:
    """Return ``1 / s`` where kept, else 0; the derivative does not divide by 0 either."""
    divisor = ew.where(kept, s, 1)
    return ew.where(kept, 1 / divisor, 0)
