"""Basic indexing: reading and writing by integers and slices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aesara.graph.basic import Apply
from aesara.graph.type import Type
from aesara.tensor.subtensor import IncSubtensor, Subtensor
from aesara.tensor.type_other import MakeSlice

from jaxprgen._jax import Var
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit import reduce
from jaxprgen.emit.values import Broadcast, Value, known, shape_of
from jaxprgen.frontend.context import RuleContext
from jaxprgen.frontend.registry import lowers
from jaxprgen.ir import Builder


def _bounds(node: Apply) -> Sequence[int]:
    """The inputs that are bounds of slices; the integers among the indices are none."""
    are_bounds: list[bool] = []
    for entry in node.op.idx_list:
        parts = (entry.start, entry.stop, entry.step) if isinstance(entry, slice) else (entry,)
        are_bounds += [isinstance(entry, slice) for part in parts if isinstance(part, Type)]
    first = len(node.inputs) - len(are_bounds)
    return [first + i for i, is_bound in enumerate(are_bounds) if is_bound]


@lowers(Subtensor, static=_bounds)
def lower_subtensor(ctx: RuleContext, x: Value, *scalars: Value) -> Value:
    """``x[index]``. Slices are known while emitting, integers need not be."""
    index = _index(ctx, scalars, first=1)
    check_bounds(ctx, shape_of(x), enumerate(index))
    return ix.take(ctx.builder, x, index)


@lowers(IncSubtensor, static=_bounds)
def lower_inc_subtensor(ctx: RuleContext, x: Value, y: Value, *scalars: Value) -> Value:
    """``x`` with ``x[index]`` replaced, or increased; in place or not is all one here."""
    index = _index(ctx, scalars, first=2)
    check_bounds(ctx, shape_of(x), enumerate(index))
    y = ew.convert(ctx.builder, y, ctx.dtype)
    return ix.put(ctx.builder, x, y, index, add=not ctx.op.set_instead_of_inc)


@lowers(MakeSlice, static=(0, 1, 2))
def lower_make_slice(ctx: RuleContext, *bounds: Value | None) -> list[slice]:
    """A slice whose bounds are known while emitting."""
    return [slice(*(None if b is None else ctx.static_int(i) for i, b in enumerate(bounds)))]


def _index(ctx: RuleContext, scalars: Sequence[Value], first: int) -> list[ix.Index]:
    """The Op's template with its scalars put in: slices need values, integers can wait."""
    positions = iter(range(len(scalars)))

    def bound(entry: Any) -> int | None:
        if isinstance(entry, Type):
            return ctx.static_int(first + next(positions))
        return None if entry is None else int(entry)

    def fill(entry: Any) -> ix.Index:
        if isinstance(entry, slice):
            return slice(bound(entry.start), bound(entry.stop), bound(entry.step))
        if not isinstance(entry, Type):
            return int(entry)
        scalar = scalars[next(positions)]
        return scalar if isinstance(scalar, Var) else int(known(scalar))  # type: ignore[arg-type]

    return [fill(entry) for entry in ctx.op.idx_list]


def check_bounds(ctx: RuleContext, shape: Sequence[int], index: Iterable[tuple[int, Any]]) -> None:
    """Check the run-time integers among the indices of these axes."""
    for axis, i in index:
        if isinstance(i, (Var, Broadcast)) and known(i) is None:
            ctx.require(
                lambda b, i=i, n=shape[axis]: _all_in_bounds(b, i, n),
                f"{ctx.op} reads or writes at an index that is out of bounds for axis {axis} of "
                f"size {shape[axis]}. Aesara raises IndexError there; the emitted program uses "
                "the nearest element",
            )


def _all_in_bounds(b: Builder, index: Value, size: int) -> Value:
    inside = ix.in_bounds(b, index, size)
    return reduce.bitwise_and(b, inside, range(len(shape_of(inside))))
