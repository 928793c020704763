"""Equations, inverses and functions of matrices, with NumPy's and SciPy's meaning.

Operands are float32, float64, complex64 or complex128, as for `jaxprgen.emit.decompositions`.
Where NumPy and SciPy raise because a matrix is singular, the result is infinite or NaN. NaN in an
operand, which SciPy refuses, reaches the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from jaxprgen.emit import elementwise as ew
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
from jaxprgen.emit.values import (
    INT32,
    Value,
    atom,
    dtype_of,
    like,
    shape_of,
    size_of,
    splat,
)
from jaxprgen.errors import LinearAlgebraError, ShapeMismatchError
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax

# --- Systems of equations -----------------------------------------------------------------


def _side_by_side(b: Builder, a: Value, y: Value, solve: Callable[[Value, Value], Value]) -> Value:
    """The solution for a vector, or for the columns of a matrix, on the right-hand side."""
    (m, n), right = shape_of(a), shape_of(y)
    if m != n or m != right[0]:
        raise ShapeMismatchError(f"No system of equations: {(m, n)} on the left, {right} right.")
    if not math.prod(right):
        return splat(0, dtype_of(y), right)
    if len(right) == 2:
        return solve(a, y)
    return squeeze(b, solve(a, expand_dims(b, y, [1])), [1])


def solve(b: Builder, a: Value, y: Value) -> Value:
    """``x`` of ``a x = y``, by an LU decomposition with partial pivoting."""

    def by_lu(a: Value, y: Value) -> Value:
        factors, _, permutation = lax.lu(b, atom(b, a))
        order = atom(b, expand_dims(b, permutation, [1]))
        rows = lax.gather(b, atom(b, y), order, [0], [0], in_bounds=True, unique=True)
        rows = lax.triangular_solve(b, factors, rows, lower=True, unit_diagonal=True)
        return lax.triangular_solve(b, factors, rows, lower=False)

    return _side_by_side(b, a, y, by_lu)


def solve_triangular(
    b: Builder,
    a: Value,
    y: Value,
    *,
    lower: bool,
    transpose: bool = False,
    conjugate: bool = False,
    unit_diagonal: bool = False,
) -> Value:
    """``x`` of ``op(a) x = y`` for one triangle of ``a``, which may stand transposed."""

    def by_substitution(a: Value, y: Value) -> Value:
        return lax.triangular_solve(
            b,
            atom(b, a),
            atom(b, y),
            lower=lower,
            transpose=transpose,
            conjugate=conjugate,
            unit_diagonal=unit_diagonal,
        )

    return _side_by_side(b, a, y, by_substitution)


def solve_cholesky(b: Builder, factor: Value, y: Value, *, lower: bool) -> Value:
    """``x`` of ``a x = y``, given the `cholesky` factor of ``a``."""
    first, second = (
        {"lower": lower, "transpose": transposed, "conjugate": transposed}
        for transposed in (not lower, lower)
    )
    return solve_triangular(b, factor, solve_triangular(b, factor, y, **first), **second)


def solve_hermitian(b: Builder, a: Value, y: Value, *, lower: bool) -> Value:
    """`solve` for a Hermitian matrix that is given by one triangle."""
    return solve(b, hermitian(b, a, lower=lower), y)


def solve_symmetric(b: Builder, a: Value, y: Value, *, lower: bool) -> Value:
    """`solve` for a symmetric matrix that is given by one triangle."""
    return solve(b, symmetric(b, a, lower=lower), y)


def solve_positive(b: Builder, a: Value, y: Value, *, lower: bool) -> Value:
    """`solve` for a positive definite matrix that is given by one triangle; NaN if it is not."""
    return solve_cholesky(b, cholesky(b, a, lower=lower), y, lower=lower)


def tensorsolve(b: Builder, a: Value, y: Value, axes: Sequence[int] | None) -> Value:
    """`numpy.linalg.tensorsolve`: ``a`` times the axes of ``x`` is ``y``; ``axes`` go last."""
    rank = len(shape_of(a))
    last = [d % rank for d in axes or ()]
    a = transpose(b, a, [*(d for d in range(rank) if d not in last), *last])
    shape = shape_of(a)[len(shape_of(y)) :]
    size = math.prod(shape)
    flat = solve(b, reshape(b, a, (-1 if size else 0, size)), reshape(b, y, (-1,)))
    return reshape(b, flat, shape)


def lstsq(b: Builder, a: Value, y: Value, rcond: Value) -> tuple[Value, Value, Value, Value]:
    """`numpy.linalg.lstsq` of matrices: solution, residuals, rank and singular values.

    LAPACK's ``gelsd`` takes machine precision for an ``rcond`` that is not between 0 and 1.
    NumPy leaves out residuals where the rank is deficient; a program, whose shapes cannot depend
    on values, says NaN.
    """
    if len(shape_of(a)) != 2:
        raise LinearAlgebraError(f"Least squares take a matrix, not shape {shape_of(a)}.")
    m, n = shape_of(a)
    u, s, vh = svd(b, a, full_matrices=False)
    rcond = ew.convert(b, rcond, dtype_of(s))
    sensible = ew.bitwise_and(b, *(f(b, rcond, like(s, n)) for f, n in _OPEN_UNIT_INTERVAL))
    precision = like(s, np.finfo(dtype_of(s)).eps / 2)
    kept = _above(b, s, ew.where(b, sensible, rcond, precision))
    rank = reduce.sum(b, ew.convert(b, kept, INT32), (0,))
    scaled = ew.multiply(b, expand_dims(b, _reciprocal(b, s, kept), [1]), dot(b, adjoint(b, u), y))
    x = dot(b, adjoint(b, vh), scaled)
    if m <= n:
        return x, splat(0, dtype_of(s), (0,)), rank, s
    distance = ew.square(b, ew.absolute(b, ew.subtract(b, y, dot(b, a, x))))
    full = ew.equal(b, rank, like(rank, n))
    residuals = ew.where(b, full, reduce.sum(b, distance, (0,)), like(s, np.nan))
    return x, residuals, rank, s


_OPEN_UNIT_INTERVAL = ((ew.greater, 0), (ew.less, 1))


def _above(b: Builder, s: Value, relative: Value) -> Value:
    """Which values exceed a part of the largest."""
    if not shape_of(s)[0]:
        return ew.greater(b, s, s)
    return ew.greater(b, s, ew.multiply(b, relative, reduce.max(b, s, (0,))))


def _reciprocal(b: Builder, s: Value, kept: Value) -> Value:
    """``1 / s`` of what is kept, else 0; its derivative does not divide by 0 either."""
    divisor = ew.where(b, kept, s, like(s, 1))
    return ew.where(b, kept, ew.reciprocal(b, divisor), like(s, 0))


# --- Inverses and determinants ------------------------------------------------------------


def inverse(b: Builder, a: Value) -> Value:
    """The inverse of a matrix, or of each along leading axes."""
    shape = shape_of(a)
    rank, count = len(shape), shape[-1]
    if rank < 2 or shape[-2] != count:
        raise LinearAlgebraError(f"Only square matrices have inverses, not shape {shape}.")
    if not math.prod(shape):
        return a
    factors, _, permutation = lax.lu(b, atom(b, a))
    column = lax.iota(b, INT32, shape, rank - 1)
    permuted = ew.equal(b, expand_dims(b, permutation, [rank - 1]), column)
    rows = atom(b, ew.convert(b, permuted, dtype_of(a)))
    rows = lax.triangular_solve(b, factors, rows, lower=True, unit_diagonal=True)
    return lax.triangular_solve(b, factors, rows, lower=False)


def is_regular(b: Builder, a: Value) -> Value:
    """Whether elimination meets no pivot of zero in a square matrix, or in each along leading axes.

    That is where LAPACK, and so NumPy and SciPy, do not say that it is singular.
    """
    return _no_zeros_on_diagonal(b, lax.lu(b, atom(b, a))[0]) if size_of(a) else np.asarray(True)


def is_regular_triangle(b: Builder, a: Value) -> Value:
    """`is_regular` for a triangular matrix."""
    return _no_zeros_on_diagonal(b, a)


def _no_zeros_on_diagonal(b: Builder, a: Value) -> Value:
    rank = len(shape_of(a))
    rows, columns = (lax.iota(b, INT32, shape_of(a), d) for d in (rank - 2, rank - 1))
    beside = ew.not_equal(b, rows, columns)
    differs = ew.not_equal(b, a, like(a, 0))
    return reduce.bitwise_and(b, ew.bitwise_or(b, beside, differs), tuple(range(rank)))


def tensorinv(b: Builder, a: Value, count: int) -> Value:
    """`numpy.linalg.tensorinv`: the inverse as a map from the last axes to the first ``count``."""
    shape = shape_of(a)
    matrix = reshape(b, a, (math.prod(shape[:count]), math.prod(shape[count:])))
    return reshape(b, inverse(b, matrix), (*shape[count:], *shape[:count]))


def pseudoinverse(b: Builder, a: Value, *, is_hermitian: bool) -> Value:
    """`numpy.linalg.pinv`; a Hermitian matrix is given by its lower triangle.

    JAX's derivative of it is NaN where singular values coincide.
    """
    if not math.prod(shape_of(a)):
        return splat(0, dtype_of(a), shape_of(a)[::-1])
    if is_hermitian:
        s, right = eigh(b, a, lower=True)
        left = adjoint(b, right)
    else:
        u, s, vh = svd(b, a, full_matrices=False)
        left, right = adjoint(b, u), adjoint(b, vh)
    kept = _above(b, ew.absolute(b, s), like(s, 1e-15))
    factors = ew.convert(b, _reciprocal(b, s, kept), dtype_of(a))
    return dot(b, ew.multiply(b, right, expand_dims(b, factors, [0])), left)


def det(b: Builder, a: Value) -> Value:
    """The determinant of a matrix."""
    shape = shape_of(a)
    if len(set(shape)) != 1:
        raise LinearAlgebraError(f"Only square matrices have determinants, not shape {shape}.")
    if not shape[0]:
        return like(a, 1)
    factors, pivots, _ = lax.lu(b, atom(b, a))
    magnitude = reduce.prod(b, diagonal(b, factors), (0,))
    swapped = ew.not_equal(b, pivots, lax.iota(b, INT32, (shape[0],), 0))
    odd = reduce.bitwise_xor(b, swapped, (0,))
    return ew.where(b, odd, ew.negative(b, magnitude), magnitude)


# --- Functions of matrices ----------------------------------------------------------------


def _identity(b: Builder, a: Value) -> Value:
    rows, columns = shape_of(a)
    return eye(b, rows, columns, np.asarray(0), dtype_of(a))


_PADE = (
    *(64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800),
    *(129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920, 40840800),
    *(960960, 16380, 182, 1),
)
_PADE_RADIUS = 5.371920351148152
_SQUARINGS = 16


def expm(b: Builder, a: Value) -> Value:
    """The exponential of a matrix, by a Padé approximant of degree 13, scaled and squared.

    N. J. Higham, *The scaling and squaring method for the matrix exponential revisited*, SIAM
    J. Matrix Anal. Appl. 26 (2005), Algorithm 2.3. As in JAX's own there are at most 16 squarings,
    and beyond the result is NaN: in a loop of unknown length JAX could not differentiate backwards.
    """
    if not math.prod(shape_of(a)):
        return a
    norm = reduce.max(b, reduce.sum(b, ew.absolute(b, a), (0,)), (0,))
    ratio = special.scaled(b, norm, 1 / _PADE_RADIUS)
    count = ew.maximum(b, ew.ceil(b, special.log2(b, ratio)), like(norm, 0))
    scale = ew.exp2(b, ew.negative(b, count))
    x = _pade(b, ew.multiply(b, a, ew.convert(b, scale, dtype_of(a))))
    for i in range(_SQUARINGS):
        more = ew.less(b, like(count, i), count)
        x = ew.where(b, more, dot(b, x, x), x)
    too_large = ew.greater(b, count, like(count, _SQUARINGS))
    return ew.where(b, too_large, like(x, np.nan), x)


def _pade(b: Builder, a: Value) -> Value:
    square = dot(b, a, a)
    fourth = dot(b, square, square)
    powers = [_identity(b, a), square, fourth, dot(b, square, fourth)]

    def combined(coefficients: Sequence[float], terms: Sequence[Value]) -> Value:
        total, *rest = (special.scaled(b, t, c) for c, t in zip(coefficients, terms, strict=True))
        for term in rest:
            total = ew.add(b, total, term)
        return total

    def polynomial(coefficients: Sequence[float]) -> Value:
        """Of the square, to degree 6: the highest powers together."""
        high = dot(b, powers[3], combined(coefficients[4:], powers[1:]))
        return ew.add(b, high, combined(coefficients[:4], powers))

    odd, even = dot(b, a, polynomial(_PADE[1::2])), polynomial(_PADE[::2])
    return solve(b, ew.subtract(b, even, odd), ew.add(b, even, odd))


def expm_derivative(b: Builder, a: Value, direction: Value) -> Value:
    """The derivative of `expm` at ``a`` in a direction.

    It is a block of the exponential of ``[[a, direction], [0, a]]``: N. J. Higham, *Functions of
    Matrices*, SIAM 2008, equation 3.16. Unlike formulas by eigenvalues it needs no distinct ones.
    """
    count = shape_of(a)[0]
    above = concatenate(b, [a, direction], 1)
    below = concatenate(b, [splat(0, dtype_of(a), shape_of(a)), a], 1)
    exponential = expm(b, concatenate(b, [above, below], 0))
    return slice_axis(b, slice_axis(b, exponential, 0, 0, count), 1, count, 2 * count)


# --- Matrix equations ---------------------------------------------------------------------


def kron(b: Builder, x: Value, y: Value) -> Value:
    """The Kronecker product of matrices."""
    (m, n), (k, l_) = shape_of(x), shape_of(y)
    blocks = ew.multiply(b, expand_dims(b, x, [1, 3]), expand_dims(b, y, [0, 2]))
    return reshape(b, blocks, (m * k, n * l_))


def _solve_linear(b: Builder, operator: Value, q: Value) -> Value:
    return reshape(b, solve(b, operator, reshape(b, q, (-1,))), shape_of(q))


def solve_continuous_lyapunov(b: Builder, a: Value, q: Value) -> Value:
    """``x`` of ``a x + x a^H = q``, as one linear system in the n² elements of ``x``.

    SciPy takes n³ operations where this takes n⁶, but JAX has no derivative of its method's
    Schur decomposition. Of a real ``a`` with complex eigenvalues beside a complex ``q`` its result
    solves no such equation: it gives LAPACK's ``trsyl`` for complex numbers, which reads triangles,
    the real Schur form, which is none. So it does where `solve_discrete_lyapunov` is bilinear.
    """
    one = _identity(b, a)
    operator = ew.add(b, kron(b, a, one), kron(b, one, ew.conjugate(b, a)))
    return _solve_linear(b, operator, q)


def solve_discrete_lyapunov(b: Builder, a: Value, q: Value) -> Value:
    """``x`` of ``x - a x a^H = q``, as one linear system in the n² elements of ``x``."""
    product = kron(b, a, ew.conjugate(b, a))
    return _solve_linear(b, ew.subtract(b, _identity(b, product), product), q)


# --- Derivatives --------------------------------------------------------------------------


def eigh_cotangent(b: Builder, w: Value, v: Value, gw: Value, gv: Value) -> Value:
    """The gradient of a real symmetric matrix, given those of its eigenvalues and -vectors."""
    gaps = ew.subtract(b, expand_dims(b, w, [1]), expand_dims(b, w, [0]))
    mixed = ew.divide(b, contract(b, gv, v, (0, 0)), gaps)
    same = ew.convert(b, _identity(b, v), np.dtype(bool))
    return _rotated(b, ew.where(b, same, expand_dims(b, gw, [1]), mixed), v)


def _rotated(b: Builder, x: Value, v: Value) -> Value:
    """``v x v^T``."""
    return dot(b, dot(b, v, x), transpose(b, v, (1, 0)))


def generalized_eigvalsh_cotangents(
    b: Builder, w: Value, v: Value, gw: Value
) -> tuple[Value, Value]:
    """The gradients of both real matrices of `generalized_eigh`, given that of ``w``."""

    def weighted(weights: Value) -> Value:
        return dot(b, ew.multiply(b, v, expand_dims(b, weights, [0])), transpose(b, v, (1, 0)))

    return weighted(gw), ew.negative(b, weighted(ew.multiply(b, gw, w)))
