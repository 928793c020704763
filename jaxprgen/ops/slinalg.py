"""Rules for `aesara.tensor.slinalg`: SciPy's linear algebra.

Operands may contain infinities and NaN: the Ops' ``check_finite`` is ignored.
"""

from __future__ import annotations

from jaxprgen.emit import decompositions, elementwise as ew, matrix, systems
from jaxprgen.emit.decompositions import inexact
from jaxprgen.emit.shape import reshape, transpose
from jaxprgen.emit.values import Value
from jaxprgen.errors import LinearAlgebraError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.nlinalg import declared, lower_function, reals, require_regular

lower_function(matrix.expm, "tensor.Expm")
lower_function(lambda a, g: matrix.expm_derivative(transpose(a, (1, 0)), g), "tensor.ExpmGrad")
lower_function(matrix.solve_continuous_lyapunov, "tensor.SolveContinuousLyapunov")
lower_function(matrix.solve_discrete_lyapunov, "tensor.BilinearSolveDiscreteLyapunov")
lower_function(matrix.solve_sylvester, "tensor.TRSYL", "tensor.SolveSylvester")


@lowers("tensor.Cholesky")
def lower_cholesky(ctx: RuleContext, x: Value) -> list[Value]:
    """Return the triangular factor, or NaN if the matrix is not positive definite."""
    factor = decompositions.cholesky(*inexact(x), lower=bool(ctx.op.lower))
    if getattr(ctx.op, "on_error", "nan") == "raise":
        fails = "The matrix is not positive definite."
        unchecked = "whether the matrix is positive definite. If not, the Op raises LinAlgError, "
        unchecked += "and this program returns NaN"
        ctx.require(lambda: ~ew.isnan(factor), LinearAlgebraError, fails, unchecked)
    return declared(ctx, factor)


@lowers("tensor.CholeskySolve")
def lower_cholesky_solve(ctx: RuleContext, factor: Value, y: Value) -> list[Value]:
    """Solve a system of linear equations, given a Cholesky factor of its matrix."""
    return declared(ctx, systems.solve_cholesky(*inexact(factor, y), lower=bool(ctx.op.lower)))


@lowers("tensor.SolveTriangular")
def lower_solve_triangular(ctx: RuleContext, a: Value, y: Value) -> list[Value]:
    """Solve a triangular system of linear equations."""
    op = ctx.op
    trans = getattr(op, "trans", 0)  # PyTensor transposes the matrix itself.
    a, y = inexact(a, y)
    if not op.unit_diagonal:
        require_regular(ctx, lambda: matrix.is_regular_triangle(a))
    how = {"lower": bool(op.lower), "unit_diagonal": bool(op.unit_diagonal)}
    how |= {"transpose": trans not in (0, "N"), "conjugate": trans in (2, "C")}
    return declared(ctx, systems.solve_triangular(a, y, **how))


_WHOLE = {"sym": decompositions.symmetric, "her": decompositions.hermitian}
"""What fills the other triangle of a matrix."""


@lowers("tensor.Solve")
def lower_solve(ctx: RuleContext, a: Value, y: Value) -> list[Value]:
    """Solve a system of linear equations; of a symmetric matrix, one triangle is read.

    As in SciPy, a vector beside a matrix of one element holds several right-hand sides.
    """
    kind, lower = ctx.op.assume_a, bool(ctx.op.lower)
    shape = y.shape
    if a.shape == (1, 1) and len(shape) == 1 and shape != (0,):
        y = reshape(y, (1, -1))
    a, y = inexact(a, y)
    if kind == "pos":
        solution = systems.solve_positive(a, y, lower=lower)
    else:
        whole = _WHOLE[kind](a, lower=lower) if kind in _WHOLE else a
        solution = systems.solve(whole, y)
        require_regular(ctx, lambda: matrix.is_regular(whole))
    return declared(ctx, reshape(solution, shape))


@lowers("tensor.Eigvalsh")
def lower_eigvalsh(ctx: RuleContext, a: Value, *metric: Value) -> list[Value]:
    """Return the eigenvalues of a Hermitian matrix, or of a pair of them."""
    lower = bool(ctx.op.lower)
    solve = decompositions.generalized_eigh if metric else decompositions.eigh
    return declared(ctx, solve(*inexact(a, *metric), lower=lower)[0])


@lowers("tensor.EigvalshGrad")
def lower_eigvalsh_grad(ctx: RuleContext, a: Value, metric: Value, gw: Value) -> list[Value]:
    """Return the gradients with respect to the triangles that `Eigvalsh` reads."""
    lower = bool(ctx.op.lower)
    a, metric, gw = reals(ctx, a, metric, gw)
    w, v = decompositions.generalized_eigh(a, metric, lower=lower)
    gradients = matrix.generalized_eigvalsh_cotangents(w, v, gw)
    return declared(ctx, *(decompositions.onto_triangle(g, lower=lower) for g in gradients))
