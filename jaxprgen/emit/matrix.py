"""Inverses, determinants and functions of matrices, with their meaning in NumPy and SciPy.

Inverses, determinants and `expm` take matrices along the last two of any number of axes.
Operands are float32, float64, complex64 or complex128, as for `jaxprgen.emit.decompositions`. Where
NumPy and SciPy raise because a matrix is singular, the result is infinite or NaN. NaN in an
operand, which SciPy rejects, propagates.
"""

from __future__ import annotations

import math

import jax
import numpy as np

from jaxprgen.emit import elementwise as ew, primitives as lax, reduce
from jaxprgen.emit.control import scan
from jaxprgen.emit.create import eye
from jaxprgen.emit.decompositions import (
    adjoint,
    diagonal,
    eigh,
    is_number,
    reciprocal_gaps,
    square,
    svd,
    transposed,
)
from jaxprgen.emit.linalg import contract, dot, matmul
from jaxprgen.emit.shape import concatenate, expand_dims, reshape, slice_axis, transpose
from jaxprgen.emit.staged import staged
from jaxprgen.emit.systems import above, reciprocal, solve
from jaxprgen.emit.values import BOOL, INT32, Value, full

# --- Inverses and determinants ------------------------------------------------------------


def inverse(a: Value) -> Value:
    """Return the inverse of a matrix, or of each along leading axes."""
    a = square(a, "inverses")
    shape, rank = a.shape, a.ndim
    if not math.prod(shape):
        return a
    if is_number(a):
        return 1 / a
    factors, _, permutation = lax.lu(a)
    column = lax.iota(INT32, shape, rank - 1)
    rows = ew.equal(expand_dims(permutation, [rank - 1]), column).astype(a.dtype)
    rows = lax.triangular_solve(factors, rows, lower=True, unit_diagonal=True)
    return lax.triangular_solve(factors, rows, lower=False)


def is_regular(a: Value) -> Value:
    """Return whether elimination meets no zero pivot in square matrices, as a boolean scalar.

    Where it does, LAPACK reports a singular matrix, and NumPy and SciPy raise.
    """
    if not a.size:
        return full((), True, BOOL)
    return is_regular_triangle(a if is_number(a) else lax.lu(a)[0])


