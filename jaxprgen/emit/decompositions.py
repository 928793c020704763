"""Factorizations of matrices, with their meaning in NumPy and SciPy.

Matrices are the last two axes of operands, which may have leading axes. Operands are float32,
float64, complex64 or complex128; `inexact` converts to these. Only one triangle of a matrix that is
declared Hermitian is read, so results depend on that triangle alone.
"""

from __future__ import annotations

import numpy as np

from jaxprgen._jax import min_size
from jaxprgen.emit import elementwise as ew, primitives as lax, reduce
from jaxprgen.emit.linalg import matmul
from jaxprgen.emit.shape import expand_dims, slice_axis, transpose
from jaxprgen.emit.sizes import is_known, with_size
from jaxprgen.emit.values import INT32, Value
from jaxprgen.errors import LinearAlgebraError


def inexact(*xs: Value) -> list[Value]:
    """Return the values in the dtype in which NumPy and SciPy compute: float64 for integers.

    Float16 becomes float32: NumPy and SciPy reject it, or do the same.
    """
    dtype = np.result_type(*(x.dtype for x in xs))
    if dtype.kind not in "fc":
        dtype = np.dtype(np.float64)
    elif dtype.itemsize == 2:
        dtype = np.dtype(np.float32)
    return [x.astype(ew.canonical(dtype)) for x in xs]


def square(x: Value, result: str) -> Value:
    """Return square matrices, of which a result with this name, a plural, exists.

    Raises
    ------
    LinearAlgebraError
        The matrices are not square.
    """
    shape = x.shape
    error = LinearAlgebraError(f"Only square matrices have {result}, got shape {shape}.")
    if len(shape) < 2:
        raise error
    return with_size(x, len(shape) - 1, shape[-2], error)


def is_number(a: Value) -> bool:
    """Return whether matrices hold one number each, which no library need take apart."""
    return a.shape[-2:] == (1, 1)


def _positions(x: Value) -> tuple[Value, Value]:
    """Return the row and the column of every element of a matrix."""
    rank = x.ndim
    return lax.iota(INT32, x.shape, rank - 2), lax.iota(INT32, x.shape, rank - 1)


def triangle_mask(x: Value, *, lower: bool, strict: bool = False) -> Value:
    """Return where an element of a matrix is in a triangle, without the diagonal if ``strict``."""
    rows, columns = _positions(x)
    inner, outer = (columns, rows) if lower else (rows, columns)
    return inner < outer if strict else inner <= outer


def triangle(x: Value, *, lower: bool, strict: bool = False) -> Value:
    """Return a matrix with zeros outside of a triangle."""
    return ew.where(triangle_mask(x, lower=lower, strict=strict), x, 0)


def diagonal(x: Value) -> Value:
    """Return the diagonal of a square matrix."""
    return reduce.sum(ew.where(ew.equal(*_positions(x)), x, 0), (x.ndim - 1,))


def transposed(x: Value) -> Value:
    """Exchange the rows and the columns of a matrix."""
    rank = x.ndim
    return transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def adjoint(x: Value) -> Value:
    """Return the conjugate transpose of a matrix."""
    return ew.conjugate(transposed(x))


def symmetric(x: Value, *, lower: bool) -> Value:
    """Return the symmetric matrix of which ``x`` holds one triangle."""
    return ew.where(triangle_mask(x, lower=lower), x, transposed(x))


def hermitian(x: Value, *, lower: bool) -> Value:
    """Return the Hermitian matrix of which ``x`` holds one triangle; its diagonal is real."""
    if x.dtype.kind != "c":
        return symmetric(x, lower=lower)
    real = ew.real(x).astype(x.dtype)
    other = ew.where(triangle_mask(x, lower=lower), real, adjoint(x))
    return ew.where(triangle_mask(x, lower=lower, strict=True), x, other)


def onto_triangle(x: Value, *, lower: bool) -> Value:
    """Add one triangle, mirrored, to the other: the adjoint of `symmetric`."""
    rest = transposed(triangle(x, lower=not lower, strict=True))
    return triangle(x, lower=lower) + rest


def cholesky(x: Value, *, lower: bool) -> Value:
    """Return the triangular factor of a Hermitian positive definite matrix, else NaN."""
    x = square(x, "Cholesky factors")
    if is_number(x):
        own = ew.real(x)
        return ew.where(own > 0, ew.sqrt(own), np.nan).astype(x.dtype)
    factor = lax.cholesky(hermitian(x, lower=lower))
    kept = triangle_mask(factor, lower=True) | ew.isnan(factor)
    factor = ew.where(kept, factor, 0)
    return factor if lower else adjoint(factor)


