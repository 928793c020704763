"""Rules for `aesara.tensor.nlinalg`: NumPy's linear algebra.

Integers are converted to float64 and float16 to float32; results are converted to the declared
dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprgen.emit import decompositions, matrix, systems
from jaxprgen.emit.decompositions import inexact
from jaxprgen.emit.values import Value
from jaxprgen.errors import LinearAlgebraError, UnsupportedOpError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import Key
from jaxprgen.lowering.registry import lowers


def declared(ctx: RuleContext, *values: Value) -> list[Value]:
    """Return the node's outputs in their declared dtypes, which may drop imaginary parts."""
    types = [t for t in ctx.step.types if t is not None]
    return [x.astype(t.dtype) for x, t in zip(values, types, strict=True)]


def reals(ctx: RuleContext, *xs: Value) -> list[Value]:
    """Return floating-point operands, and reject complex ones, for Ops with real results."""
    if any(x.dtype.kind == "c" for x in xs):
        raise UnsupportedOpError(
            f"{ctx.op} supports real operands only: it declares its results as real."
        )
    return inexact(*xs)


def lower_function(
    function: Callable[..., Any], *op_types: Key, ranked: bool = True, **attributes: str
) -> None:
    """Make a function of arrays of one inexact dtype the rule of Ops.

    ``attributes`` are the names of the Ops' attributes that the function takes by keyword.
    """

    @lowers(*op_types, ranked=ranked)
    def lower(ctx: RuleContext, *xs: Value) -> list[Value]:
        options = {key: getattr(ctx.op, name) for key, name in attributes.items()}
        found = function(*inexact(*xs), **options)
        return declared(ctx, *([found] if isinstance(found, Value) else found))

    lower.__name__ = lower.__qualname__ = f"lower_{function.__name__}"
    lower.__doc__ = function.__doc__


lower_function(decompositions.eig, "tensor.Eig")
lower_function(matrix.det, "tensor.Det")
lower_function(matrix.pseudoinverse, "tensor.MatrixPinv", is_hermitian="hermitian")
lower_function(matrix.tensorinv, "tensor.TensorInv", count="ind")
# Aesara declares its results as matrices, as those of `Lstsq`; they may have other ranks.
lower_function(systems.tensorsolve, "tensor.TensorSolve", ranked=False, axes="axes")


def require_regular(ctx: RuleContext, condition: Callable[[], Value]) -> None:
    """Check at run time that a matrix is regular; without checks, results are infinite or NaN."""
    ctx.require(condition, LinearAlgebraError, "The matrix is singular.")


@lowers("tensor.MatrixInverse", "tensor.Inv")
def lower_inverse(ctx: RuleContext, x: Value) -> list[Value]:
    """Return the inverse of a matrix."""
    (x,) = inexact(x)
    inverse = matrix.inverse(x)
    require_regular(ctx, lambda: matrix.is_regular(x))
    return declared(ctx, inverse)


@lowers("tensor.Eigh")
def lower_eigh(ctx: RuleContext, x: Value, *metric: Value) -> list[Value]:
    """Return eigenvalues and eigenvectors of a symmetric matrix, or of a pair of matrices.

    They are read from one triangle.
    """
    op = ctx.op
    lower = bool(op.lower) if hasattr(op, "lower") else op.UPLO == "L"
    solve = decompositions.generalized_eigh if metric else decompositions.eigh
    return declared(ctx, *solve(*reals(ctx, x, *metric), lower=lower))


@lowers("tensor.EighGrad")
def lower_eigh_grad(
    ctx: RuleContext, x: Value, w: Value, v: Value, gw: Value, gv: Value
) -> list[Value]:
    """Return the gradient with respect to the triangle that `Eigh` reads."""
    lower = ctx.op.UPLO == "L"
    x, w, v, gw, gv = reals(ctx, x, w, v, gw, gv)
    gradient = matrix.eigh_cotangent(decompositions.symmetric(x, lower=lower), w, v, gw, gv)
    return declared(ctx, decompositions.onto_triangle(gradient, lower=lower))


@lowers("tensor.QRFull")
def lower_qr(ctx: RuleContext, x: Value) -> list[Value]:
    """Return a QR decomposition in the form that the mode names."""
    mode = ctx.op.mode
    (x,) = reals(ctx, x)
    if mode == "raw":
        return declared(ctx, *decompositions.qr_raw(x))
    if mode not in ("reduced", "complete", "r"):
        raise UnsupportedOpError(f"qr: NumPy has deprecated mode {mode!r}; use 'reduced'.")
    q, r = decompositions.qr(x, full_matrices=mode == "complete")
    return declared(ctx, r) if mode == "r" else declared(ctx, q, r)


@lowers("tensor.SVD")
def lower_svd(ctx: RuleContext, x: Value) -> list[Value]:
    """Return a singular value decomposition, or the singular values alone."""
    return svd_of(ctx, *reals(ctx, x))


def svd_of(ctx: RuleContext, x: Value) -> list[Value]:
    """Return what `lower_svd` does, for operands of one inexact dtype."""
    if not ctx.op.compute_uv:
        return declared(ctx, decompositions.singular_values(x))
    return declared(ctx, *decompositions.svd(x, full_matrices=bool(ctx.op.full_matrices)))


@lowers("tensor.Lstsq", ranked=False)
def lower_lstsq(ctx: RuleContext, x: Value, y: Value, rcond: Value) -> list[Value]:
    """Solve least squares; if the rank is deficient, residuals are NaN, and absent in Aesara."""
    x, y = reals(ctx, x, y)
    return declared(ctx, *systems.lstsq(x, y, rcond))
