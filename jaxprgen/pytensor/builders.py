"""The rule for PyTensor's `OpFromGraph` and its subclasses."""

from __future__ import annotations

from typing import Any

from jaxprgen.emit.values import Value
from jaxprgen.lowering import nested
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.builders import needs_inside


@lowers("pytensor.compile.OpFromGraph", folds=False, needs=needs_inside)
def lower_op_from_graph(ctx: RuleContext, *xs: Value) -> list[Any]:
    """Emit one equation that holds the graph's program, under the Op's name.

    JAX differentiates the program itself. It does not use derivatives that replace those of the
    graph, as ``lop_overrides`` and ``rop_overrides`` do; `pytensor.grad` does.
    """
    op = ctx.op
    name = op.name or type(op).__name__
    return nested.call(ctx, op.fgraph, xs, name)[: len(ctx.node.outputs)]
