"""Rules for PyTensor's Ops that hold graphs: `OpFromGraph`, its subclasses, and `LazyIfElse`."""

from __future__ import annotations

from typing import Any

from jaxprgen.emit.values import Value
from jaxprgen.lowering import derivatives, nested
from jaxprgen.lowering.branching import lower_branches
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import Variable, is_a
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.builders import needs_inside
from jaxprgen.ops.ifelse import Region


@lowers("pytensor.compile.OpFromGraph", folds=False, needs=needs_inside)
def lower_op_from_graph(ctx: RuleContext, *xs: Value) -> list[Any]:
    """Emit one equation that holds the graph's program, under the Op's name.

    JAX uses the Op's overridden derivatives: the pullback in reverse mode, and then forward mode is
    an error; otherwise the pushforward in both modes.
    """
    op, graph = ctx.op, ctx.op.fgraph
    name = op.name or type(op).__name__
    if _is_overridden(op, "pullback", "L_op", "lop_overrides"):
        return derivatives.call_with_pullback(ctx, graph, xs, name, lambda: _pullback(op))
    if _is_overridden(op, "pushforward", "R_op", "rop_overrides"):
        return derivatives.call_with_pushforward(ctx, graph, xs, name, lambda: _pushforward(op))
    return nested.call(ctx, graph, xs, name)[: len(ctx.node.outputs)]


def _is_overridden(op: Any, method: str, older: str, attribute: str) -> bool:
    """Return whether a derivative replaces that of the graph, by an argument or by a method.

    PyTensor's own subclasses replace derivatives by equal ones, which JAX need not use.
    """
    if any(getattr(op, n, None) is not None for n in (f"{method}_overrides", attribute)):
        return True
    kind = type(op)
    base = next(k for k in kind.__mro__ if k.__name__ == "OpFromGraph")
    own = any(getattr(kind, n, None) is not getattr(base, n, None) for n in (method, older))
    return own and not kind.__module__.startswith("pytensor.")


def _pullback(op: Any) -> tuple[Region, list[bool]]:
    """Return the graph of the pullback, and for each input whether it has no derivative."""
    xs, ys, grads = ([t() for t in types] for types in (op.input_types, *[op.output_types] * 2))
    found = (op.pullback if hasattr(op, "pullback") else op.L_op)(xs, ys, grads)
    undefined = [is_a(v.type, "graph.NullType") for v in found]
    outputs = [_or_zero(v, x) for v, x in zip(found, xs, strict=True)]
    return Region([*xs, *ys, *grads], outputs), undefined


def _pushforward(op: Any) -> Region:
    """Return the graph of the pushforward."""
    xs, moves = ([t() for t in op.input_types] for _ in range(2))
    ys = op(*xs, return_list=True)
    found = op.pushforward(xs, ys, moves) if hasattr(op, "pushforward") else op.R_op(xs, moves)
    return Region([*xs, *moves], [_or_zero(v, y) for v, y in zip(found, ys, strict=True)])


def _or_zero(found: Variable, of: Variable) -> Variable:
    """Return a derivative, or zero where there is none."""
    if not is_a(found.type, "graph.NullType", "gradient.DisconnectedType"):
        return found
    return of.zeros_like() if hasattr(of, "zeros_like") else of


@lowers("conditional.LazyIfElse", "ifelse.LazyIfElse", folds=False)
def lower_lazy_if_else(ctx: RuleContext, *xs: Value) -> list[Any]:
    """Compute the branch that is taken, and not the other."""
    branches = ctx.op.true_branch.fgraph, ctx.op.false_branch.fgraph
    places = range(1, len(xs))
    return lower_branches(ctx, branches, [places, places], xs)
