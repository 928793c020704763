"""The rule for `OpFromGraph`, and the static inputs of graphs inside Ops."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from aesara.compile.builders import OpFromGraph
from aesara.graph.basic import Variable
from aesara.graph.fg import FunctionGraph
from aesara.graph.null_type import NullType

from jaxprgen.aesara.traversal import toposort
from jaxprgen.emit.values import Value
from jaxprgen.lowering import derivatives, nested
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import deciding_inputs, lowers, needed_inputs, static_inputs


class _Inside(NamedTuple):
    """How a graph uses its inputs; each number is a set of inputs, one bit for each.

    Attributes
    ----------
    needs
        For each output, the inputs on whose values it depends.
    static
        The inputs whose values are shapes.
    decides
        The inputs whose values decide shapes.
    """

    needs: list[int]
    static: int
    decides: int


_found: WeakKeyDictionary[FunctionGraph, _Inside] = WeakKeyDictionary()


def _inside(graph: FunctionGraph) -> _Inside:
    found = _found.get(graph)
    if found is None:
        found = _found[graph] = _look_inside(graph)
    return found


def _look_inside(graph: FunctionGraph) -> _Inside:
    needs: dict[Variable, int] = {v: 1 << i for i, v in enumerate(graph.inputs)}
    static = decides = 0
    for node in toposort(graph.outputs, set(graph.inputs)):
        op_type = type(node.op)
        own = [needs.get(v, 0) for v in node.inputs]
        static |= _union(own[i] for i in static_inputs(op_type, node))
        decides |= _union(own[i] for i in deciding_inputs(op_type, node))
        for i, output in enumerate(node.outputs):
            needs.setdefault(output, _union(own[k] for k in needed_inputs(op_type, node, i)))
    return _Inside([needs.get(v, 0) for v in graph.outputs], static, decides)


def _union(parts: Any) -> int:
    return functools.reduce(operator.or_, parts, 0)


def _positions(bits: int) -> Sequence[int]:
    return [i for i in range(bits.bit_length()) if bits >> i & 1]


def positions_inside(graph: Any, how: str) -> Sequence[int]:
    """Return the inputs of a graph that nodes inside use as "static", or that "decides" there."""
    return _positions(getattr(_inside(graph), how))


@lowers(
    OpFromGraph,
    folds=False,
    static=lambda node: positions_inside(node.op.fgraph, "static"),
    decides=lambda node: positions_inside(node.op.fgraph, "decides"),
    needs=lambda node, output: _positions(_inside(node.op.fgraph).needs[output]),
)
def lower_op_from_graph(ctx: RuleContext, *xs: Value) -> list[Any]:
    """Emit one equation that holds the graph's program, under the Op's name.

    JAX uses the Op's overridden derivatives: ``L_op`` or ``grad`` in reverse mode, and then forward
    mode is an error; otherwise ``R_op`` in both modes.
    """
    op, graph = ctx.op, ctx.op.fgraph
    name = op.name or type(op).__name__
    if not op._lop_is_default:
        return derivatives.call_with_pullback(ctx, graph, xs, name, lambda: _pullback(op))
    if not op._rop_is_default:
        return derivatives.call_with_pushforward(
            ctx, graph, xs, name, lambda: op.get_rop_op().fgraph
        )
    return nested.call(ctx, graph, xs, name)[: len(ctx.node.outputs)]


def _pullback(op: OpFromGraph) -> tuple[FunctionGraph, list[bool]]:
    """Return the graph of ``L_op``, and for each input whether it has no derivative."""
    graph = op.get_lop_op().fgraph
    kinds: Any = op._lop_op_stypes_l  # pyright: ignore[reportPrivateUsage]
    return graph, [v is not None and isinstance(v.type, NullType) for v in kinds]
