"""Faults of gradients that Aesara writes, where a graph shows them: programs compute them as well.

docs/semantics.md also lists faults that no graph shows.
"""

from __future__ import annotations

from jaxprgen.emit.values import Value
from jaxprgen.errors import GradientWarning
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import Apply, Variable, is_a
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.math import lower_dot


@lowers("aesara.tensor.Dot")
def lower_dot_of_aesara(ctx: RuleContext, x: Value, y: Value) -> Value:
    """Return `numpy.dot`; warn of a gradient of `solve_triangular` with respect to the matrix."""
    back, forth = (_beneath_axes(v).owner for v in ctx.node.inputs)
    if back is not None and forth is not None and _is_pullback(back, forth):
        flags = {"trans": forth.op.trans, "unit_diagonal": forth.op.unit_diagonal}
        given = ", ".join(f"{name}={flag!r}" for name, flag in flags.items() if _is_set(flag))
        ctx.warn(
            GradientWarning,
            f"Aesara's gradient of solve_triangular with {given} is wrong with respect to the "
            "matrix, and this program computes it as the graph has it.\nUse jax.grad of the "
            "compiled function without aesara.grad, which is right.",
        )
    return lower_dot(ctx, x, y)


def _is_pullback(back: Apply, forth: Apply) -> bool:
    """Return whether `SolveBase.L_op` would multiply these solutions, and be wrong."""
    if not all(is_a(node.op, "tensor.SolveTriangular") for node in (back, forth)):
        return False
    flags = forth.op.trans, bool(forth.op.unit_diagonal)
    return (
        any(map(_is_set, flags))
        and flags == (back.op.trans, bool(back.op.unit_diagonal))
        and bool(back.op.lower) != bool(forth.op.lower)
        and _beneath_axes(back.inputs[0]) is _beneath_axes(forth.inputs[0])
    )


def _is_set(flag: object) -> bool:
    return flag not in (0, "N")


def _beneath_axes(variable: Variable) -> Variable:
    """Return the variable without the permutations and new axes of it."""
    while variable.owner is not None and is_a(variable.owner.op, "tensor.DimShuffle"):
        variable = variable.owner.inputs[0]
    return variable
