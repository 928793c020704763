"""Rules for `aesara.tensor.basic` and `io`: creating, joining, splitting and reading arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxprgen.emit import create, shape as sh
from jaxprgen.emit.deferred import CountedRange, Cut, Uninitialized, progression
from jaxprgen.emit.lazy import Lazy, forced
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.sizes import as_size, is_symbolic, require_at_least
from jaxprgen.emit.values import Array, Shape, Value, broadcast_to, full
from jaxprgen.errors import InvalidGraphError, ShapeMismatchError, StaticShapeError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.changing_sizes import sizes_of
from jaxprgen.ops.sizes import takes_axis


@lowers("link.JAXShapeTuple", folds=False)  # Its own implementation fails.
@lowers("tensor.MakeVector")
def lower_make_vector(ctx: RuleContext, *xs: Value) -> Value:
    """Return a vector of the scalars."""
    if not xs:
        return full((0,), 0, ctx.dtype)
    return sh.stack([x.astype(ctx.dtype) for x in xs])


def _sizes(ctx: RuleContext, first: int, count: int) -> Shape:
    """Return the values of the inputs that are sizes, from the ``first`` on."""
    sizes = tuple(ctx.static_int(first + i) for i in range(count))
    _require_sizes(sizes)
    return sizes


def _require_sizes(sizes: Shape) -> None:
    for n in sizes:
        require_at_least(n, 0, f"Sizes must be >= 0, got {sizes}.")


@lowers("tensor.Alloc", folds=False)
def lower_alloc(ctx: RuleContext, x: Value, *sizes: Value) -> Value | Selected:
    """Return the operand, repeated to a shape."""
    found = sizes_of(ctx, range(1, len(sizes) + 1), sizes)
    _require_sizes(found.shape)
    return found.of(broadcast_to(x, found.shape))


@lowers("tensor.AllocEmpty", folds=False)
def lower_alloc_empty(ctx: RuleContext, *sizes: Value) -> Uninitialized:
    """Return zeros, which are emitted only if something reads them."""
    found = [ctx.static_or_none(i) for i in range(len(sizes))]
    if all(n is not None for n in found):
        _sizes(ctx, 0, len(sizes))  # Negative sizes are an error.
    shape = tuple(None if n is None else as_size(n) for n in found)
    return Uninitialized(shape, ctx.dtype, lambda: full(_sizes(ctx, 0, len(sizes)), 0, ctx.dtype))


@lowers("tensor.ARange", folds=False)
def lower_arange(ctx: RuleContext, start: Value, stop: Value, step: Value) -> Any:
    """Return a range of static length; or a range of integers whose length the program counts."""
    try:
        first, last, by = (ctx.static(i).item() for i in range(3))  # Integers may be symbols.
    except StaticShapeError as error:
        by = ctx.static_or_none(2)
        if by is None or by == 0 or np.dtype(ctx.dtype).kind not in "iu":
            raise
        return _counted_range(ctx, start, stop, by, error)
    if by == 0:
        raise ShapeMismatchError("The step of arange must not be zero.")
    length = create.arange_length(first, last, by)
    dtypes = (np.dtype(v.type.dtype) for v in ctx.node.inputs)
    values = [full((), v, dtype) for v, dtype in zip((first, last, by), dtypes, strict=True)]
    if folded := ctx.fold(values, (length,)):
        return folded
    # NumPy rounds the first two elements to the dtype, and extrapolates from them.
    if is_symbolic(first):
        return create.arange(full((), first, ctx.dtype), full((), by, ctx.dtype), length, ctx.dtype)
    origin = np.asarray(first, ctx.dtype)
    increment = np.asarray(np.asarray(first + by, ctx.dtype) - origin, ctx.dtype)
    return create.arange(Value(origin), Value(increment), length, ctx.dtype)


def _counted_range(
    ctx: RuleContext, start: Value, stop: Value, by: Any, error: StaticShapeError
) -> Value | CountedRange:
    """Return a range whose length is not known; ``error`` says why.

    If it is known in every step of the loop around, the range has a largest length.
    """

    def largest(steps: Sequence[Any]) -> tuple[int, bool]:
        lengths = {create.arange_length(int(m), int(n), int(by)) for m, n in steps}
        return max(lengths, default=0), len(lengths) > 1

    found = ctx.decided([0, 1], largest, over_steps=True)
    if found is None:
        refuse = functools.partial(ctx.undecided, [0, 1], over_steps=True)
        return progression(start, stop, by, ctx.dtype, refuse)
    most, changes = found
    if not changes:
        return create.arange(start.astype(ctx.dtype), full((), by, ctx.dtype), most, ctx.dtype)
    located = ctx.located(error)
    return progression(start, stop, by, ctx.dtype, lambda: located, most)


@lowers("tensor.Eye", folds=False)
def lower_eye(ctx: RuleContext, rows: Value, columns: Value | None, diagonal: Value) -> Any:
    """Return ones on a diagonal of a static shape; ``columns`` is None for a square.

    The diagonal may be a value that only the running program knows.
    """
    shape = _sizes(ctx, 0, 1) * 2 if columns is None else _sizes(ctx, 0, 2)
    given = rows, rows if columns is None else columns, diagonal
    return ctx.fold(given, shape) or create.eye(shape[0], shape[1], diagonal, ctx.dtype)


@lowers("tensor.Join")
def lower_join(ctx: RuleContext, *xs: Value) -> Value:
    """Return the arrays joined along a static axis, in their common dtype."""
    first = 1 if takes_axis(ctx.op) else 0
    xs = xs[first:]
    axis_of_join = sh.axis_of(ctx.static_int(0) if first else ctx.op.axis, xs[0].ndim)
    return sh.concatenate([x.astype(ctx.dtype) for x in xs], axis_of_join)


@lowers("tensor.Join", lazy=Cut)
def lower_join_of_cuts(ctx: RuleContext, *xs: Value | Lazy) -> Value:
    """Return the arrays joined; the two parts of one array need no known size."""
    first = 1 if takes_axis(ctx.op) else 0
    if len(xs) == first + 2 and isinstance(a := xs[first], Cut) and isinstance(b := xs[-1], Cut):
        axis = sh.axis_of(ctx.static_int(0) if first else ctx.op.axis, len(a.shape))
        if (a.key, a.axis, a.is_head) == (b.key, axis, not b.is_head):
            return a.joined().astype(ctx.dtype)
    return lower_join(ctx, *(forced(x) for x in xs))


@lowers("tensor.Split")
def lower_split(ctx: RuleContext, x: Value, *_: Value) -> list[Value]:
    """Return pieces of static sizes."""
    pieces: Array = ctx.static(2 if takes_axis(ctx.op) else 1)
    if len(pieces) != ctx.op.len_splits:
        raise ShapeMismatchError(
            f"Split makes {ctx.op.len_splits} pieces, but {len(pieces)} sizes are given."
        )
    where = sh.axis_of(ctx.static_int(1) if takes_axis(ctx.op) else ctx.op.axis, x.ndim)
    return sh.split(x, pieces.tolist(), where)


@lowers("tensor.LoadFromDisk", folds=False)
def lower_load_from_disk(ctx: RuleContext, path: Any) -> Value:
    """Return the array in a file, which is read while the program is emitted."""
    try:
        return Value(ctx.evaluate(path)[0])
    except (OSError, TypeError, ValueError) as error:
        raise InvalidGraphError(f"Cannot load an array from {path}: {error}") from error
