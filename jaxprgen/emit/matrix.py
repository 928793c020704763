"""Equations, inverses and functions of matrices, with their meaning in NumPy and SciPy.

Operands are float32, float64, complex64 or complex128, as for `jaxprgen.emit.decompositions`.
Where NumPy and SciPy raise because a matrix is singular, the result is infinite or NaN. NaN in an
operand, which SciPy rejects, propagates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit import reduce
from jaxprgen.emit import transcendental as special
from jaxprgen.emit.create import eye
from jaxprgen.emit.decompositions import (
    adjoint,
    cholesky,
    diagonal,
    eigh,
    hermitian,
    svd,
    symmetric,
)
from jaxprgen.emit.linalg import contract, dot
from jaxprgen.emit.shape import concatenate, expand_dims, reshape, slice_axis, squeeze, transpose
from jaxprgen.emit.values import BOOL, INT32, Value, full
from jaxprgen.errors import LinearAlgebraError, ShapeMismatchError

# --- Systems of equations -----------------------------------------------------------------


def _side_by_side(a: Value, y: Value, solve: Callable[[Value, Value], Value]) -> Value:
    """Solve for a vector, or for all columns of a matrix, after checking the shapes."""
    (m, n), right = a.shape, y.shape
    if m != n or m != right[0]:
        raise ShapeMismatchError(
            f"Cannot solve a system of shape {(m, n)} for a right-hand side of shape {right}."
        )
    if not math.prod(right):
        return full(right, 0, y.dtype)
    if len(right) == 2:
        return solve(a, y)
    return squeeze(solve(a, expand_dims(y, [1])), [1])


def solve(a: Value, y: Value) -> Value:
    """Return ``x`` with ``a x = y``, by an LU decomposition with partial pivoting."""

    def by_lu(a: Value, y: Value) -> Value:
        factors, _, permutation = lax.lu(a)
        order = expand_dims(permutation, [1])
        rows = lax.gather(y, order, [0], [0], in_bounds=True, unique=True)
        rows = lax.triangular_solve(factors, rows, lower=True, unit_diagonal=True)
        return lax.triangular_solve(factors, rows, lower=False)

    return _side_by_side(a, y, by_lu)


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
        return lax.triangular_solve(
            a, y, lower=lower, transpose=transpose, conjugate=conjugate, unit_diagonal=unit_diagonal
        )

    return _side_by_side(a, y, by_substitution)


def solve_cholesky(factor: Value, y: Value, *, lower: bool) -> Value:
    """Return ``x`` with ``a x = y``, given the `cholesky` factor of ``a``."""
    first, second = (
        {"lower": lower, "transpose": transposed, "conjugate": transposed}
        for transposed in (not lower, lower)
    )
    return solve_triangular(factor, solve_triangular(factor, y, **first), **second)


def solve_hermitian(a: Value, y: Value, *, lower: bool) -> Value:
    """Return `solve` for a Hermitian matrix, given one triangle."""
    return solve(hermitian(a, lower=lower), y)


def solve_symmetric(a: Value, y: Value, *, lower: bool) -> Value:
    """Return `solve` for a symmetric matrix, given one triangle."""
    return solve(symmetric(a, lower=lower), y)


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
    if a.size != size**2 or y.size != size:
        raise LinearAlgebraError(
            f"A tensor of shape {a.shape} does not map unknowns of shape {shape} to as many "
            f"right-hand sides, got {y.shape}."
        )
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
    if y.ndim not in (1, 2) or y.shape[0] != m:
        raise LinearAlgebraError(
            f"Least squares with a matrix of shape {a.shape} need right-hand sides of shape ({m},) "
            f"or ({m}, k), got {y.shape}."
        )
    if y.ndim == 1:
        x, residuals, rank, s = lstsq(a, expand_dims(y, [1]), rcond)
        return squeeze(x, [1]), residuals, rank, s
    u, s, vh = svd(a, full_matrices=False)
    rcond = rcond.astype(s.dtype)
    sensible = (rcond > 0) & (rcond < 1)
    kept = _above(s, ew.where(sensible, rcond, np.finfo(s.dtype).eps / 2))
    rank = reduce.sum(kept.astype(INT32), (0,))
    scaled = expand_dims(_reciprocal(s, kept), [1]) * dot(adjoint(u), y)
    x = dot(adjoint(vh), scaled)
    if m <= n:
        return x, full((0,), 0, s.dtype), rank, s
    distance = ew.square(abs(y - dot(a, x)))
    residuals = ew.where(ew.equal(rank, n), reduce.sum(distance, (0,)), np.nan)
    return x, residuals, rank, s


def _above(s: Value, relative: Value) -> Value:
    """Return where values exceed ``relative`` times the largest."""
    if not s.shape[0]:
        return s > s
    return s > relative * reduce.max(s, (0,))


def _reciprocal(s: Value, kept: Value) -> Value:
    """Return ``1 / s`` where kept, else 0; the derivative does not divide by 0 either."""
    divisor = ew.where(kept, s, 1)
    return ew.where(kept, 1 / divisor, 0)


# --- Inverses and determinants ------------------------------------------------------------


def inverse(a: Value) -> Value:
    """Return the inverse of a matrix, or of each along leading axes."""
    shape = a.shape
    rank, count = len(shape), shape[-1]
    if rank < 2 or shape[-2] != count:
        raise LinearAlgebraError(f"Only square matrices have inverses, got shape {shape}.")
    if not math.prod(shape):
        return a
    factors, _, permutation = lax.lu(a)
    column = lax.iota(INT32, shape, rank - 1)
    rows = ew.equal(expand_dims(permutation, [rank - 1]), column).astype(a.dtype)
    rows = lax.triangular_solve(factors, rows, lower=True, unit_diagonal=True)
    return lax.triangular_solve(factors, rows, lower=False)


def is_regular(a: Value) -> Value:
    """Return whether elimination meets no zero pivot in square matrices, as a boolean scalar.

    Where it does, LAPACK reports a singular matrix, and NumPy and SciPy raise.
    """
    return _no_zeros_on_diagonal(lax.lu(a)[0]) if a.size else full((), True, BOOL)


def is_regular_triangle(a: Value) -> Value:
    """Return `is_regular` for a triangular matrix."""
    return _no_zeros_on_diagonal(a)


def _no_zeros_on_diagonal(a: Value) -> Value:
    rank = a.ndim
    rows, columns = (lax.iota(INT32, a.shape, d) for d in (rank - 2, rank - 1))
    off_diagonal = ew.not_equal(rows, columns)
    return reduce.bitwise_and(off_diagonal | ew.truth(a), range(rank))


def tensorinv(a: Value, count: int) -> Value:
    """Return `numpy.linalg.tensorinv`: the inverse of a map to the first ``count`` axes."""
    shape = a.shape
    matrix = reshape(a, (math.prod(shape[:count]), math.prod(shape[count:])))
    return reshape(inverse(matrix), (*shape[count:], *shape[:count]))


def pseudoinverse(a: Value, *, is_hermitian: bool) -> Value:
    """Return `numpy.linalg.pinv`; a Hermitian matrix is given by its lower triangle.

    Its derivative by JAX is NaN where singular values coincide.
    """
    if not math.prod(a.shape):
        return full(a.shape[::-1], 0, a.dtype)
    if is_hermitian:
        s, right = eigh(a, lower=True)
        left = adjoint(right)
    else:
        u, s, vh = svd(a, full_matrices=False)
        left, right = adjoint(u), adjoint(vh)
    factors = _reciprocal(s, _above(abs(s), s.like(1e-15))).astype(a.dtype)
    return dot(right * expand_dims(factors, [0]), left)


def det(a: Value) -> Value:
    """Return the determinant of a matrix."""
    shape = a.shape
    if len(set(shape)) != 1:
        raise LinearAlgebraError(f"Only square matrices have determinants, got shape {shape}.")
    if not shape[0]:
        return a.like(1)
    factors, pivots, _ = lax.lu(a)
    magnitude = reduce.prod(diagonal(factors), (0,))
    swapped = ew.not_equal(pivots, lax.iota(INT32, (shape[0],), 0))
    is_odd = reduce.bitwise_xor(swapped, (0,))
    return ew.where(is_odd, -magnitude, magnitude)


# --- Functions of matrices ----------------------------------------------------------------


def _identity(a: Value) -> Value:
    rows, columns = a.shape
    return eye(rows, columns, full((), 0, INT32), a.dtype)


_PADE = (
    *(64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800),
    *(129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920, 40840800),
    *(960960, 16380, 182, 1),
)
_PADE_RADIUS = 5.371920351148152
_SQUARINGS = 16


def expm(a: Value) -> Value:
    """Return the exponential of a matrix, by a Padé approximant of degree 13, scaled and squared.

    N. J. Higham, *The scaling and squaring method for the matrix exponential revisited*, SIAM J.
    Matrix Anal. Appl. 26 (2005), Algorithm 2.3. As in `jax.scipy.linalg.expm` there are at most 16
    squarings, and larger matrices give NaN: JAX has no reverse mode for a loop of unknown length.
    """
    if not math.prod(a.shape):
        return a
    norm = reduce.max(reduce.sum(abs(a), (0,)), (0,))
    ratio = norm * (1 / _PADE_RADIUS)
    count = ew.maximum(ew.ceil(special.log2(ratio)), 0)
    scale = ew.exp2(-count)
    x = _pade(a * scale.astype(a.dtype))
    for i in range(_SQUARINGS):
        x = ew.where(count > i, dot(x, x), x)
    return ew.where(count > _SQUARINGS, np.nan, x)


def _pade(a: Value) -> Value:
    square = dot(a, a)
    fourth = dot(square, square)
    powers = [_identity(a), square, fourth, dot(square, fourth)]

    def combined(coefficients: Sequence[float], terms: Sequence[Value]) -> Value:
        total, *rest = (t * c for c, t in zip(coefficients, terms, strict=True))
        for term in rest:
            total = total + term
        return total

    def polynomial(coefficients: Sequence[float]) -> Value:
        """Evaluate a polynomial of the square, of degree 6, with the highest powers together."""
        high = dot(powers[3], combined(coefficients[4:], powers[1:]))
        return high + combined(coefficients[:4], powers)

    odd, even = dot(a, polynomial(_PADE[1::2])), polynomial(_PADE[::2])
    return solve(even - odd, even + odd)


def expm_derivative(a: Value, direction: Value) -> Value:
    """Return the derivative of `expm` at ``a`` in a direction.

    It is a block of the exponential of ``[[a, direction], [0, a]]``: N. J. Higham, *Functions of
    Matrices*, SIAM 2008, equation 3.16. Unlike formulas by eigenvalues, it does not need them
    distinct.
    """
    count = a.shape[0]
    above = concatenate([a, direction], 1)
    below = concatenate([full(a.shape, 0, a.dtype), a], 1)
    exponential = expm(concatenate([above, below], 0))
    return slice_axis(slice_axis(exponential, 0, 0, count), 1, count, 2 * count)


# --- Matrix equations ---------------------------------------------------------------------


def kron(x: Value, y: Value) -> Value:
    """Return the Kronecker product of matrices."""
    (m, n), (k, l_) = x.shape, y.shape
    blocks = expand_dims(x, [1, 3]) * expand_dims(y, [0, 2])
    return reshape(blocks, (m * k, n * l_))


def _solve_linear(operator: Value, q: Value) -> Value:
    return reshape(solve(operator, reshape(q, (-1,))), q.shape)


def solve_continuous_lyapunov(a: Value, q: Value) -> Value:
    """Return ``x`` with ``a x + x a^H = q``, by one linear system in the n² elements of ``x``.

    SciPy takes n³ operations and this takes n⁶, but JAX has no derivative of the Schur
    decomposition that SciPy uses. For a complex ``q`` and a real ``a`` with complex eigenvalues,
    SciPy's result is wrong: it passes the real Schur form, which is not triangular, to the complex
    ``trsyl``. The same holds for SciPy's `solve_discrete_lyapunov` with ``method="bilinear"``.
    """
    one = _identity(a)
    operator = kron(a, one) + kron(one, ew.conjugate(a))
    return _solve_linear(operator, q)


def solve_discrete_lyapunov(a: Value, q: Value) -> Value:
    """Return ``x`` with ``x - a x a^H = q``, by a system in the n² elements of ``x``."""
    product = kron(a, ew.conjugate(a))
    return _solve_linear(_identity(product) - product, q)


# --- Derivatives --------------------------------------------------------------------------


def eigh_cotangent(w: Value, v: Value, gw: Value, gv: Value) -> Value:
    """Return the gradient of a real symmetric matrix, given those of eigenvalues and -vectors."""
    gaps = expand_dims(w, [1]) - expand_dims(w, [0])
    mixed = contract(gv, v, (0, 0)) / gaps
    same = _identity(v).astype(np.dtype(bool))
    return _rotated(ew.where(same, expand_dims(gw, [1]), mixed), v)


def _rotated(x: Value, v: Value) -> Value:
    """Return ``v x v^T``."""
    return dot(dot(v, x), transpose(v, (1, 0)))


def generalized_eigvalsh_cotangents(w: Value, v: Value, gw: Value) -> tuple[Value, Value]:
    """Return the gradients of both real operands of `generalized_eigh`, given that of ``w``."""

    def weighted(weights: Value) -> Value:
        return dot(v * expand_dims(weights, [0]), transpose(v, (1, 0)))

    return weighted(gw), -weighted(gw * w)
