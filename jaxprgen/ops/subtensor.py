"""Rules for basic indexing, from `aesara.tensor.subtensor`: by integers and slices.

Ops that work in place have the rules of those that do not, because programs have no memory.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen._jax import Size, identity
from jaxprgen.emit import elementwise as ew, index as ix
from jaxprgen.emit.deferred import Cut
from jaxprgen.emit.sizes import is_known
from jaxprgen.emit.values import Value
from jaxprgen.errors import IndexOutOfBoundsError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import Apply, Variable, is_a, library_of
from jaxprgen.lowering.registry import lowers

# --- Indices of Ops -----------------------------------------------------------------------


class _Input(NamedTuple):
    """A part of an index that is an input of the node, at this position."""

    position: int


def index_with(op: Any, operands: Iterable[Any]) -> list[Any]:
    """Return an Op's index with these operands in place of what stands for them.

    Aesara's Ops hold the operands' types, and PyTensor's their positions.
    """
    rest = iter(operands)
    holds_positions = library_of(op) == "pytensor"

    def fill(part: Any) -> Any:
        is_operand = type(part) is int if holds_positions else is_a(part, "graph.Type")
        return next(rest) if is_operand else part

    return [
        slice(*map(fill, _parts(entry))) if isinstance(entry, slice) else fill(entry)
        for entry in op.idx_list
    ]


def _template(node: Apply) -> list[Any]:
    """Return the Op's index with the node's inputs in place of their types."""
    first = 2 if is_a(node.op, "tensor.IncSubtensor") else 1
    return index_with(node.op, map(_Input, range(first, len(node.inputs))))


def _parts(entry: Any) -> tuple[Any, ...]:
    return (entry.start, entry.stop, entry.step) if isinstance(entry, slice) else (entry,)


# --- Windows: slices whose length is static, unlike their bounds --------------------------

Sum = dict[Variable | None, int]
"""An integer as a sum: the factor of each variable, and the constant term under None."""

_DEPTH = 8
"""How many nodes above an integer are read to write it as a sum."""
_FEWEST_BYTES = np.dtype(np.int32).itemsize
"""Narrower integers are not read as sums, because theirs may wrap around."""


def _window_length(node: Apply, entry: slice) -> int:
    """Return the length of ``x[start : start + length]``; 0 for any other slice."""
    start, stop, step = _parts(entry)
    if not (isinstance(start, _Input) and isinstance(stop, _Input) and step in (None, 1)):
        return 0
    low, high = (_as_sum(node.inputs[bound.position]) for bound in (start, stop))
    length = high.pop(None, 0) - low.pop(None, 0)
    return max(length, 0) if low == high else 0


def _as_sum(variable: Variable, depth: int = _DEPTH, *, negations: bool = False) -> Sum:
    """Return an integer scalar as a sum, as far as additions, subtractions and products tell.

    With ``negations``, ``-n`` counts as a sum, too. The bounds of a window must not use this: they
    may have opposite signs, as those of ``x[-n : 1 - n]``.
    """
    if variable.type.ndim:  # type: ignore[attr-defined]
        return {variable: 1}
    if is_a(variable, "graph.Constant"):
        return {None: int(variable.data)}
    node = variable.owner
    if node is None or not depth or np.dtype(variable.type.dtype).itemsize < _FEWEST_BYTES:
        return {variable: 1}
    inputs = [_as_sum(v, depth - 1, negations=negations) for v in node.inputs]
    if is_a(node.op, "tensor.ScalarFromTensor", "tensor.TensorFromScalar", "tensor.DimShuffle"):
        return inputs[0]
    op: Any = node.op.scalar_op if is_a(node.op, "tensor.Elemwise") else node.op
    if is_a(op, "scalar.Add"):
        return _added(inputs)
    if is_a(op, "scalar.Sub"):
        return _added([inputs[0], _scaled(inputs[1], -1)])
    if negations and is_a(op, "scalar.Neg"):
        return _scaled(inputs[0], -1)
    if is_a(op, "scalar.Mul"):
        factors = [f.get(None, 0) for f in inputs if set(f) <= {None}]
        others = [f for f in inputs if not set(f) <= {None}]
        if len(others) == 1:
            return _scaled(others[0], math.prod(factors))
    return {variable: 1}


def _added(sums: list[Sum]) -> Sum:
    variables = dict.fromkeys(v for terms in sums for v in terms)
    total = {v: sum(terms.get(v, 0) for terms in sums) for v in variables}
    return {v: n for v, n in total.items() if n}


def _scaled(terms: Sum, factor: int) -> Sum:
    return {v: n * factor for v, n in terms.items() if n * factor}


# --- Rules --------------------------------------------------------------------------------


@lowers("tensor.Subtensor")
def lower_subtensor(ctx: RuleContext, x: Value, *scalars: Value) -> Value | Cut:
    """Return ``x[index]``; the bounds of slices are static, integers need not be."""
    return _cut(ctx, x, scalars) or _taken(ctx, x, scalars)


def _taken(ctx: RuleContext, x: Value, scalars: Sequence[Value]) -> Value:
    index = index_of(ctx, scalars, first=1)
    check_bounds(ctx, x.shape, enumerate(index))
    return ix.take(x, index)


def _cut(ctx: RuleContext, x: Value, scalars: Sequence[Value]) -> Cut | None:
    """Return ``x[place:]`` or ``x[:place]``, along one axis, if the place is not static."""
    parts = [(d, e) for d, e in enumerate(_template(ctx.node)) if _parts(e) != (None, None, None)]
    if len(parts) != 1 or not isinstance(parts[0][1], slice):
        return None
    ((axis, entry),) = parts
    start, stop, step = _parts(entry)
    if isinstance(start, _Input) and scalars[start.position - 1].static == 0:
        start = None
    place = start if stop is None else stop
    if not isinstance(place, _Input) or None not in (start, stop) or step not in (None, 1):
        return None
    if not is_known(x.shape) or ctx.static_or_none(place.position) is not None:
        return None
    array, *others = ctx.node.inputs
    terms = _as_sum(others[place.position - 1], negations=True)
    key = array, axis, frozenset(terms.items())
    value = scalars[place.position - 1]
    return Cut(x, axis, value, start is None, key, lambda: _taken(ctx, x, scalars))


@lowers("tensor.IncSubtensor")
def lower_inc_subtensor(ctx: RuleContext, x: Value, y: Value, *scalars: Value) -> Value:
    """Return ``x`` with ``x[index]`` replaced by ``y``, or increased by it."""
    index = index_of(ctx, scalars, first=2)
    check_bounds(ctx, x.shape, enumerate(index))
    add = not ctx.op.set_instead_of_inc
    if add and not np.can_cast(y.dtype, ctx.dtype, "same_kind"):
        # NumPy adds a float to integers before it truncates the sum.
        wide = ew.canonical(np.result_type(y.dtype, ctx.dtype))
        y, add = ix.take(x, index).astype(wide) + y.astype(wide), False
    return ix.put(x, y.astype(ctx.dtype), index, add=add)


@lowers("tensor.MakeSlice")
def lower_make_slice(ctx: RuleContext, *bounds: Value | None) -> list[slice]:
    """Return a slice of static bounds."""
    return [slice(*(None if b is None else ctx.static_int(i) for i, b in enumerate(bounds)))]


def index_of(ctx: RuleContext, scalars: Sequence[Value], first: int) -> list[ix.BasicEntry]:
    """Return the Op's index, made of its scalar inputs, of which ``first`` is the first.

    The bounds of slices become Python integers; integers and the bounds of windows may be values.
    """

    def bound(part: Any) -> int | None:
        return ctx.static_int(part.position) if isinstance(part, _Input) else part

    def fill(entry: Any) -> ix.BasicEntry:
        if not isinstance(entry, (slice, _Input)):
            return int(entry)
        if isinstance(entry, _Input):
            return scalar(entry)
        length = _window_length(ctx.node, entry)
        if not length:
            return slice(*map(bound, _parts(entry)))
        start, stop = scalar(entry.start), scalar(entry.stop)
        return ix.DynamicSlice(start, length) if isinstance(start, Value) else slice(start, stop)

    def scalar(part: _Input) -> Any:
        value = scalars[part.position - first]
        return value if value.static is None else int(value.static)

    return [fill(entry) for entry in _template(ctx.node)]


def check_bounds(ctx: RuleContext, shape: Sequence[int], index: Iterable[tuple[int, Any]]) -> None:
    """Check the indices of these axes that are known only at run time.

    What reads and writes at the same indices, as a gradient does, is checked once.
    """
    for axis, i in index:
        if isinstance(i, ix.DynamicSlice):
            count, where = f"{i.length} adjacent elements", f"axis {axis} of size {shape[axis]}"
            fails = f"Of {count} from {{}} on, some are out of bounds for {where}."
            unchecked = f"whether {count} are all within {where}. If not, the Op takes fewer "
            unchecked += "elements, and this program takes the nearest adjacent ones"
            fits = functools.partial(ix.dynamic_slice_fits, i, shape[axis])
            ctx.require(fits, IndexOutOfBoundsError, fails, unchecked, i.start)
        elif isinstance(i, Value) and i.static is None:
            key = "bounds", identity(i.source), shape[axis]
            if ctx.builder.memoized(key, lambda: ctx.step) is ctx.step:
                require_in_bounds(ctx, i, axis, shape[axis], "uses the nearest element")


def require_in_bounds(
    ctx: RuleContext, index: Value, axis: int, size: Size, otherwise: str
) -> None:
    """Check that indices are within an axis; ``otherwise`` says what the program does if not."""
    where = f"axis {axis} of size {size}"
    unchecked = f"whether every index is within {where}. If one is not, the Op raises IndexError, "
    unchecked += f"and this program {otherwise}"
    fails = f"Index {{}} is out of bounds for {where}."
    in_bounds = functools.partial(ix.in_bounds, index, size)
    ctx.require(in_bounds, IndexOutOfBoundsError, fails, unchecked, index)
