"""Basic indexing: reading and writing by integers and slices.

An index names each leading axis once: by a Python ``int`` or ``slice`` that is known while
emitting, or by an integer scalar `Value` that is known only at run time. A run-time index
outside its axis is moved to the nearest element, as `jax.lax.dynamic_slice` does. A `Window` of
elements that stand together is moved inside likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from jaxprgen._jax import Var
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.shape import expand_dims, reshape, squeeze
from jaxprgen.emit.values import (
    BOOL,
    INT32,
    INT64,
    Broadcast,
    Dtype,
    Shape,
    Value,
    atom,
    broadcast_to,
    dtype_of,
    shape_of,
    splat,
    splat_value,
)
from jaxprgen.errors import IndexOutOfBoundsError, ShapeMismatchError
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir import primitives as lax


class Window(NamedTuple):
    """So many elements of one axis, from one that is known only at run time."""

    start: Var
    length: int


Index: TypeAlias = int | slice | Var | Window


class _Span(NamedTuple):
    """The elements low, low + stride, … (``length`` of them) of one axis, in either order."""

    low: int
    length: int
    stride: int
    backwards: bool

    @property
    def limit(self) -> int:
        """One past the last element."""
        return self.low + (self.length - 1) * self.stride + 1 if self.length else self.low


def _span(index: Index, size: int, axis: int) -> _Span:
    if isinstance(index, slice):
        start, _, step = index.indices(size)
        length = len(range(*index.indices(size)))
        if not length:
            return _Span(0, 0, 1, False)
        low = start if step > 0 else start + (length - 1) * step
        return _Span(low, length, abs(step), step < 0)
    if not isinstance(index, int):
        return _Span(0, size, 1, False)
    if not -size <= index < size:
        raise IndexOutOfBoundsError(
            f"Index {index} is out of bounds for axis {axis} of size {size}."
        )
    return _Span(index % size, 1, 1, False)


def _spans(shape: Shape, index: Sequence[Index]) -> list[_Span]:
    if len(index) > len(shape):
        raise IndexOutOfBoundsError(f"{len(index)} indices for an array of shape {shape}.")
    full = [*index, *[slice(None)] * (len(shape) - len(index))]
    return [_span(i, n, d) for d, (i, n) in enumerate(zip(full, shape, strict=True))]


def take(b: Builder, x: Value, index: Sequence[Index]) -> Value:
    """``x[index]``."""
    dynamic = _dynamic(index)
    if dynamic:
        return take(b, _block(b, x, dynamic), _in_block(index))
    return squeeze(b, _read(b, x, _spans(shape_of(x), index)), _integer_axes(index))


def _dynamic(index: Sequence[Index]) -> dict[int, Window]:
    """The entries that are known only at run time, by axis; an integer is a window of one."""
    return {
        d: i if isinstance(i, Window) else Window(i, 1)
        for d, i in enumerate(index)
        if isinstance(i, (Var, Window))
    }


def _in_block(index: Sequence[Index]) -> list[int | slice]:
    """The same index in the block that the run-time entries leave."""
    return [slice(None) if isinstance(i, Window) else 0 if isinstance(i, Var) else i for i in index]


def _integer_axes(index: Sequence[Index]) -> list[int]:
    return [d for d, i in enumerate(index) if not isinstance(i, slice)]


def _read(b: Builder, x: Value, spans: Sequence[_Span]) -> Value:
    shape = shape_of(x)
    taken = tuple(s.length for s in spans)
    if type(x) is Broadcast and shape_of(x.operand) == ():
        return Broadcast(x.operand, taken)
    backwards = [d for d, s in enumerate(spans) if s.backwards and s.length > 1]
    if taken != shape:
        low, limit = [s.low for s in spans], [s.limit for s in spans]
        x = lax.slice(b, atom(b, x), low, limit, [s.stride for s in spans])
    return lax.rev(b, atom(b, x), backwards) if backwards else x


def _block(b: Builder, x: Value, dynamic: dict[int, Window]) -> Value:
    """The part of ``x`` in one window per given axis."""
    shape = shape_of(x)
    sizes = tuple(dynamic[d].length if d in dynamic else n for d, n in enumerate(shape))
    for d, window in dynamic.items():
        if shape[d] == 0:
            raise IndexOutOfBoundsError(f"There is no element to read in shape {shape}.")
        if shape[d] < window.length:
            raise IndexOutOfBoundsError(
                f"There are no {window.length} elements together on axis {d} of shape {shape}."
            )
    return lax.dynamic_slice(b, atom(b, x), _starts(b, shape, dynamic), sizes)


def _starts(b: Builder, shape: Shape, dynamic: dict[int, Window]) -> list[Atom]:
    dtype = index_dtype(shape, [window.start for window in dynamic.values()])
    return [
        atom(b, wrap(b, dynamic[d].start, n, dtype) if d in dynamic else splat(0, dtype))
        for d, n in enumerate(shape)
    ]


def index_dtype(sizes: Sequence[int], indices: Iterable[Value] = ()) -> Dtype:
    """The dtype to count in along axes of these sizes, if these indices come in as they are."""
    wide = any(dtype_of(i).itemsize == INT64.itemsize for i in indices)
    return ew.canonical(INT64 if wide or max(sizes, default=0) > np.iinfo(np.int32).max else INT32)


def wrap(b: Builder, index: Value, size: int, dtype: Dtype) -> Value:
    """Run-time indices counted from the front: negative ones count from the back."""
    index = ew.convert(b, index, dtype) if dtype_of(index).kind == "i" else index
    if dtype_of(index).kind == "u":
        return ew.convert(b, index, dtype)
    negative = ew.less(b, index, np.asarray(0, dtype))
    return ew.where(b, negative, ew.add(b, index, np.asarray(size, dtype)), index)


def in_bounds(b: Builder, index: Value, size: int) -> Value:
    """Whether each of some run-time indices lies in its axis."""
    if dtype_of(index).kind == "u":
        index = ew.convert(b, index, ew.canonical(np.uint64))
        return ew.less(b, index, np.asarray(size, dtype_of(index)))
    index = ew.convert(b, index, ew.canonical(INT64))
    low = ew.greater_equal(b, index, np.asarray(-size, dtype_of(index)))
    high = ew.less(b, index, np.asarray(size, dtype_of(index)))
    return ew.bitwise_and(b, low, high)


def window_fits(b: Builder, window: Window, size: int) -> Value:
    """Whether a window lies in its axis, all of it counted from one end, as a slice would be."""
    start = ew.convert(b, window.start, ew.canonical(INT64))
    low, high, end, first = (
        np.asarray(n, dtype_of(start)) for n in (0, size - window.length, -window.length, -size)
    )
    ahead = ew.bitwise_and(b, ew.greater_equal(b, start, low), ew.less_equal(b, start, high))
    behind = ew.bitwise_and(b, ew.greater_equal(b, start, first), ew.less(b, start, end))
    return ew.bitwise_or(b, ahead, behind)


def put(b: Builder, x: Value, y: Value, index: Sequence[Index], *, add: bool) -> Value:
    """``x`` with ``x[index]`` replaced by ``y``, or increased by it; ``y`` broadcasts."""
    dynamic = _dynamic(index)
    if dynamic:
        inner = put(b, _block(b, x, dynamic), y, _in_block(index), add=add)
        starts = _starts(b, shape_of(x), dynamic)
        return lax.dynamic_update_slice(b, atom(b, x), atom(b, inner), starts)
    spans = _spans(shape_of(x), index)
    region = tuple(s.length for s in spans)
    axes = _integer_axes(index)
    visible = tuple(n for d, n in enumerate(region) if d not in axes)
    y = expand_dims(b, fit(b, y, visible), axes)
    return _write(b, x, reshape(b, y, region), spans, add)


def fit(b: Builder, y: Value, shape: Shape) -> Value:
    """Broadcast to the region; leading axes of size one beyond its rank are dropped."""
    own = shape_of(y)
    extra = len(own) - len(shape)
    if extra > 0:
        if any(n != 1 for n in own[:extra]):
            raise ShapeMismatchError(f"A value of shape {own} does not fit a region of {shape}.")
        y = squeeze(b, y, range(extra))
    return broadcast_to(b, y, shape)


def _write(b: Builder, x: Value, y: Value, spans: Sequence[_Span], add: bool) -> Value:
    shape, region = shape_of(x), shape_of(y)
    backwards = [d for d, s in enumerate(spans) if s.backwards and s.length > 1]
    if backwards:
        y = lax.rev(b, atom(b, y), backwards)
    if 0 in region:
        return x
    if region == shape:
        return ew.add(b, x, y) if add else y
    filled = splat_value(x)
    if filled is not None:
        fill = np.asarray(filled)
        y = y if not add or not filled else ew.add(b, y, fill)
        return lax.pad(b, atom(b, y), atom(b, fill), _padding(shape, spans))
    if all(s.stride == 1 or s.length == 1 for s in spans):
        low, limit = [s.low for s in spans], [s.limit for s in spans]
        if add:
            y = ew.add(b, lax.slice(b, atom(b, x), low, limit, [1] * len(shape)), y)
        starts = [atom(b, splat(s.low, INT32)) for s in spans]
        return lax.dynamic_update_slice(b, atom(b, x), atom(b, y), starts)
    zero = np.zeros((), dtype_of(x))
    spread = lax.pad(b, atom(b, y), atom(b, zero), _padding(shape, spans))
    inside = atom(b, splat(True, BOOL, region))
    mask = lax.pad(b, inside, atom(b, np.asarray(False)), _padding(shape, spans))
    return ew.where(b, mask, ew.add(b, x, spread) if add else spread, x)


def _padding(shape: Shape, spans: Sequence[_Span]) -> list[tuple[int, int, int]]:
    return [(s.low, n - s.limit, s.stride - 1) for n, s in zip(shape, spans, strict=True)]
