"""The rule for `OpFromGraph`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from jaxprgen.emit.values import Value
from jaxprgen.errors import UnsupportedOpError
from jaxprgen.lowering import derivatives, nested
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import Apply, FunctionGraph, Variable, is_a
from jaxprgen.lowering.registry import lowers, needed_inputs
from jaxprgen.lowering.traversal import toposort

_found: WeakKeyDictionary[FunctionGraph, list[int]] = WeakKeyDictionary()


def _needed_inside(graph: FunctionGraph) -> list[int]:
    """Return for each output the inputs on whose values it depends, one bit for each input."""
    if graph not in _found:
        needs: dict[Variable, int] = {v: 1 << i for i, v in enumerate(graph.inputs)}
        for node in toposort(graph.outputs, set(graph.inputs)):
            own = [needs.get(v, 0) for v in node.inputs]
            for i, output in enumerate(node.outputs):
                needed = (own[k] for k in needed_inputs(type(node.op), node, i))
                needs.setdefault(output, functools.reduce(operator.or_, needed, 0))
        _found[graph] = [needs.get(v, 0) for v in graph.outputs]
    return _found[graph]


def needs_inside(node: Apply, output: int) -> Sequence[int]:
    """Return the inputs on whose values an output of a node with a graph inside depends."""
    bits = _needed_inside(node.op.fgraph)[output]  # type: ignore[union-attr]
    return [i for i in range(bits.bit_length()) if bits >> i & 1]


@lowers("compile.OpFromGraph", folds=False, needs=needs_inside)
def lower_op_from_graph(ctx: RuleContext, *xs: Value) -> list[Any]:
    """Emit one equation that holds the graph's program, under the Op's name.

    JAX uses the Op's overridden derivatives: ``L_op`` or ``grad`` in reverse mode, and then forward
    mode is an error; otherwise ``R_op`` in both modes.
    """
    op, graph = ctx.op, ctx.op.fgraph
    if _updates_itself(graph):
        raise UnsupportedOpError(
            f"{op} updates a shared variable inside of a loop or branch, whose steps would all see "
            "its old value.\nReturn the new value as one more output of the OpFromGraph, and let "
            "the loop carry it: outputs_info= of scan, or updates= of the function."
        )
    name = op.name or type(op).__name__
    if not op._lop_is_default:
        return derivatives.call_with_pullback(ctx, graph, xs, name, lambda: _pullback(op))
    if not op._rop_is_default:
        return derivatives.call_with_pushforward(
            ctx, graph, xs, name, lambda: op.get_rop_op().fgraph
        )
    return nested.call(ctx, graph, xs, name)[: len(ctx.node.outputs)]


def _updates_itself(graph: FunctionGraph) -> bool:
    """Return whether a graph updates an input; elsewhere it returns the new value instead."""
    mapping = getattr(graph, "update_mapping", None) or {}
    values = [graph.outputs[o] for o in mapping]
    return any(
        v is not graph.inputs[i] and not (v.owner and is_a(v.owner.op, "compile.UpdatePlaceholder"))
        for v, i in zip(values, mapping.values(), strict=True)
    )


def _pullback(op: Any) -> tuple[FunctionGraph, list[bool]]:
    """Return the graph of ``L_op``, and for each input whether it has no derivative."""
    graph = op.get_lop_op().fgraph
    kinds: Any = op._lop_op_stypes_l  # pyright: ignore[reportPrivateUsage]
    return graph, [v is not None and is_a(v.type, "graph.NullType") for v in kinds]
