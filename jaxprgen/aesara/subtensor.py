"""Rules for basic indexing, from `aesara.tensor.subtensor`: integers and slices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from aesara.graph.basic import Apply, Constant, Variable
from aesara.graph.type import Type
from aesara.scalar import basic as aes
from aesara.tensor.basic import ScalarFromTensor, TensorFromScalar
from aesara.tensor.elemwise import DimShuffle, Elemwise
from aesara.tensor.subtensor import IncSubtensor, Subtensor
from aesara.tensor.type_other import MakeSlice

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit import reduce
from jaxprgen.emit.values import Value
from jaxprgen.errors import IndexOutOfBoundsError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers

# --- Distances between integers -----------------------------------------------------------


Form = dict[Variable | None, int]
"""The factor of each variable; that of None is what is added."""

_DEPTH = 8
"""Nodes on the way to a variable up to which it is taken apart."""
_SMALLEST = np.dtype(np.int32).itemsize
"""Bytes of an integer whose sums are not expected to wrap."""


def linear_form(variable: Variable, depth: int = _DEPTH) -> Form:
    """An integer scalar as a sum, as far as additions, subtractions and factors tell."""
    if variable.type.ndim:  # type: ignore[attr-defined]
        return {variable: 1}
    if isinstance(variable, Constant):
        return {None: int(variable.data)}
    node = variable.owner
    if node is None or not depth or np.dtype(variable.type.dtype).itemsize < _SMALLEST:
        return {variable: 1}
    inputs = [linear_form(v, depth - 1) for v in node.inputs]
    if isinstance(node.op, (ScalarFromTensor, TensorFromScalar, DimShuffle)):
        return inputs[0]
    op: Any = node.op.scalar_op if isinstance(node.op, Elemwise) else node.op
    if isinstance(op, aes.Add):
        return _sum(inputs)
    if isinstance(op, aes.Sub):
        return _sum([inputs[0], _scaled(inputs[1], -1)])
    if isinstance(op, aes.Mul):
        factors = [f for f in inputs if set(f) <= {None}]
        others = [f for f in inputs if not set(f) <= {None}]
        if len(others) == 1:
            return _scaled(others[0], int(np.prod([f.get(None, 0) for f in factors], dtype=object)))
    return {variable: 1}


def _sum(forms: list[Form]) -> Form:
    variables = dict.fromkeys(v for form in forms for v in form)
    total = {v: sum(form.get(v, 0) for form in forms) for v in variables}
    return {v: n for v, n in total.items() if n}


def _scaled(form: Form, factor: int) -> Form:
    return {v: n * factor for v, n in form.items() if n * factor}


# --- Rules --------------------------------------------------------------------------------


def _template(node: Apply) -> list[Any]:
    """The Op's index with the positions of the node's inputs in it, as `_Input`."""
    count = sum(isinstance(part, Type) for entry in node.op.idx_list for part in _parts(entry))
    positions = iter(range(len(node.inputs) - count, len(node.inputs)))

    def fill(part: Any) -> Any:
        return _Input(next(positions)) if isinstance(part, Type) else part

    return [
        slice(*map(fill, _parts(entry))) if isinstance(entry, slice) else fill(entry)
        for entry in node.op.idx_list
    ]


class _Input(NamedTuple):
    """A part of an index that is an input of the node."""

    position: int


def _parts(entry: Any) -> tuple[Any, ...]:
    return (entry.start, entry.stop, entry.step) if isinstance(entry, slice) else (entry,)


def _bounds(node: Apply) -> Sequence[int]:
    """The inputs that are bounds of slices, but for windows; the integers are none."""
    slices = [e for e in _template(node) if isinstance(e, slice) and not _length(node, e)]
    return [p.position for e in slices for p in _parts(e) if isinstance(p, _Input)]


def _length(node: Apply, entry: slice) -> int:
    """The length of a slice whose bounds are inputs of which one is so much above the other.

    Of any other slice, 0.
    """
    start, stop, step = _parts(entry)
    if not (isinstance(start, _Input) and isinstance(stop, _Input) and step in (None, 1)):
        return 0
    low, high = (linear_form(node.inputs[bound.position]) for bound in (start, stop))
    length = high.pop(None, 0) - low.pop(None, 0)
    return max(length, 0) if low == high else 0


@lowers(Subtensor, static=_bounds)
def lower_subtensor(ctx: RuleContext, x: Value, *scalars: Value) -> Value:
    """``x[index]``. Slices are known while emitting, integers need not be."""
    index = index_of(ctx, scalars, first=1)
    check_bounds(ctx, x.shape, enumerate(index))
    return ix.take(x, index)


@lowers(IncSubtensor, static=_bounds)
def lower_inc_subtensor(ctx: RuleContext, x: Value, y: Value, *scalars: Value) -> Value:
    """``x`` with ``x[index]`` replaced, or increased; in place or not is all one here."""
    index = index_of(ctx, scalars, first=2)
    check_bounds(ctx, x.shape, enumerate(index))
    add = not ctx.op.set_instead_of_inc
    if add and not np.can_cast(y.dtype, ctx.dtype, "same_kind"):
        # Whole numbers are increased by a fraction before that is cut off.
        wide = ew.canonical(np.result_type(y.dtype, ctx.dtype))
        block = ix.take(x, index).astype(wide)
        y, add = block + y.astype(wide), False
    return ix.put(x, y.astype(ctx.dtype), index, add=add)


@lowers(MakeSlice, static=(0, 1, 2))
def lower_make_slice(ctx: RuleContext, *bounds: Value | None) -> list[slice]:
    """A slice whose bounds are known while emitting."""
    return [slice(*(None if b is None else ctx.static_int(i) for i, b in enumerate(bounds)))]


def index_of(ctx: RuleContext, scalars: Sequence[Value], first: int) -> list[ix.Index]:
    """The Op's template with its scalars put in: slices need values, integers can wait.

    So can the bounds of a window.
    """

    def bound(part: Any) -> int | None:
        return ctx.static_int(part.position) if isinstance(part, _Input) else part

    def fill(entry: Any) -> ix.Index:
        if not isinstance(entry, (slice, _Input)):
            return int(entry)
        if isinstance(entry, _Input):
            return scalar(entry)
        length = _length(ctx.node, entry)
        if not length:
            return slice(*map(bound, _parts(entry)))
        start, stop = scalar(entry.start), scalar(entry.stop)
        return ix.DynamicSlice(start, length) if isinstance(start, Value) else slice(start, stop)

    def scalar(part: _Input) -> Any:
        value = scalars[part.position - first]
        return value if value.static is None else int(value.static)

    return [fill(entry) for entry in _template(ctx.node)]


def check_bounds(ctx: RuleContext, shape: Sequence[int], index: Iterable[tuple[int, Any]]) -> None:
    """Check the run-time integers among the indices of these axes."""
    for axis, i in index:
        if isinstance(i, ix.DynamicSlice):
            ctx.require(
                lambda i=i, n=shape[axis]: ix.dynamic_slice_fits(i, n),
                IndexOutOfBoundsError,
                f"{ctx.op} reads or writes {i.length} elements together, of which some are out of "
                f"bounds for axis {axis} of size {shape[axis]}. Aesara takes fewer there; the "
                "emitted program takes the nearest that stand together",
            )
        elif isinstance(i, Value) and i.static is None:
            ctx.require(
                lambda i=i, n=shape[axis]: _all_in_bounds(i, n),
                IndexOutOfBoundsError,
                f"{ctx.op} reads or writes at an index that is out of bounds for axis {axis} of "
                f"size {shape[axis]}. Aesara raises IndexError there; the emitted program uses "
                "the nearest element",
            )


def _all_in_bounds(index: Value, size: int) -> Value:
    inside = ix.in_bounds(index, size)
    return reduce.bitwise_and(inside, range(inside.ndim))
