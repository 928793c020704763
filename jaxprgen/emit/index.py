"""Basic indexing: reading and writing by integers and slices.

An index has one entry for each leading axis: an ``int`` or a ``slice`` that is known, an integer
scalar `Value` that is known only at run time, or a `DynamicSlice`. A run-time index, or dynamic
slice, that is out of bounds is moved into the axis, as by `jax.lax.dynamic_slice`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Size, is_symbolic
from jaxprgen.emit import elementwise as ew, primitives as lax
from jaxprgen.emit.shape import concatenate, expand_dims, reshape, slice_axis, squeeze
from jaxprgen.emit.sizes import is_at_most, is_known, require_at_least
from jaxprgen.emit.values import BOOL, INT32, INT64, Dtype, Shape, Value, broadcast_to, full
from jaxprgen.errors import IndexOutOfBoundsError, ShapeMismatchError


class DynamicSlice(NamedTuple):
    """``length`` adjacent elements of one axis, from one that is known only at run time."""

    start: Value
    length: int


BasicEntry: TypeAlias = int | slice | Value | DynamicSlice


class _Span(NamedTuple):
    """The elements low, low + stride, … (``length`` of them) of one axis, in either order."""

    low: Size
    length: Size
    stride: int
    backwards: bool

    @property
    def limit(self) -> Size:
        """Return one past the last element."""
        return self.low + (self.length - 1) * self.stride + 1 if self.length else self.low


def _span(index: BasicEntry, size: Size, axis: int) -> _Span:
    if isinstance(index, slice):
        start, step, length = bounds(index, size)
        if length == 0:
            return _Span(0, 0, 1, False)
        low = start if step > 0 else start + (length - 1) * step
        return _Span(low, length, abs(step), step < 0)
    if isinstance(index, (Value, DynamicSlice)):
        return _Span(0, size, 1, False)

    require_index(index, size, axis)
    return _Span(index if index >= 0 else index + size, 1, 1, False)


def require_index(index: int, size: Size, axis: int) -> None:
    """Raise if a known index is out of bounds."""
    error = IndexOutOfBoundsError(f"Index {index} is out of bounds for axis {axis} of size {size}.")
    require_at_least(size, index + 1 if index >= 0 else -index, error)


def _spans(shape: Shape, index: Sequence[BasicEntry]) -> list[_Span]:
    if len(index) > len(shape):
        raise IndexOutOfBoundsError(f"Too many indices for an array of shape {shape}.")
    full = [*index, *[slice(None)] * (len(shape) - len(index))]
    return [_span(i, n, d) for d, (i, n) in enumerate(zip(full, shape, strict=True))]


def take(x: Value, index: Sequence[BasicEntry]) -> Value:
    """Return ``x[index]``."""
    scalars = {d: i for d, i in enumerate(index) if isinstance(i, Value)}
    if scalars:
        rest = [i for i in index if not isinstance(i, Value)]
        return take(_elements(x, scalars), rest)
    dynamic = _dynamic(index)
    if dynamic:
        return take(_block(x, dynamic), _in_block(index))
    return squeeze(_read(x, _spans(x.shape, index)), _integer_axes(index))


def _dynamic(index: Sequence[BasicEntry]) -> dict[int, DynamicSlice]:
    """Return the run-time entries by axis; an integer is a dynamic slice of length one."""
    return {
        d: i if isinstance(i, DynamicSlice) else DynamicSlice(i, 1)
        for d, i in enumerate(index)
        if isinstance(i, (Value, DynamicSlice))
    }


def _in_block(index: Sequence[BasicEntry]) -> list[int | slice]:
    """Return the index within the block that the run-time entries select."""
    return [
        slice(None) if isinstance(i, DynamicSlice) else 0 if isinstance(i, Value) else i
        for i in index
    ]


def _integer_axes(index: Sequence[BasicEntry]) -> list[int]:
    return [d for d, i in enumerate(index) if not isinstance(i, slice)]


def _read(x: Value, spans: Sequence[_Span]) -> Value:
    shape = x.shape
    taken = tuple(s.length for s in spans)
    if x.is_uniform:
        return Value(x.source, taken)
    backwards = [d for d, s in enumerate(spans) if s.backwards and s.length != 1]
    if taken != shape:
        x = _slice(x, spans)
    return lax.rev(x, backwards) if backwards else x


def _slice(x: Value, spans: Sequence[_Span]) -> Value:
    """Return the elements of spans, in ascending order."""
    shape = x.shape
    if _are_known(shape, spans):
        low, limit = [s.low for s in spans], [s.limit for s in spans]
        return lax.slice(x, low, limit, [s.stride for s in spans])
    # Negative padding, unlike a slice, needs no proof that it stays inside of the array.
    edges = [
        (-s.low, s.low + s.length * s.stride - n, 0) for s, n in zip(spans, shape, strict=True)
    ]
    x = lax.pad(x, x.like(0), edges)
    for d, s in enumerate(spans):
        if s.stride != 1:
            apart = reshape(x, (*x.shape[:d], s.length, s.stride, *x.shape[d + 1 :]))
            x = squeeze(slice_axis(apart, d + 1, 0, 1), [d + 1])
    return x


def bounds(index: slice, size: Size) -> tuple[Size, int, Size]:
    """Return the first index, the step and the length of a slice of an axis."""
    if is_known(n for n in (size, index.start, index.stop) if n is not None):
        bounds = range(*index.indices(size))
        return bounds.start, bounds.step, len(bounds)
    start, stop = (i if i is None else _from_front(i, size) for i in (index.start, index.stop))
    return _jax.canonicalize_slice(slice(start, stop, index.step), size)


def _from_front(i: Size, size: Size) -> Size:
    """Return a bound of a slice, counted from the front if its sign is not known."""
    if not is_symbolic(i) or is_at_most([i + 1], 0) or is_at_most([-i], 0):
        return i
    # Within these limits, negative bounds count from the back.
    return i % size if is_at_most([-size - i], 0) and is_at_most([i - size + 1], 0) else i


def _are_known(shape: Shape, spans: Sequence[_Span]) -> bool:
    return is_known(
        n for s, size in zip(spans, shape, strict=True) for n in (s.low, s.length, size)
    )


def _elements(x: Value, scalars: dict[int, Value]) -> Value:
    """Return the elements of ``x`` at run-time integers, without their axes.

    XLA makes one dynamic slice of this. Where ``x`` is split between devices, it would gather all
    of ``x`` for a dynamic slice, and exchanges only the elements for this.
    """
    shape = x.shape
    for d in scalars:
        if shape[d] == 0:
            raise IndexOutOfBoundsError(f"Cannot take an element of an array of shape {shape}.")
    if x.is_uniform:
        return Value(x.source, tuple(n for d, n in enumerate(shape) if d not in scalars))
    dtype = index_dtype([shape[d] for d in scalars], scalars.values())
    places = [expand_dims(wrap(i, shape[d], dtype), [0]) for d, i in scalars.items()]
    return lax.gather(x, concatenate(places, 0), [*scalars], [], in_bounds=False)


def _block(x: Value, dynamic: dict[int, DynamicSlice]) -> Value:
    """Return the block of ``x`` that the dynamic slices select."""
    if all(entry.length == 1 for entry in dynamic.values()):
        starts = {d: entry.start for d, entry in dynamic.items()}
        return expand_dims(_elements(x, starts), [*dynamic])
    shape = x.shape
    sizes = tuple(dynamic[d].length if d in dynamic else n for d, n in enumerate(shape))
    for d, entry in dynamic.items():
        text = f"Cannot take {entry.length} adjacent elements on axis {d} of shape {shape}."
        require_at_least(shape[d], entry.length, IndexOutOfBoundsError(text))
    return lax.dynamic_slice(x, _starts(shape, dynamic), sizes)


def _starts(shape: Shape, dynamic: dict[int, DynamicSlice]) -> list[Value]:
    dtype = index_dtype(shape, [entry.start for entry in dynamic.values()])
    return [
        wrap(dynamic[d].start, n, dtype) if d in dynamic else full((), 0, dtype)
        for d, n in enumerate(shape)
    ]


def index_dtype(sizes: Sequence[Size], indices: Iterable[Value] = ()) -> Dtype:
    """Return the dtype for counting along axes of these sizes, by these indices."""
    wide = any(i.dtype.itemsize == INT64.itemsize for i in indices)
    small = all(is_at_most([n], np.iinfo(np.int32).max) for n in sizes)
    return ew.canonical(INT32 if small and not wide else INT64)


def wrap(index: Value, size: Size, dtype: Dtype) -> Value:
    """Return run-time indices counted from the front; negative ones count from the back."""
    index = index.astype(dtype) if index.dtype.kind == "i" else index
    if index.dtype.kind == "u":
        return index.astype(dtype)
    return ew.where(index < 0, index + size, index)


def in_bounds(index: Value, size: Size) -> Value:
    """Return where run-time indices are in bounds of an axis."""
    if index.dtype.kind == "u":
        return index.astype(ew.canonical(np.uint64)) < size
    index = index.astype(ew.canonical(INT64))
    return (index >= -size) & (index < size)


def dynamic_slice_fits(entry: DynamicSlice, size: Size) -> Value:
    """Return whether a dynamic slice is in bounds, from the front or from the back."""
    start = entry.start.astype(ew.canonical(INT64))
    from_front = (start >= 0) & (start <= size - entry.length)
    from_back = (start >= -size) & (start < -entry.length)
    return from_front | from_back


def put(x: Value, y: Value, index: Sequence[BasicEntry], *, add: bool) -> Value:
    """Return ``x`` with ``x[index]`` replaced by ``y``, or increased by ``y``, which broadcasts."""
    dynamic = _dynamic(index)
    if dynamic:
        inner = put(_block(x, dynamic), y, _in_block(index), add=add)
        starts = _starts(x.shape, dynamic)
        return lax.dynamic_update_slice(x, inner, starts)
    spans = _spans(x.shape, index)
    block_shape = tuple(s.length for s in spans)
    axes = _integer_axes(index)
    visible = tuple(n for d, n in enumerate(block_shape) if d not in axes)
    y = expand_dims(fit(y, visible), axes)
    return _write(x, reshape(y, block_shape), spans, add)


def fit(y: Value, shape: Shape) -> Value:
    """Broadcast to a shape; leading axes of size one beyond its rank are dropped."""
    own = y.shape
    extra = len(own) - len(shape)
    if extra > 0:
        if any(n != 1 for n in own[:extra] if not is_symbolic(n)):
            raise ShapeMismatchError(
                f"Cannot write a value of shape {own} to elements of shape {shape}."
            )
        y = squeeze(y, range(extra))
    return broadcast_to(y, shape)


def _write(x: Value, y: Value, spans: Sequence[_Span], add: bool) -> Value:
    shape, block_shape = x.shape, y.shape
    backwards = [d for d, s in enumerate(spans) if s.backwards and s.length != 1]
    if backwards:
        y = lax.rev(y, backwards)
    if 0 in block_shape:
        return x
    if block_shape == shape:
        return x + y if add else y
    filled = x.fill_value
    if filled is not None:
        y = y if not add or not filled else y + filled
        return _spread(y, Value(np.asarray(filled)), shape, spans)
    is_block = _are_known(shape, spans) and all(s.stride == 1 or s.length == 1 for s in spans)
    if is_block and 2 * y.size < x.size:
        low, limit = [s.low for s in spans], [s.limit for s in spans]
        if add:
            y = lax.slice(x, low, limit, [1] * len(shape)) + y
        starts = [full((), s.low, INT32) for s in spans]
        return lax.dynamic_update_slice(x, y, starts)
    # For large blocks this is as fast. Where axes are split between devices, these exchange only
    # the ends of their parts.
    spread = Value(y.source, shape) if y.is_uniform else _spread(y, x.like(0), shape, spans)
    return ew.where(_inside(shape, spans, is_block), x + spread if add else spread, x)


def _inside(shape: Shape, spans: Sequence[_Span], is_block: bool) -> Value:
    """Return where elements are in spans; ``is_block`` if all these have known ends and no gaps."""
    if not is_block:
        lengths = tuple(s.length for s in spans)
        return _spread(full(lengths, True, BOOL), full((), False, BOOL), shape, spans)
    inside: list[Value] = []
    for d, (s, n) in enumerate(zip(spans, shape, strict=True)):
        own = tuple(n if d == e else 1 for e in range(len(shape)))
        if s.low or s.limit < n:
            i = lax.iota(index_dtype([n]), own, d)
            inside += [i >= s.low] if s.low else []
            inside += [i < s.limit] if s.limit < n else []
    return functools.reduce(operator.and_, inside)


def _spread(y: Value, fill: Value, shape: Shape, spans: Sequence[_Span]) -> Value:
    """Return an array of a shape with these elements at spans, and elsewhere a scalar."""
    if _are_known(shape, spans):
        gaps = [(s.low, n - s.limit, s.stride - 1) for n, s in zip(shape, spans, strict=True)]
        return lax.pad(y, fill, gaps)
    for d, s in enumerate(spans):
        if s.stride != 1:
            gap = [(0, 0, 0)] * (d + 1) + [(0, s.stride - 1, 0)] + [(0, 0, 0)] * (y.ndim - d - 1)
            y = lax.pad(expand_dims(y, [d + 1]), fill, gap)
            y = reshape(y, (*y.shape[:d], s.length * s.stride, *y.shape[d + 2 :]))
    edges = [(s.low, n - s.low - s.length * s.stride, 0) for n, s in zip(shape, spans, strict=True)]
    return lax.pad(y, fill, edges)
