"""Factorizations of matrices, with the meaning they have in NumPy and SciPy.

Operands are float32, float64, complex64 or complex128; `inexact` makes them so. A matrix that
is Hermitian by declaration is read in one triangle only, and so depends on that triangle only.
"""

from __future__ import annotations

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import primitives as lax
from jaxprgen.emit import reduce
from jaxprgen.emit.shape import transpose
from jaxprgen.emit.values import INT32, Value


def inexact(*xs: Value) -> list[Value]:
    """The values in the dtype in which NumPy and SciPy compute: float64 for integers.

    Of float16 they know nothing, or take float32, which is what is done here.
    """
    dtype = np.result_type(*(x.dtype for x in xs))
    if dtype.kind not in "fc":
        dtype = np.dtype(np.float64)
    elif dtype.itemsize == 2:
        dtype = np.dtype(np.float32)
    return [x.astype(ew.canonical(dtype)) for x in xs]


def triangle_mask(x: Value, *, lower: bool, strict: bool = False) -> Value:
    """Whether an element of a matrix lies in a triangle; strictly, beside the diagonal."""
    rows, columns = (lax.iota(INT32, x.shape, d) for d in (0, 1))
    inner, outer = (columns, rows) if lower else (rows, columns)
    return inner < outer if strict else inner <= outer


def triangle(x: Value, *, lower: bool, strict: bool = False) -> Value:
    """A matrix with zeros outside of a triangle."""
    return ew.where(triangle_mask(x, lower=lower, strict=strict), x, 0)


def diagonal(x: Value) -> Value:
    """The diagonal of a square matrix."""
    rows, columns = (lax.iota(INT32, x.shape, d) for d in (0, 1))
    return reduce.sum(ew.where(ew.equal(rows, columns), x, 0), (1,))


def adjoint(x: Value) -> Value:
    """The conjugate transpose of a matrix."""
    return ew.conjugate(transpose(x, (1, 0)))


def symmetric(x: Value, *, lower: bool) -> Value:
    """The symmetric matrix of which ``x`` holds one triangle."""
    return ew.where(triangle_mask(x, lower=lower), x, transpose(x, (1, 0)))


def hermitian(x: Value, *, lower: bool) -> Value:
    """The Hermitian matrix of which ``x`` holds one triangle; its diagonal is taken as real."""
    if x.dtype.kind != "c":
        return symmetric(x, lower=lower)
    real = ew.real(x).astype(x.dtype)
    other = ew.where(triangle_mask(x, lower=lower), real, adjoint(x))
    return ew.where(triangle_mask(x, lower=lower, strict=True), x, other)


def onto_triangle(x: Value, *, lower: bool) -> Value:
    """The adjoint of `symmetric`: the one triangle added to the other, mirrored."""
    rest = transpose(triangle(x, lower=not lower, strict=True), (1, 0))
    return triangle(x, lower=lower) + rest


def cholesky(x: Value, *, lower: bool) -> Value:
    """The triangular factor of a Hermitian positive definite matrix, else NaN everywhere."""
    factor = lax.cholesky(hermitian(x, lower=lower))
    kept = triangle_mask(factor, lower=True) | ew.isnan(factor)
    factor = ew.where(kept, factor, 0)
    return factor if lower else adjoint(factor)


def eigh(x: Value, *, lower: bool) -> tuple[Value, Value]:
    """Eigenvalues in ascending order, and eigenvectors, of a Hermitian matrix."""
    # Both triangles hold the same here. That LAPACK reads one of them, always the same, makes the
    # rounding of a symmetric matrix's eigenvectors independent of ``lower``.
    v, w = lax.eigh(hermitian(x, lower=lower), lower=True)
    return w, v


def generalized_eigh(x: Value, m: Value, *, lower: bool) -> tuple[Value, Value]:
    """``w`` and ``v`` of ``x v = m v diag(w)``, for a positive definite ``m``: ``v^H m v = 1``.

    By the factor of ``m``, as LAPACK's ``hegv``.
    """
    factor = cholesky(hermitian(m, lower=lower), lower=True).atom()
    half = lax.triangular_solve(factor, hermitian(x, lower=lower), lower=True)
    reduced = lax.triangular_solve(
        factor, half, left_side=False, lower=True, transpose=True, conjugate=True
    )
    w, v = eigh(reduced, lower=True)
    return w, lax.triangular_solve(factor, v, lower=True, transpose=True, conjugate=True)


def eig(x: Value) -> tuple[Value, Value]:
    """Complex eigenvalues and right eigenvectors. Every JAX has it on CPUs only."""
    w, v = lax.eig(x)
    return w, v


def qr(x: Value, *, full_matrices: bool) -> tuple[Value, Value]:
    """A matrix of orthonormal columns and an upper triangular one."""
    q, r = lax.qr(x, full_matrices=full_matrices)
    return q, r


def qr_raw(x: Value) -> tuple[Value, Value]:
    """The reflectors, transposed, and their factors: ``mode="raw"`` of `numpy.linalg.qr`."""
    reflectors, factors = lax.geqrf(x)
    return transpose(reflectors, (1, 0)), factors


def svd(x: Value, *, full_matrices: bool) -> tuple[Value, Value, Value]:
    """``u``, ``s`` and ``vh`` with ``x = u diag(s) vh``; the singular values descend."""
    s, u, vh = lax.svd(x, full_matrices=full_matrices, compute_uv=True)
    return u, s, vh


def singular_values(x: Value) -> Value:
    """The singular values, in descending order."""
    return lax.svd(x, full_matrices=False, compute_uv=False)[0]