def is_regular_triangle(a: Value) -> Value:
    """Return whether the diagonal of a triangular matrix holds no zeros."""
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

    Unless it is Hermitian, its derivative by JAX is NaN where singular values coincide.
    """
    if not a.size:
        return full(transposed(a).shape, 0, a.dtype)
    if is_hermitian:
        s, right = eigh(a, lower=True)
        left = adjoint(right)
    else:
        u, s, vh = svd(a, full_matrices=False)
        left, right = adjoint(u), adjoint(vh)
    factors = reciprocal(s, above(abs(s), s.like(1e-15))).astype(a.dtype)
    return matmul(right * expand_dims(factors, [s.ndim - 1]), left)


def _pivots(a: Value) -> tuple[Value, Value]:
    """Return the pivots of elimination, and whether it exchanges an odd number of rows."""
    a = square(a, "determinants")
    shape = a.shape
    if not a.size:
        return full(shape[:-1], 1, a.dtype), full(shape[:-2], False, BOOL)
    if is_number(a):
        return reshape(a, shape[:-1]), full(shape[:-2], False, BOOL)
    factors, swaps, _ = lax.lu(a)
    last = swaps.ndim - 1
    moved = ew.not_equal(swaps, lax.iota(INT32, swaps.shape, last))
    return diagonal(factors), reduce.bitwise_xor(moved, (last,))


def det(a: Value) -> Value:
    """Return the determinant of a matrix."""
    pivots, is_odd = _pivots(a)
    product = reduce.prod(pivots, (pivots.ndim - 1,))
    return ew.where(is_odd, -product, product)


def slogdet(a: Value) -> tuple[Value, Value]:
    """Return the sign of the determinant, and the logarithm of its absolute value."""
    pivots, is_odd = _pivots(a)
    last = pivots.ndim - 1
    size = abs(pivots)
    sign = ew.sign(pivots)
    if a.dtype.kind == "c":  # JAX takes the derivative of ``sign`` for zero.
        sign = pivots * reciprocal(size, ew.truth(size)).astype(a.dtype)
    product = reduce.prod(sign, (last,))
    return ew.where(is_odd, -product, product), reduce.sum(ew.log(size), (last,))


# --- Functions of matrices ----------------------------------------------------------------


def _identity(a: Value) -> Value:
    *_, rows, columns = a.shape
    return eye(rows, columns, full((), 0, INT32), a.dtype)


def expm(a: Value) -> Value:
    """Return the exponential of square matrices, as `jax.scipy.linalg.expm` computes it.

    It is NaN if the matrix is too large: if its 1-norm exceeds about 350,000.
    """
    return staged(jax.scipy.linalg.expm, square(a, "exponentials"))[0] if a.size else a


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


def solve_sylvester(a: Value, b: Value, q: Value) -> Value:
    """Return ``x`` with ``a x + x b = q``, by one linear system in the elements of ``x``."""
    operator = kron(a, _identity(b)) + kron(_identity(a), transpose(b, (1, 0)))
    return _solve_linear(operator, q)


def solve_continuous_lyapunov(a: Value, q: Value) -> Value:
    """Return ``x`` with ``a x + x a^H = q``, by one linear system in the n² elements of ``x``.

    SciPy takes n³ operations and this takes n⁶, but JAX has no derivative of the Schur
    decomposition that SciPy uses. For a complex ``q`` and a real ``a`` with complex eigenvalues,
    SciPy's result is wrong: it passes the real Schur form, which is not triangular, to the complex
    ``trsyl``. The same holds for SciPy's `solve_discrete_lyapunov` with ``method="bilinear"``.
    """
    return solve_sylvester(a, adjoint(a), q)


def solve_discrete_lyapunov(a: Value, q: Value) -> Value:
    """Return ``x`` with ``x - a x a^H = q``, by a system in the n² elements of ``x``."""
    product = kron(a, ew.conjugate(a))
    return _solve_linear(_identity(product) - product, q)


_DOUBLINGS = 40


def solve_discrete_riccati(a: Value, b: Value, q: Value, r: Value) -> Value:
    """Return the stabilizing ``x`` with ``a^H x a - x - k^H (r + b^H x b) k + q = 0``.

    Here ``k = (r + b^H x b)^-1 b^H x a``, and ``r`` has to be regular. E. K.-W. Chu, H.-Y. Fan,
    W.-W. Lin and C.-S. Wang, *Structure-preserving algorithms for periodic discrete-time algebraic
    Riccati equations*, Int. J. Control 77 (2004): each step doubles the time horizon.
    """

    def double(a: Value, g: Value, h: Value) -> tuple[list[Value], list[Value], None]:
        regular = _identity(a) + matmul(g, h)
        both = solve(regular, concatenate([a, g], 1))
        n = a.shape[0]
        left, right = slice_axis(both, 1, 0, n), slice_axis(both, 1, n, 2 * n)
        more_g = matmul(matmul(a, right), adjoint(a))
        more_h = matmul(matmul(adjoint(a), h), left)
        return [matmul(a, left), g + more_g, h + more_h], [], None

    g = matmul(b, solve(r, adjoint(b)))
    return scan(double, [], [a, g, q], [], _DOUBLINGS).carries[2]


# --- Derivatives --------------------------------------------------------------------------


def eigh_cotangent(x: Value, w: Value, v: Value, gw: Value, gv: Value) -> Value:
    """Return the gradient of a real symmetric matrix, given those of eigenvalues and -vectors.

    See `jaxprgen.emit.decompositions.reciprocal_gaps` for equal eigenvalues.
    """
    turned = contract(v, gv, (0, 0))
    mixed = (turned - transposed(turned)) / 2 * reciprocal_gaps(x, w)
    same = _identity(v).astype(np.dtype(bool))
    inner = ew.where(same, expand_dims(gw, [1]), mixed)
    return dot(dot(v, inner), transpose(v, (1, 0)))


def generalized_eigvalsh_cotangents(w: Value, v: Value, gw: Value) -> tuple[Value, Value]:
    """Return the gradients of both real operands of `generalized_eigh`, given that of ``w``."""

    def weighted(weights: Value) -> Value:
        return dot(v * expand_dims(weights, [0]), transpose(v, (1, 0)))

    return weighted(gw), -weighted(gw * w)
