"""Rules for `Elemwise` and for scalar Ops: a scalar rule, applied to broadcast operands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxprgen.emit.control import elementwise_loop
from jaxprgen.emit.elementwise import canonical
from jaxprgen.emit.values import Dtype, Value, broadcast_shapes, broadcast_to, common_shape
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import Apply, Variable, entry_of, is_a
from jaxprgen.lowering.registry import find_rule, import_rules, lowers
from jaxprgen.lowering.static import FOLD_LIMIT, as_value
from jaxprgen.lowering.traversal import toposort
from jaxprgen.ops import scalar


def elemwise_shape_only(node: Apply) -> Sequence[int]:
    """Return the operands of which the shape alone matters."""
    # second(x, y) is y in the shape of x.
    scalar_op = node.op.scalar_op if is_a(node.op, "tensor.Elemwise") else node.op
    return (0,) if is_a(scalar_op, "scalar.Second") else ()


@lowers("tensor.Elemwise", folds=False, shape_only=elemwise_shape_only)
@lowers("scalar.ScalarOp", folds=False, shape_only=elemwise_shape_only)
def lower_elemwise(ctx: RuleContext, *xs: Value) -> Any:
    """Apply a scalar Op to scalars or, broadcast, to arrays.

    A scalar that is repeated to a shape is computed once, and the result is repeated.
    """
    scalar_op = ctx.op.scalar_op if is_a(ctx.op, "tensor.Elemwise") else ctx.op
    rule = _rule_by_type(type(scalar_op))
    folded = None if rule in scalar.CONVERTING else _fold(ctx, rule, xs)
    if folded is not None:
        return folded
    if rule is not None:
        return rule(ctx.dtype, scalar_op, *xs)
    if is_a(scalar_op, *_WITH_GRAPH):
        return _lower_inner(scalar_op, xs)
    users_rule = find_rule(type(scalar_op))
    assert users_rule is not None  # `_supports` made sure.
    found = users_rule(ctx, *xs)
    results = found if isinstance(found, (list, tuple)) else [found]
    return [broadcast_to(as_value(y), common_shape(*xs)) for y in results]


def _fold(ctx: RuleContext, rule: Any, xs: Sequence[Value]) -> list[Value] | None:
    """Return the outputs if all inputs are known and, before repetition, small.

    A choice that puts zeros among others stays, so that `SinkZeros` finds which those are.
    """
    sources = [x.source for x in xs if isinstance(x.source, np.ndarray)]
    if len(sources) < len(xs):
        return None
    inner = broadcast_shapes(*(source.shape for source in sources))
    if math.prod(inner) > FOLD_LIMIT or (rule is scalar.choose and _puts_zeros(*sources)):
        return None
    shape = common_shape(*xs)
    # Types may not declare the sizes of 1 that sources have before repetition.
    sources = [np.broadcast_to(source, inner) for source in sources]
    return [broadcast_to(Value(y), shape) for y in ctx.evaluate(*sources)]


def _puts_zeros(condition: np.ndarray[Any, Any], *cases: np.ndarray[Any, Any]) -> bool:
    is_mixed = len(np.unique(condition != 0)) > 1
    return is_mixed and any(x.dtype.kind == "f" and x.size == 1 and not x for x in cases)


def _rule_by_type(op_type: type) -> scalar.ScalarRule | None:
    import_rules(op_type)
    return entry_of(scalar.RULES, op_type)


_WITH_GRAPH = ("scalar.Composite", "scalar.ScalarLoop")
"""Scalar Ops that hold a scalar graph."""


def _lower_inner(op: Any, xs: Sequence[Value]) -> list[Value]:
    """Lower a scalar Op that holds a scalar graph."""
    if not is_a(op, "scalar.ScalarLoop"):
        return _lower_composite(op, xs)
    ends = bool(op.is_while)
    carried = len(op.outputs) - ends

    def step(*values: Value) -> tuple[list[Value], Value | None]:
        found = _lower_composite(op, values)
        return found[:carried], found[carried] if ends else None

    return elementwise_loop(step, xs[0], xs[1 : carried + 1], xs[carried + 1 :], ends=ends)


def _lower_composite(op: Any, xs: Sequence[Value]) -> list[Value]:
    """Lower the scalar graph inside a `Composite`, node by node."""
    values: dict[Any, Value] = dict(zip(op.inputs, xs, strict=True))
    for node in _inner_nodes(op):
        operands = [_value_of(v, values) for v in node.inputs]
        rule = _rule_by_type(type(node.op))
        if rule is None:
            results = _lower_inner(node.op, operands)
        else:
            results = [rule(_dtype_of(node, operands), node.op, *operands)]
        values.update(zip(node.outputs, results, strict=True))
    shape = common_shape(*xs)
    return [broadcast_to(_value_of(v, values), shape) for v in op.outputs]


def _value_of(variable: Variable, values: Mapping[Any, Value]) -> Value:
    is_constant = is_a(variable, "graph.Constant")
    return Value(np.asarray(variable.data)) if is_constant else values[variable]


def _dtype_of(node: Apply, operands: Sequence[Value]) -> Dtype:
    """Return the dtype that a scalar node declares for operands of these dtypes.

    They may differ from the dtypes of the node's inputs, because Aesara does not rebuild the scalar
    graph of a `Composite` for other operands.
    """
    dtypes = [x.dtype for x in operands]
    if dtypes != [canonical(v.type.dtype) for v in node.inputs]:
        kinds = [v.type.clone(dtype=x.name) for v, x in zip(node.inputs, dtypes, strict=True)]
        node = node.op.make_node(*(kind() for kind in kinds))
    return canonical(node.outputs[0].type.dtype)


def _inner_nodes(op: Any) -> list[Apply]:
    return toposort(tuple(op.outputs), set(op.inputs))


def _is_in_tables(scalar_op: Any) -> bool:
    """Return whether a scalar Op, or every Op of the graph inside, has a scalar rule."""
    if is_a(scalar_op, *_WITH_GRAPH):
        return all(_is_in_tables(node.op) for node in _inner_nodes(scalar_op))
    return _rule_by_type(type(scalar_op)) is not None


def _supports(op: Any) -> bool:
    """Return whether an Op has scalar rules, or its scalar Op a user's rule."""
    scalar_op = op.scalar_op if is_a(op, "tensor.Elemwise") else op
    return _is_in_tables(scalar_op) or find_rule(type(scalar_op)) is not lower_elemwise


lower_elemwise.supports = _supports  # type: ignore[attr-defined]
