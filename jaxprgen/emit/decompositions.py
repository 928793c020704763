"""Factorizations of matrices, with the meaning they have in NumPy and SciPy.

Operands are float32, float64, complex64 or complex128; `inexact` makes them so. A matrix that
is Hermitian by declaration is read in one triangle only, and so depends on that triangle only.
"""

from __future__ import annotations

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import reduce
from jaxprgen.emit.shape import transpose
from jaxprgen.emit.values import INT32, Value, atom, dtype_of, like, shape_of
from jaxprgen.ir import Builder
from jaxprgen.ir import primitives as lax


def inexact(b: Builder, *xs: Value) -> list[Value]:
    """The values in the dtype in which NumPy and SciPy compute: float64 for integers.

    Of float16 they know nothing, or take float32, which is what is done here.
    """
    dtype = np.result_type(*map(dtype_of, xs))
    if dtype.kind not in "fc":
        dtype = np.dtype(np.float64)
    elif dtype.itemsize == 2:
        dtype = np.dtype(np.float32)
    return [ew.convert(b, x, ew.canonical(dtype)) for x in xs]


def triangle_mask(b: Builder, x: Value, *, lower: bool, strict: bool = False) -> Value:
    """Whether an element of a matrix lies in a triangle; strictly, beside the diagonal."""
    rows, columns = (lax.iota(b, INT32, shape_of(x), d) for d in (0, 1))
    inner, outer = (columns, rows) if lower else (rows, columns)
    return ew.less(b, inner, outer) if strict else ew.less_equal(b, inner, outer)


def triangle(b: Builder, x: Value, *, lower: bool, strict: bool = False) -> Value:
    """A matrix with zeros outside of a triangle."""
    return ew.where(b, triangle_mask(b, x, lower=lower, strict=strict), x, like(x, 0))


def diagonal(b: Builder, x: Value) -> Value:
    """The diagonal of a square matrix."""
    rows, columns = (lax.iota(b, INT32, shape_of(x), d) for d in (0, 1))
    return reduce.sum(b, ew.where(b, ew.equal(b, rows, columns), x, like(x, 0)), (1,))


def adjoint(b: Builder, x: Value) -> Value:
    """The conjugate transpose of a matrix."""
    return ew.conjugate(b, transpose(b, x, (1, 0)))


def symmetric(b: Builder, x: Value, *, lower: bool) -> Value:
    """The symmetric matrix of which ``x`` holds one triangle."""
    return ew.where(b, triangle_mask(b, x, lower=lower), x, transpose(b, x, (1, 0)))


def hermitian(b: Builder, x: Value, *, lower: bool) -> Value:
    """The Hermitian matrix of which ``x`` holds one triangle; its diagonal is taken as real."""
    if dtype_of(x).kind != "c":
        return symmetric(b, x, lower=lower)
    real = ew.convert(b, ew.real(b, x), dtype_of(x))
    other = ew.where(b, triangle_mask(b, x, lower=lower), real, adjoint(b, x))
    return ew.where(b, triangle_mask(b, x, lower=lower, strict=True), x, other)


def onto_triangle(b: Builder, x: Value, *, lower: bool) -> Value:
    """The adjoint of `symmetric`: the one triangle added to the other, mirrored."""
    rest = transpose(b, triangle(b, x, lower=not lower, strict=True), (1, 0))
    return ew.add(b, triangle(b, x, lower=lower), rest)


def cholesky(b: Builder, x: Value, *, lower: bool) -> Value:
    """The triangular factor of a Hermitian positive definite matrix, else NaN everywhere."""
    factor = lax.cholesky(b, atom(b, hermitian(b, x, lower=lower)))
    kept = ew.bitwise_or(b, triangle_mask(b, factor, lower=True), ew.isnan(b, factor))
    factor = ew.where(b, kept, factor, like(factor, 0))
    return factor if lower else adjoint(b, factor)


def eigh(b: Builder, x: Value, *, lower: bool) -> tuple[Value, Value]:
    """Eigenvalues in ascending order, and eigenvectors, of a Hermitian matrix."""
    # Both triangles hold the same here. That LAPACK reads one of them, always the same, makes the
    # rounding of a symmetric matrix's eigenvectors independent of ``lower``.
    v, w = lax.eigh(b, atom(b, hermitian(b, x, lower=lower)), lower=True)
    return w, v


def generalized_eigh(b: Builder, x: Value, m: Value, *, lower: bool) -> tuple[Value, Value]:
    """``w`` and ``v`` of ``x v = m v diag(w)``, for a positive definite ``m``: ``v^H m v = 1``.

    By the factor of ``m``, as LAPACK's ``hegv``.
    """
    factor = atom(b, cholesky(b, hermitian(b, m, lower=lower), lower=True))
    half = lax.triangular_solve(b, factor, atom(b, hermitian(b, x, lower=lower)), lower=True)
    reduced = lax.triangular_solve(
        b, factor, half, left_side=False, lower=True, transpose=True, conjugate=True
    )
    w, v = eigh(b, reduced, lower=True)
    return w, lax.triangular_solve(
        b, factor, atom(b, v), lower=True, transpose=True, conjugate=True
    )


def eig(b: Builder, x: Value) -> tuple[Value, Value]:
    """Complex eigenvalues and right eigenvectors. Every JAX has it on CPUs only."""
    w, v = lax.eig(b, atom(b, x))
    return w, v


def qr(b: Builder, x: Value, *, full_matrices: bool) -> tuple[Value, Value]:
    """A matrix of orthonormal columns and an upper triangular one."""
    q, r = lax.qr(b, atom(b, x), full_matrices=full_matrices)
    return q, r


def qr_raw(b: Builder, x: Value) -> tuple[Value, Value]:
    """The reflectors, transposed, and their factors: ``mode="raw"`` of `numpy.linalg.qr`."""
    reflectors, factors = lax.geqrf(b, atom(b, x))
    return transpose(b, reflectors, (1, 0)), factors


def svd(b: Builder, x: Value, *, full_matrices: bool) -> tuple[Value, Value, Value]:
    """``u``, ``s`` and ``vh`` with ``x = u diag(s) vh``; the singular values descend."""
    s, u, vh = lax.svd(b, atom(b, x), full_matrices=full_matrices, compute_uv=True)
    return u, s, vh


def singular_values(b: Builder, x: Value) -> Value:
    """The singular values, in descending order."""
    return lax.svd(b, atom(b, x), full_matrices=False, compute_uv=False)[0]
