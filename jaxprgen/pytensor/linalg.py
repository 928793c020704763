"""Rules for the linear algebra that PyTensor alone has, or that it declares otherwise than Aesara.

`Schur` needs JAX's backend for CPUs, and has no derivative. JAX has no `QZ`.
"""

from __future__ import annotations

from jaxprgen.emit import (
    decompositions,
    elementwise as ew,
    gather as ga,
    matrix,
    primitives as lax,
    reduce,
    tridiagonal,
)
from jaxprgen.emit.decompositions import inexact, transposed, triangle
from jaxprgen.emit.linalg import matmul
from jaxprgen.emit.shape import concatenate, expand_dims, slice_axis
from jaxprgen.emit.sort import argsort
from jaxprgen.emit.values import INT32, Value
from jaxprgen.emit.windows import pad
from jaxprgen.errors import UnsupportedOpError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.nlinalg import declared, lower_function, svd_of

lower_function(matrix.slogdet, "tensor.SLogDet")
lower_function(matrix.solve_discrete_riccati, "tensor.SolveDiscreteARE")
lower_function(tridiagonal.factorize, "tensor.LUFactorTridiagonal")

# --- Eigenvalues --------------------------------------------------------------------------


@lowers("pytensor.tensor.SVD")
def lower_svd(ctx: RuleContext, x: Value) -> list[Value]:
    """Return a singular value decomposition, or the singular values alone."""
    return svd_of(ctx, *inexact(x))


@lowers("tensor.Schur")
def lower_schur(ctx: RuleContext, x: Value) -> list[Value]:
    """Return ``t`` and ``v`` with ``x = v t v^H``; ``t`` is triangular up to blocks of two rows."""
    if ctx.op.sort is not None:
        raise UnsupportedOpError(
            f"schur: JAX does not sort eigenvalues, as sort={ctx.op.sort!r} asks.\n"
            'Leave out sort, or run the Op on the host: pass fallback="callback".'
        )
    (x,) = inexact(x)
    return declared(ctx, *lax.schur(decompositions.square(x.astype(ctx.dtype), "Schur forms")))


# --- LU and QR ----------------------------------------------------------------------------


@lowers("tensor.LU")
def lower_lu(ctx: RuleContext, x: Value) -> list[Value]:
    """Return triangular factors, and how rows are permuted, in the form that the Op asks for."""
    (x,) = inexact(x)
    factors, _, permutation = lax.lu(decompositions.square(x, "LU factors here"))
    left = ew.where(_same_places(x), 1, triangle(factors, lower=True))
    right = triangle(factors, lower=False)
    if ctx.op.p_indices:
        return declared(ctx, argsort(permutation, 0), left, right)
    rows = lax.iota(INT32, x.shape, 0)
    matrix = ew.equal(rows, expand_dims(permutation, [0])).astype(x.dtype)
    if ctx.op.permute_l:
        return declared(ctx, matmul(matrix, left), right)
    return declared(ctx, matrix, left, right)


def _same_places(x: Value) -> Value:
    return ew.equal(*(lax.iota(INT32, x.shape, d) for d in (0, 1)))


@lowers("tensor.LUFactor")
def lower_lu_factor(ctx: RuleContext, x: Value) -> list[Value]:
    """Return both factors in one matrix, NaN if it is singular, and LAPACK's row swaps."""
    (x,) = inexact(x)
    if not x.size:
        return declared(ctx, x, slice_axis(lax.iota(INT32, x.shape[:1], 0), 0, 0, 0))
    factors, pivots, _ = lax.lu(decompositions.square(x, "LU factors here"))
    singular = ew.equal(factors, 0) & _same_places(factors)
    is_singular = reduce.bitwise_or(singular, (0, 1))
    return declared(ctx, ew.where(is_singular, float("nan"), factors), pivots)


@lowers("tensor.PivotToPermutations")
def lower_pivots(ctx: RuleContext, pivots: Value) -> list[Value]:
    """Return the permutation that row swaps make, or its inverse."""
    permutation = lax.lu_pivots_to_permutation(pivots.astype(INT32))
    return declared(ctx, permutation if ctx.op.inverse else argsort(permutation, 0))


@lowers("tensor.QR")
def lower_qr(ctx: RuleContext, x: Value) -> list[Value]:
    """Return a QR decomposition in the form that the mode names."""
    mode, pivoting = ctx.op.mode, bool(ctx.op.pivoting)
    (x,) = inexact(x)
    rows, columns = x.shape
    if mode == "raw":
        order: list[Value] = []
        if pivoting:  # The reflectors are those of the columns in the order of the pivots.
            *_, places = lax.qr(x, full_matrices=False, pivoting=True)
            order, x = [places], transposed(ga.take(transposed(x), [places]))
        reflectors, factors = lax.geqrf(x)
        kept = min(rows, columns)
        upper = triangle(slice_axis(reflectors, 0, 0, kept), lower=False)
        return declared(ctx, reflectors, factors, upper, *order)
    q, r, *order = lax.qr(x, full_matrices=mode != "economic", pivoting=pivoting)
    return declared(ctx, *([] if mode == "r" else [q]), r, *order)


# --- Blocks and matrix equations ----------------------------------------------------------


@lowers("tensor.BlockDiagonal")
def lower_block_diagonal(ctx: RuleContext, *xs: Value) -> list[Value]:
    """Return a matrix with matrices along its diagonal."""
    total, before, rows = sum(x.shape[1] for x in xs), 0, []
    for x in xs:
        after = total - before - x.shape[1]
        rows.append(pad(x.astype(ctx.dtype), [(0, 0, 0), (before, after, 0)]))
        before += x.shape[1]
    return [concatenate(rows, 0)]


@lowers("tensor.SolveLUFactorTridiagonal")
def lower_solve_lu_factor_tridiagonal(
    ctx: RuleContext, dl: Value, d: Value, du: Value, du2: Value, pivots: Value, y: Value
) -> list[Value]:
    """Solve a system of linear equations, given the factors of its tridiagonal matrix."""
    dl, d, du, du2, y = inexact(dl, d, du, du2, y)
    transpose = bool(ctx.op.transposed)
    return declared(ctx, tridiagonal.solve(dl, d, du, du2, pivots, y, transpose=transpose))
