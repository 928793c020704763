"""The rule for PyTensor's `Blockwise`, which applies an Op to blocks along leading axes.

The Op's own rule emits a program for one block. That program is then batched along one axis after
the other, so that what blocks share is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Size
from jaxprgen.emit.lazy import forced
from jaxprgen.emit.shape import expand_dims, squeeze
from jaxprgen.emit.sizes import require_equal
from jaxprgen.emit.values import Value, atoms, value_of
from jaxprgen.lowering import nested
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import is_supported, lowers
from jaxprgen.lowering.static import FOLD_LIMIT
from jaxprgen.passes.batching import over_rows
from jaxprgen.pytensor.elemwise import require_declared


class _Core(NamedTuple):
    """The graph of the Op on one block."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


_cores: WeakKeyDictionary[Any, _Core] = WeakKeyDictionary()


def _core_of(node: Any, depth: int) -> _Core:
    found = _cores.get(node)
    if found is None:
        types = [v.type.clone(shape=v.type.shape[depth:]) for v in node.inputs]
        inputs = [t() for t in types]
        core = node.op.core_op.make_node(*inputs)
        for inner, outer in zip(core.outputs, node.outputs, strict=True):
            inner.name = outer.name
            if hasattr(outer.tag, "trace"):  # The user's line.
                inner.tag.trace = outer.tag.trace
        found = _cores[node] = _Core(tuple(inputs), tuple(core.outputs))
    return found


@lowers("tensor.Blockwise", folds=False)
def lower_blockwise(ctx: RuleContext, *xs: Value) -> list[Value]:
    """Apply an Op to blocks; a leading size of 1 is repeated only if its type declares it."""
    depth = ctx.node.outputs[0].type.ndim - len(ctx.op.outputs_sig[0])
    core = _core_of(ctx.node, depth)
    declared = [v.type.broadcastable[:depth] for v in ctx.node.inputs]
    sizes = [_size(ctx, axis, declared, xs) for axis in range(depth)]
    missing = [d for d, n in enumerate(sizes) if n is None]
    blocks = [
        squeeze(x, [d for d in range(depth) if own[d]]) for x, own in zip(xs, declared, strict=True)
    ]
    if len(missing) == depth:
        found, _ = nested.lower(
            ctx, core, ctx.builder, blocks, None if not depth else [None] * len(xs)
        )
        return [expand_dims(forced(x), missing) for x in found]
    layers = [([not own[d] for own in declared], n) for d, n in enumerate(sizes) if n is not None]
    return [expand_dims(x, missing) for x in _batched(ctx, core, blocks, layers)]


lower_blockwise.supports = lambda op: is_supported(op.core_op)  # type: ignore[attr-defined]


def _size(
    ctx: RuleContext, axis: int, declared: Sequence[Sequence[bool]], xs: Sequence[Value]
) -> Size | None:
    """Return how many blocks there are along an axis; None if all inputs declare one."""
    own = [(i, x.shape[axis]) for i, x in enumerate(xs) if not declared[i][axis]]
    if not own:
        return None
    if any(n != 1 for _, n in own):
        require_declared(ctx, axis, [i for i, n in own if n == 1])
    (_, size), *rest = own
    shapes = ", ".join(str(x.shape) for x in xs)
    for _, n in rest:
        require_equal(n, size, f"Leading axes of shapes {shapes} differ.")
    return size


def _batched(
    ctx: RuleContext, core: _Core, blocks: Sequence[Value], layers: Sequence[tuple[list[bool], Any]]
) -> list[Value]:
    """Return the results for all blocks, each with all leading axes that vary.

    Each layer says which inputs have that axis, and its size.
    """
    counts = [sum(own[i] for own, _ in layers) for i in range(len(blocks))]
    shared = [_shared(x, count) for x, count in zip(blocks, counts, strict=True)]
    known = [x is not None for x in shared]
    operands = atoms([x for x, k in zip(blocks, known, strict=True) if not k])
    types = [tuple(x.aval for x in operands)]
    flags = [[f for f, k in zip(own, known, strict=True) if not k] for own, _ in layers]
    for own in flags:
        pairs = zip(types[-1], own, strict=True)
        types.append(tuple(_jax.slice_type(t) if f else t for t, f in pairs))
    inner = ctx.builder.nested(types.pop())
    variables = iter(inner.inputs)
    values = [Value(next(variables)) if x is None else x for x in shared]
    found, _ = nested.lower(ctx, core, inner, values, [None] * len(blocks))
    with inner:
        program = inner.build(atoms([forced(x) for x in found]))
    for own, (_, n) in zip(reversed(flags), reversed(layers), strict=True):
        program = over_rows(program, types.pop(), own, n)
    ctx.builder.inlined += inner.inlined
    return [value_of(x) for x in ctx.builder.inline(program, operands)]


def _shared(x: Value, axes: int) -> Value | None:
    """Return the known array that all blocks along leading axes share, such as a size; or None."""
    array = x.static
    if array is None or (axes and not 0 < array.size <= FOLD_LIMIT):
        return None
    first = array[(0,) * axes]
    return Value(np.asarray(first)) if not axes or (array == first).all() else None
