"""Nodes without a rule: Python computes those whose results follow from constants and shapes, once.

The libraries do so as well when they compile. Known nodes are splines' bases at fixed points,
tables by ``as_op``, and factorizations of constants that JAX lacks. All others are an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from jaxprgen import _jax
from jaxprgen.errors import UnsupportedOpError
from jaxprgen.graphs.callback import can_be_called_back
from jaxprgen.graphs.library import describe_op, origin
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import Apply, Variable, is_a
from jaxprgen.lowering.registry import Registration, is_supported, needed_inputs
from jaxprgen.lowering.traversal import inner_nodes, nodes_inside
from jaxprgen.ops.refused import refusal_of

LARGEST = 64
"""Largest results, in MB: programs keep them."""


def known_nodes(nodes: Sequence[Apply]) -> set[Apply]:
    """Return those of sorted nodes without a rule whose results are the same for all values.

    Some node, of them or inside of their Ops, has no rule. They draw nothing, and their Ops let
    their library fold them.
    """
    found: set[Variable] = set()
    for node in nodes:
        for i, output in enumerate(node.outputs):
            needed = needed_inputs(type(node.op), node, i)
            if all(v in found or _is_known(v) for v in (node.inputs[k] for k in needed)):
                found.add(output)
    return {
        node for node in nodes if all(map(found.__contains__, node.outputs)) and _can_be_known(node)
    }


def _is_known(variable: Variable) -> bool:
    is_array = is_a(variable, "graph.Constant") and not is_a(variable.type, "tensor.RandomType")
    return is_array and not _jax.is_on_several_devices(variable.data)


def _can_be_known(node: Apply) -> bool:
    inside = (inner.op for inner, _ in inner_nodes([node]))
    lacking = [op for op in inside if not is_supported(op)]
    if not lacking or any(is_a(op, "graph._NoPythonOp") or refusal_of(op) for op in lacking):
        return False
    return all(op.do_constant_folding(None, node) for op in lacking)


def without_rule(
    nodes: Sequence[Apply], is_accepted: Callable[[Apply], bool], holder: Apply | None = None
) -> list[tuple[Apply, Apply | None]]:
    """Return the nodes without a rule that are neither known nor accepted.

    Nodes inside of an Op, to any depth, come with the node that holds them.
    """
    found: list[tuple[Apply, Apply | None]] = []
    known, seen = known_nodes(nodes), set[int]()
    for node in nodes:
        if node in known:
            continue
        if not is_supported(node.op):
            found += [] if is_accepted(node) else [(node, holder)]
        elif id(node.op) not in seen:
            seen.add(id(node.op))
            found += without_rule(nodes_inside(node.op), is_accepted, node)
    return found


def lower_known(ctx: RuleContext, *xs: Any) -> list[Any]:
    """Return the results of the Op's ``perform``.

    Raises
    ------
    UnsupportedOpError
        The results are large.
    """
    given = [None if x is None else ctx.static(i) for i, x in enumerate(xs)]
    inputs, results = _computed.get(ctx.node, (None, []))
    if inputs is None or not all(map(_is_same, given, inputs)):
        results = list(ctx.evaluate(*given))
        _computed[ctx.node] = given, results
    size = sum(getattr(x, "nbytes", 0) for x in results) / 2**20
    if size > LARGEST:
        raise UnsupportedOpError(
            f"{ctx.op} has no rule. Its results follow from constants and shapes, but take "
            f"{size:.0f} MB, and programs keep {LARGEST} MB at most.\n"
            "Compute them outside of the graph, and pass them as arguments."
        )
    return results


_computed: WeakKeyDictionary[Apply, tuple[list[Any], list[Any]]] = WeakKeyDictionary()
"""The last inputs and results of known nodes: other programs of a graph have mostly the same."""


def _is_same(x: Any, y: Any) -> bool:
    return x is y or (isinstance(x, np.ndarray) and np.array_equal(x, y))


KNOWN = Registration(lower_known, folds=False)


def unsupported_error(
    found: Sequence[tuple[Apply, Apply | None]], callbacks: bool
) -> UnsupportedOpError:
    """Return the error of nodes without a rule, each with the node whose Op holds it, if any."""
    rows: list[str] = []
    for node, holder in found:
        rows.append(f"  {describe_op(node)}\n    {origin(node)}")
        rows += [f"    inside of {describe_op(holder)}"] if holder else []
        refusal = refusal_of(node.op)
        rows += [f"    why: {refusal.why}\n    instead: {refusal.instead}"] if refusal else []
    nodes = [node for node, _ in found]
    ways = "a JAX function with @jaxprgen.implements(OpClass), a rule with "
    ways += "@jaxprgen.lowers(OpClass)"
    if any(is_a(node.op, "tensor.RandomVariable") for node in nodes):
        ways += ", or, for a RandomVariable, a function of jax.random with "
        ways += "@jaxprgen.samples(OpClass)"
    if callbacks:
        ways += "; these cannot be called back: they have no Python implementation, or take or "
        ways += "return something that is not an array"
    elif any(map(can_be_called_back, nodes)):
        ways += ', or run its Python implementation on the host: pass fallback="callback" to this '
        ways += 'function, or to the linker of mode "JAXPR"'
    return UnsupportedOpError(
        f"{len(nodes)} node(s) of this graph have no rule:\n"
        + "\n".join(rows)
        + f"\nRegister {ways}.\njaxprgen.check lists other remedies, and the part of the graph "
        "that compiles."
    )
