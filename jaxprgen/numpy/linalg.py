"""Functions of `numpy.linalg` and `scipy.linalg`.

Matrices are the last two axes of operands; leading axes broadcast. `lstsq` takes one matrix.
"""

from __future__ import annotations

import numpy as np

from jaxprgen.emit import decompositions, matrix, reduce, systems
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.decompositions import inexact
from jaxprgen.emit.shape import expand_dims
from jaxprgen.emit.values import Value, ValueLike
from jaxprgen.numpy.reductions import Axis, axes_of
from jaxprgen.numpy.ufuncs import value_of

__all__ = [
    "cholesky",
    "det",
    "eigh",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
]


def _inexact(*xs: ValueLike) -> list[Value]:
    return inexact(*map(value_of, xs))


def cholesky(a: ValueLike) -> Value:
    """Return the lower triangular factor of a positive definite matrix, else NaN."""
    return decompositions.cholesky(*_inexact(a), lower=True)


def det(a: ValueLike) -> Value:
    """Return the determinant."""
    return matrix.det(*_inexact(a))


def slogdet(a: ValueLike) -> tuple[Value, Value]:
    """Return the sign of the determinant, and the logarithm of its absolute value."""
    return matrix.slogdet(*_inexact(a))


def eigh(a: ValueLike) -> tuple[Value, Value]:
    """Return the eigenvalues, ascending, and the eigenvectors of a Hermitian matrix."""
    return decompositions.eigh(*_inexact(a), lower=True)


def eigvalsh(a: ValueLike) -> Value:
    """Return the eigenvalues of a Hermitian matrix, ascending."""
    return eigh(a)[0]


def expm(a: ValueLike) -> Value:
    """Return the exponential of a matrix."""
    return matrix.expm(*_inexact(a))


def inv(a: ValueLike) -> Value:
    """Return the inverse of a matrix."""
    return matrix.inverse(*_inexact(a))


def lstsq(
    a: ValueLike, b: ValueLike, rcond: float | None = None
) -> tuple[Value, Value, Value, Value]:
    """Return the solution of least squares, residuals, the rank, and singular values.

    Where the rank is deficient, NumPy returns no residuals, and this returns NaN.
    """
    a, b = _inexact(a, b)
    rcond = np.finfo(a.dtype).eps * max(a.shape) if rcond is None else rcond
    return systems.lstsq(a, b, Value(np.asarray(rcond)))


def norm(x: ValueLike, axis: Axis = None, keepdims: bool = False) -> Value:
    """Return the Euclidean or Frobenius norm over some axes, by default over all."""
    (x,) = _inexact(x)
    axes = axes_of(axis, x.ndim)
    squares = ew.square(x)
    if x.dtype.kind == "c":
        squares = ew.square(ew.real(x)) + ew.square(ew.imag(x))
    found = ew.sqrt(reduce.sum(squares, axes))
    return expand_dims(found, axes) if keepdims else found


def pinv(a: ValueLike) -> Value:
    """Return the pseudoinverse of a matrix."""
    return matrix.pseudoinverse(*_inexact(a), is_hermitian=False)


def qr(a: ValueLike) -> tuple[Value, Value]:
    """Return a matrix of orthonormal columns and an upper triangular one."""
    return decompositions.qr(*_inexact(a), full_matrices=False)


def solve(a: ValueLike, b: ValueLike) -> Value:
    """Return ``x`` with ``a x = b``; one-dimensional ``b`` is a vector, as in NumPy 2."""
    return systems.solve(*_inexact(a, b))


def solve_triangular(a: ValueLike, b: ValueLike, lower: bool = False) -> Value:
    """Return ``x`` with ``a x = b`` for a triangular matrix."""
    return systems.solve_triangular(*_inexact(a, b), lower=lower)


def svd(a: ValueLike, full_matrices: bool = True) -> tuple[Value, Value, Value]:
    """Return ``u``, ``s`` and ``vh`` with ``a = u diag(s) vh``, ``s`` descending."""
    return decompositions.svd(*_inexact(a), full_matrices=full_matrices)
