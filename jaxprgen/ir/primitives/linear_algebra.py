"""Sums of products, factorizations of matrices, and triangular systems.

Factorizations and systems take leading batch axes, and float32, float64, complex64 or complex128.
They compute what LAPACK computes. The precision of sums of products is that of
``jax.default_matmul_precision``, as in `jax.lax`.
"""

from __future__ import annotations

from collections.abc import Sequence

from jax.lax import ConvDimensionNumbers, FftType

from jaxprgen import _jax
from jaxprgen._jax import Var
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.primitives.appending import Shape, append, append_multiple

# --- Sums of products -------------------------------------------------------------------


def dot_general(
    b: Builder,
    x: Atom,
    y: Atom,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Var:
    """Multiply two arrays, and sum over pairs of axes.

    Parameters
    ----------
    b : Builder
    x, y : atoms of one dtype
    contract : (axes of ``x``, axes of ``y``)
        Axes of equal sizes to sum over, in pairs.
    batch : (axes of ``x``, axes of ``y``)
        Axes of equal sizes that the result keeps, in pairs.

    Returns
    -------
    Var
        An array whose axes are the batch axes, then the other axes of ``x``, then those of ``y``.
    """
    (cx, cy), (bx, by) = contract, batch
    return append(
        b,
        "dot_general",
        (x, y),
        dimension_numbers=((tuple(cx), tuple(cy)), (tuple(bx), tuple(by))),
        precision=_jax.matmul_precision(),
        preferred_element_type=x.aval.dtype,
    )


def conv_general_dilated(
    b: Builder,
    x: Atom,
    w: Atom,
    *,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    x_dilation: Sequence[int] | None = None,
    w_dilation: Sequence[int] | None = None,
    x_axes: Sequence[int] | None = None,
    w_axes: Sequence[int] | None = None,
    out_axes: Sequence[int] | None = None,
    feature_groups: int = 1,
    batch_groups: int = 1,
) -> Var:
    """Correlate an array with filters, which are not flipped.

    Parameters
    ----------
    b : Builder
    x, w : atoms of one dtype
        The array, and the filters that slide along its spatial axes.
    strides : sequence of int
        The step on each spatial axis.
    padding : sequence of (int, int)
        The padding before and after each spatial axis of the dilated ``x``. Negative padding
        removes elements.
    x_dilation, w_dilation : sequence of int, optional
        The distance between adjacent elements on each spatial axis; 1 by default.
    x_axes : sequence of int, optional
        The axes of ``x`` that are batch, features, and the spatial axes; in that order by default.
    w_axes : sequence of int, optional
        The axes of ``w`` that are output features, input features, and the spatial axes.
    out_axes : sequence of int, optional
        The axes of the result that are batch, output features, and the spatial axes.
    feature_groups, batch_groups : int
        The numbers of groups into which features, or the batch, are split.
    """
    ones, order = (1,) * len(strides), tuple(range(len(x.aval.shape)))
    axes = (order if axes is None else tuple(axes) for axes in (x_axes, w_axes, out_axes))
    return append(
        b,
        "conv_general_dilated",
        (x, w),
        window_strides=tuple(strides),
        padding=tuple(padding),
        lhs_dilation=ones if x_dilation is None else tuple(x_dilation),
        rhs_dilation=ones if w_dilation is None else tuple(w_dilation),
        dimension_numbers=ConvDimensionNumbers(*axes),
        feature_group_count=feature_groups,
        batch_group_count=batch_groups,
        precision=_jax.matmul_precision(),
        preferred_element_type=None,
    )


def fft(b: Builder, x: Atom, kind: str, lengths: Shape) -> Var:
    """Return the discrete Fourier transform over the last one to three axes.

    Parameters
    ----------
    b : Builder
    x : atom, float for RFFT, complex otherwise
    kind : {"FFT", "IFFT", "RFFT", "IRFFT"}
        RFFT returns, and IRFFT takes, the nonnegative frequencies of the last axis. The inverse
        transforms divide by the number of elements.
    lengths : tuple of int
        The sizes of the transformed axes in the time domain.
    """
    return append(b, "fft", (x,), fft_type=FftType[kind], fft_lengths=lengths)


# --- Factorizations ---------------------------------------------------------------------


def cholesky(b: Builder, x: Atom) -> Var:
    """Return the lower Cholesky factor of a Hermitian matrix, or NaN if it is not definite.

    The strictly upper triangles of operand and result are undefined.
    """
    return append(b, "cholesky", (x,))


def lu(b: Builder, x: Atom) -> list[Var]:
    """Return ``[lu, pivots, permutation]`` such that ``x[permutation]`` is the factors' product.

    Both factors share one matrix; ``pivots`` are LAPACK's row swaps.
    """
    return append_multiple(b, "lu", (x,))


def lu_pivots_to_permutation(b: Builder, pivots: Atom) -> Var:
    """Return the permutation, of int32, that LAPACK's row swaps ``pivots`` make."""
    size = (pivots.aval.shape or (0,))[-1]
    return append(b, "lu_pivots_to_permutation", (pivots,), permutation_size=size)


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
    """Solve ``op(a) x = y`` or, if not ``left_side``, ``x op(a) = y`` for ``x``.

    Parameters
    ----------
    b : Builder
    a : (..., n, n) atom
        The triangular matrix. Its other triangle is not read.
    y : (..., n, k) or (..., k, n) atom
        The right-hand sides.
    left_side, lower : bool
        The side of ``a``, and which of its triangles is read.
    transpose, conjugate : bool
        What ``op`` does.
    unit_diagonal : bool
        Whether to read ones on the diagonal of ``a``.
    """
    return append(
        b,
        "triangular_solve",
        (a, y),
        left_side=left_side,
        lower=lower,
        transpose_a=transpose,
        conjugate_a=conjugate and a.aval.dtype.kind == "c",
        unit_diagonal=unit_diagonal,
    )


def eig(b: Builder, x: Atom) -> list[Var]:
    """Return ``[w, v]``: complex eigenvalues, and right eigenvectors as columns.

    Not every backend of JAX implements it; the one for CPUs does.
    """
    return append_multiple(b, "eig", (x,), **_jax.eig_params())


def eigh(b: Builder, x: Atom, *, lower: bool) -> list[Var]:
    """Return ``[v, w]``: eigenvectors as columns, and real eigenvalues in ascending order.

    Only the lower, or else the upper, triangle of ``x`` is read. Its derivative assumes that ``x``
    is Hermitian.
    """
    return append_multiple(b, "eigh", (x,), **_jax.eigh_params(lower))


def schur(b: Builder, x: Atom) -> list[Var]:
    """Return ``[t, v]`` with ``x = v t v^H``; on CPUs only, and without a derivative."""
    params = {"compute_schur_vectors": True, "sort_eig_vals": False, "select_callable": None}
    return append_multiple(b, "schur", (x,), **params)


def qr(b: Builder, x: Atom, *, full_matrices: bool, pivoting: bool = False) -> list[Var]:
    """Return ``[q, r]``, with a square ``q`` if ``full_matrices``; of permuted columns if pivoting.

    With ``pivoting``, the third result is the permutation.
    """
    params = {"pivoting": pivoting, "full_matrices": full_matrices, "use_magma": None}
    return append_multiple(b, "qr", (x,), **params)


def geqrf(b: Builder, x: Atom) -> list[Var]:
    """Return ``[a, taus]``, LAPACK's QR decomposition in the form of Householder reflectors."""
    return append_multiple(b, "geqrf", (x,))


def svd(b: Builder, x: Atom, *, full_matrices: bool, compute_uv: bool) -> list[Var]:
    """Return ``[s, u, vh]``, or ``[s]`` if not ``compute_uv``; singular values descend."""
    params = {"full_matrices": full_matrices, "compute_uv": compute_uv}
    return append_multiple(b, "svd", (x,), **params, subset_by_index=None, algorithm=None)
