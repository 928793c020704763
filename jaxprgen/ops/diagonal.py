"""Rules for diagonals and triangles, from `aesara.tensor.basic` and `extra_ops`."""

from __future__ import annotations

from typing import Any

from jaxprgen.emit import diagonal
from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers("tensor.ExtractDiag")
def lower_extract_diag(ctx: RuleContext, x: Value) -> Value:
    """Return a diagonal of two axes, as a new last axis."""
    return diagonal.diagonal(x, ctx.op.offset, ctx.op.axis1, ctx.op.axis2)


@lowers("tensor.AllocDiag")
def lower_alloc_diag(ctx: RuleContext, x: Value) -> Value:
    """Return zeros with the elements of ``x`` on a diagonal of two axes."""
    return diagonal.diagonal_matrices(x, ctx.op.offset, ctx.op.axis1, ctx.op.axis2)


@lowers("tensor.FillDiagonal")
def lower_fill_diagonal(ctx: RuleContext, x: Value, value: Value) -> Value:
    """Return ``x`` with a scalar on its main diagonal."""
    return diagonal.fill_diagonal(x, value)


@lowers("tensor.FillDiagonalOffset")
def lower_fill_diagonal_offset(ctx: RuleContext, x: Value, value: Value, offset: Value) -> Value:
    """Return a matrix with a scalar on a diagonal, whose offset need not be static."""
    return diagonal.fill_offset_diagonal(x, value, offset)


@lowers("tensor.Tri", folds=False)
def lower_tri(ctx: RuleContext, rows: Value, columns: Value | None, offset: Value) -> Any:
    """Return ones on and below a diagonal, in a static shape; ``columns`` is None for a square."""
    shape = ctx.static_int(0), ctx.static_int(0 if columns is None else 1)
    given = rows, rows if columns is None else columns, offset
    return ctx.fold(given, shape) or diagonal.tri(*shape, offset, ctx.dtype)
