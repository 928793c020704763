"""Rules for `aesara.tensor.shape` and its like: reading, asserting and changing shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxprgen.emit import shape as sh
from jaxprgen.emit.sizes import is_known, require_equal, with_size
from jaxprgen.emit.values import Array, Value, broadcast_to, full
from jaxprgen.errors import FailedAssertionError, ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


@lowers("tensor.DimShuffle", folds=False)
def lower_dimshuffle(ctx: RuleContext, x: Value) -> Value:
    """Drop axes of size one, permute the others, and insert new ones."""
    op = ctx.op
    dropped = [d for d in range(x.ndim) if d not in op.shuffle]
    ranks = {d: i for i, d in enumerate(sorted(op.shuffle))}
    x = sh.transpose(sh.squeeze(x, dropped), [ranks[d] for d in op.shuffle])
    return sh.expand_dims(x, op.augment)


@lowers("tensor.Shape", folds=False, shape_only=(0,))
def lower_shape(ctx: RuleContext, x: Value) -> Array | Value:
    """Return the shape, which is static unless sizes are symbolic."""
    if is_known(x.shape):
        return np.asarray(x.shape, np.int64)
    return sh.stack([full((), n, ctx.dtype) for n in x.shape])


@lowers("tensor.Shape_i", folds=False, shape_only=(0,))
def lower_shape_i(ctx: RuleContext, x: Value) -> Value:
    """Return one size, which is static unless it is symbolic."""
    return full((), x.shape[ctx.op.i], ctx.dtype)


@lowers("tensor.SpecifyShape")
def lower_specify_shape(ctx: RuleContext, x: Any, *sizes: Value | None) -> Any:
    """Return the operand, which may be a sparse matrix, if it has the asserted shape."""
    expected = [None if n is None else ctx.static_int(i + 1) for i, n in enumerate(sizes)]
    shape = x.shape

    def fails() -> FailedAssertionError:
        wanted = str(tuple(expected)).replace("None", "any")
        return FailedAssertionError(f"SpecifyShape: Got shape {shape}, expected {wanted}.")

    for axis, n in enumerate(expected):
        if n is not None and isinstance(x, Value):
            x = with_size(x, axis, n, fails)
        elif n is not None:
            require_equal(shape[axis], n, fails)
    return x


@lowers("tensor.Reshape")
def lower_reshape(ctx: RuleContext, x: Value, shape: Value) -> Value:
    """Return the elements in a static shape."""
    sizes = ctx.static(1).tolist()
    if len(sizes) != ctx.op.ndim:
        length = f"incorrect length: {len(sizes)}, should be {ctx.op.ndim}"
        raise ShapeMismatchError(f"Shape argument to Reshape has {length}.")
    return sh.reshape(x, sizes)


@lowers("tensor.BroadcastTo", folds=False)
def lower_broadcast_to(ctx: RuleContext, x: Value, *sizes: Value) -> Value:
    """Return the operand, repeated to a static shape."""
    return broadcast_to(x, tuple(ctx.static_int(i + 1) for i in range(len(sizes))))
