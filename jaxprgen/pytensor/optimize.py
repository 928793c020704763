"""Rules for PyTensor's minimization and root finding, whose Ops call SciPy.

JAX finds the solution by a method of the same kind: a local minimum by BFGS, or by golden-section
search for a number; a root by Newton's method, or for a number by the secant method or inside of a
bracket. Each goes on until rounding ends it. JAX differentiates a solution by the implicit function
theorem.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxprgen import _jax
from jaxprgen.emit import solvers
from jaxprgen.emit.staged import staged
from jaxprgen.emit.values import Value, value_of
from jaxprgen.errors import UnsupportedOpError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.derivatives import OverriddenGraph
from jaxprgen.lowering.names import is_a
from jaxprgen.lowering.nested import lower
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.ifelse import Region

_KNOWN = {
    "tensor.MinimizeOp": ("tol", "options"),
    "tensor.RootOp": ("tol", "options"),
    "tensor.MinimizeScalarOp": ("tol", "options", "bracket", "bounds"),
    "tensor.RootScalarOp": ("bracket", "x1", "xtol", "rtol", "maxiter"),
}
"""What SciPy's functions take that the rules know."""


class _Solution(NamedTuple):
    """A JAX function that solves the problem of an Op.

    Attributes
    ----------
    closed
        The program of the function to minimize or to solve.
    first
        The number of constants among its operands, which come before the unknowns.
    op
        The Op.
    """

    closed: Any
    first: int
    op: Any

    def __call__(self, *arrays: Any) -> list[Any]:
        """Return the solution, and whether it was found."""
        op, count = self.op, len(self.closed.in_avals)
        constants, start = arrays[: self.first], arrays[self.first]
        names = getattr(op, "bound_kwargs", ())

        def function(x: Any, *operands: Any) -> Any:
            operands = operands[: count - 1]
            given = [*operands[: self.first], x, *operands[self.first :]]
            return _jax.eval_jaxpr(self.closed, given)[0]

        def find(start: Any, *operands: Any) -> tuple[Any, Any]:
            bounds = dict(zip(names, operands[count - 1 :], strict=True))
            solve = _solver(op, {**op.optimizer_kwargs, **bounds}, start)
            return solve(lambda x: function(x, *operands), start)

        is_root = is_a(op, "tensor.RootOp", "tensor.RootScalarOp")
        residual = function if is_root else jax.grad(function)
        operands = *constants, *arrays[self.first + 1 :]
        return list(solvers.implicit(residual, find)(start, *operands))


def _solver(op: Any, given: Mapping[str, Any], start: Any) -> solvers.Function:
    options = dict(given.get("options") or {})
    eps = float(jnp.finfo(start.dtype).eps)
    limit = options.get("maxiter", given.get("maxiter"))
    if is_a(op, "tensor.MinimizeOp"):
        tolerance = options.get("gtol", given.get("tol"))
        return lambda f, x: solvers.bfgs(f, x, tolerance, limit)
    if is_a(op, "tensor.RootOp"):
        return lambda f, x: solvers.newton(f, x, given.get("tol") or eps**0.6, limit or 200)
    if is_a(op, "tensor.MinimizeScalarOp"):
        tolerance = options.get("xtol", given.get("tol")) or eps**0.5
        return lambda f, x: _minimum_of_number(f, x, given, tolerance, limit or 500)
    tolerance = given.get("xtol") or eps**0.6
    if given.get("bracket") is not None:
        low, high = (jnp.asarray(x, start.dtype) for x in given["bracket"])
        return lambda f, x: solvers.bracketed(f, low, high, tolerance, limit or 100)
    if op.method == "secant":
        return lambda f, x: solvers.secant(f, x, given.get("x1"), tolerance, limit or 50)
    return lambda f, x: solvers.newton(f, x, tolerance, limit or 50)


def _minimum_of_number(
    function: solvers.Function, x: Any, given: Mapping[str, Any], tolerance: float, limit: int
) -> tuple[Any, Any]:
    """Return a minimum, as SciPy does: from a bracket or (0, 1), whatever the start is."""
    ends = given.get("bounds")
    found = True
    if ends is None:
        points = given.get("bracket")
        points = (0.0, 1.0) if points is None else points
        low, *_, high = (jnp.asarray(p, x.dtype) for p in points)
        if len(points) == 2:
            low, high, found = solvers.bracket(function, low, high)
    else:
        low, high = (jnp.asarray(p, x.dtype) for p in ends)
    solution, is_narrow = solvers.golden_section(function, low, high, tolerance, limit)
    return solution, is_narrow & found


@lowers(*_KNOWN, folds=False)
def lower_solver(ctx: RuleContext, *xs: Value) -> Sequence[Value]:
    """Return a solution, and whether it was found."""
    op = ctx.op
    known = next(names for kind, names in _KNOWN.items() if is_a(op, kind))
    unknown = [name for name in op.optimizer_kwargs if name not in known]
    if unknown:
        raise UnsupportedOpError(
            f"{type(op).__name__}: the JAX functions behind it do not take {', '.join(unknown)}.\n"
            'Leave it out, or run the Op on the host: pass fallback="callback".'
        )
    count = len(op.fgraph.inputs)
    graph = Region(op.fgraph.inputs, op.fgraph.outputs[:1])  # JAX differentiates by itself.
    lowering = copy.copy(ctx.lowering)
    if lowering.checks:  # Of the solution: a search may try points where the graph has no value.
        lowering.checks, lowering.announce = False, lambda node, text: None
    inside = ctx._replace(lowering=lowering)
    whole = OverriddenGraph.of(inside, graph, xs[:count], type(op).__name__, free=(0,))
    operands = [value_of(x) for x in whole.operands(xs[:count])]
    routine = _Solution(whole.closed, len(whole.constants), op)
    solution, found = staged(routine, *operands, *xs[count:])
    if ctx.lowering.checks:
        lower(ctx, graph, ctx.builder, [solution, *xs[1:count]])
    return solution, found
