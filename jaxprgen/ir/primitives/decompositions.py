"""Factorizations of matrices, and systems with triangular ones. All take leading batch axes.

They compute what LAPACK does, in float32, float64, complex64 or complex128.
"""

from __future__ import annotations

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.ir.builder import Atom, Builder


def cholesky(b: Builder, x: Atom) -> Var:
    """The lower factor of a Hermitian matrix, in the lower triangle; NaN if it is not definite.

    What is above the diagonal of operand and result means nothing.
    """
    return b.bind(_jax.primitive("cholesky"), (x,), {})


def lu(b: Builder, x: Atom) -> list[Var]:
    """``[lu, pivots, permutation]``: both factors in one matrix, the swaps of rows, their product.

    The rows of ``x`` in the order of ``permutation`` are the product of the factors.
    """
    return b.bind_multiple(_jax.primitive("lu"), (x,), {})


def triangular_solve(
    b: Builder,
    a: Atom,
    y: Atom,
    *,
    left_side: bool = True,
    lower: bool,
    transpose: bool = False,
    conjugate: bool = False,
    unit_diagonal: bool = False,
) -> Var:
    """``x`` of ``op(a) x = y`` or, not on the left side, of ``x op(a) = y``."""
    params = {
        "left_side": left_side,
        "lower": lower,
        "transpose_a": transpose,
        "conjugate_a": conjugate and a.aval.dtype.kind == "c",
        "unit_diagonal": unit_diagonal,
    }
    return b.bind(_jax.primitive("triangular_solve"), (a, y), params)


def eig(b: Builder, x: Atom) -> list[Var]:
    """``[w, v]``: complex eigenvalues, and right eigenvectors as columns. On CPUs at least."""
    return b.bind_multiple(_jax.primitive("eig"), (x,), _jax.eig_params())


def eigh(b: Builder, x: Atom, *, lower: bool) -> list[Var]:
    """``[v, w]``: eigenvectors as columns, and real eigenvalues in ascending order.

    Only one triangle of the operand is read; its derivative takes it for Hermitian.
    """
    return b.bind_multiple(_jax.primitive("eigh"), (x,), _jax.eigh_params(lower))


def qr(b: Builder, x: Atom, *, full_matrices: bool) -> list[Var]:
    """``[q, r]``."""
    params = {"pivoting": False, "full_matrices": full_matrices, "use_magma": None}
    return b.bind_multiple(_jax.primitive("qr"), (x,), params)


def geqrf(b: Builder, x: Atom) -> list[Var]:
    """``[a, taus]``: LAPACK's own form of a QR decomposition, by Householder reflectors."""
    return b.bind_multiple(_jax.primitive("geqrf"), (x,), {})


def svd(b: Builder, x: Atom, *, full_matrices: bool, compute_uv: bool) -> list[Var]:
    """``[s, u, vh]``, or ``[s]``: the singular values descend."""
    params = {
        "full_matrices": full_matrices,
        "compute_uv": compute_uv,
        "subset_by_index": None,
        "algorithm": None,
    }
    return b.bind_multiple(_jax.primitive("svd"), (x,), params)