def eigh(x: Value, *, lower: bool) -> tuple[Value, Value]:
    """Return the eigenvalues, ascending, and the eigenvectors of a Hermitian matrix."""
    # Both triangles are filled. LAPACK always reads the lower one, so that eigenvectors do not
    # depend on ``lower`` by rounding.
    v, w = lax.eigh(hermitian(square(x, "eigenvalues"), lower=lower), lower=True)
    return w, v


def eigh_tangents(
    x: Value, w: Value, v: Value, tangent: Value, *, lower: bool
) -> tuple[Value, Value]:
    """Return the tangents of eigenvalues and eigenvectors, given that of a Hermitian matrix.

    Parameters
    ----------
    x, w, v : Value
        The matrix, its eigenvalues and its eigenvectors.
    tangent : Value
        The tangent of ``x``.
    lower : bool
        Which triangle of both is read.
    """
    x, tangent = (hermitian(y, lower=lower) for y in (x, tangent))
    mixed = matmul(matmul(adjoint(v), tangent), v)
    # Exactly Hermitian: eigenvalues that differ by rounding alone would magnify what is not.
    mixed = (mixed + adjoint(mixed)) / 2
    return ew.real(diagonal(mixed)), matmul(v, reciprocal_gaps(x, w).astype(v.dtype) * mixed)


def reciprocal_gaps(x: Value, w: Value) -> Value:
    """Return ``1 / (w[j] - w[i])``: how fast the eigenvectors of a Hermitian matrix mix.

    It is 0 on the diagonal, and for equal eigenvalues: they are taken to stay equal, as those of a
    kernel with symmetries do. Then a function that does not depend on the basis of eigenvectors
    does not depend on their mixing. A diagonal matrix, such as the identity, does not show which
    eigenvalues stay equal, so the result for equal ones is NaN.
    """
    gaps = expand_dims(w, [w.ndim - 1]) - expand_dims(w, [w.ndim])
    own = ew.equal(*_positions(x))
    is_diagonal = reduce.bitwise_and(own | ew.equal(x, 0), (x.ndim - 2, x.ndim - 1))
    unknown = expand_dims(ew.where(is_diagonal, np.nan, gaps.like(0)), [w.ndim - 1, w.ndim])
    tied = ew.equal(gaps, 0)
    return ew.where(tied, ew.where(own, 0, unknown), 1 / ew.where(tied, 1, gaps))


def generalized_eigh(x: Value, m: Value, *, lower: bool) -> tuple[Value, Value]:
    """Return ``w`` and ``v`` with ``x v = m v diag(w)`` and ``v^H m v = 1``.

    ``m`` is positive definite; its Cholesky factor is used, as by LAPACK's ``hegv``.
    """
    factor = cholesky(hermitian(m, lower=lower), lower=True)
    half = lax.triangular_solve(factor, hermitian(x, lower=lower), lower=True)
    reduced = lax.triangular_solve(
        factor, half, left_side=False, lower=True, transpose=True, conjugate=True
    )
    w, v = eigh(reduced, lower=True)
    return w, lax.triangular_solve(factor, v, lower=True, transpose=True, conjugate=True)


def eig(x: Value) -> tuple[Value, Value]:
    """Return complex eigenvalues and right eigenvectors; on CPUs only in most versions of JAX."""
    w, v = lax.eig(square(x, "eigenvalues"))
    return w, v


def qr(x: Value, *, full_matrices: bool) -> tuple[Value, Value]:
    """Return a matrix of orthonormal columns and an upper triangular one."""
    *_, rows, columns = x.shape
    first = min_size(rows, columns)
    if is_known((rows, columns)) or first == columns:
        q, r = lax.qr(x, full_matrices=full_matrices)
        return q, r
    # JAX asks whether there are more columns than rows. As many columns as rows determine `q`.
    q, _ = lax.qr(slice_axis(x, x.ndim - 1, 0, first), full_matrices=full_matrices)
    return q, triangle(matmul(adjoint(q), x), lower=False)


def qr_raw(x: Value) -> tuple[Value, Value]:
    """Return the transposed reflectors and their factors, as `numpy.linalg.qr` in mode "raw"."""
    reflectors, factors = lax.geqrf(x)
    return transposed(reflectors), factors


def svd(x: Value, *, full_matrices: bool) -> tuple[Value, Value, Value]:
    """Return ``u``, ``s`` and ``vh`` with ``x = u diag(s) vh`` and descending singular values."""
    s, u, vh = lax.svd(x, full_matrices=full_matrices, compute_uv=True)
    return u, s, vh


def singular_values(x: Value) -> Value:
    """Return the singular values, in descending order."""
    return lax.svd(x, full_matrices=False, compute_uv=False)[0]
