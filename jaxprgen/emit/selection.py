"""The elements that a mask selects, where only the running program knows their number.

The elements stay in place beside the mask. Elementwise functions apply to all of them, and
reductions leave out the elements that are not selected.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxprgen._jax import Size, identity
from jaxprgen.emit import elementwise as ew, index as ix, primitives as lax, reduce
from jaxprgen.emit.create import count_along
from jaxprgen.emit.lazy import Lazy
from jaxprgen.emit.ravel import unravel_index
from jaxprgen.emit.reduce import cumsum
from jaxprgen.emit.shape import expand_dims, reshape
from jaxprgen.emit.values import INT64, Array, Dtype, Value, broadcast_to, full
from jaxprgen.ir import current_builder


def is_same(a: Value, b: Value) -> bool:
    """Return whether two values are one variable, or known array, repeated to one shape."""
    return a.source is b.source and a.shape == b.shape


@dataclass(frozen=True, eq=False)
class Selected(Lazy):
    """The elements that a mask selects along one axis; only the running program knows their number.

    Attributes
    ----------
    values
        All elements, with the axes of the mask in place of ``axis``.
    mask
        Where an element is selected.
    axis
        The axis of the selected elements.
    refuse
        Returns the error for a graph that needs the number of elements.
    """

    values: Value
    mask: Value
    axis: int
    refuse: Callable[[], Exception]

    @property
    def dtype(self) -> Dtype:
        """Return the dtype."""
        return self.values.dtype

    @property
    def shape(self) -> tuple[Size | None, ...]:
        """Return the sizes, with None for the number of selected elements."""
        first, end = self.values.shape[: self.axis], self.axis + self.mask.ndim
        return (*first, None, *self.values.shape[end:])

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    def force(self) -> Value:
        """Raise the error of `refuse`: a program has no array of unknown size."""
        raise self.refuse()

    def full_axes(self, axes: Sequence[int]) -> list[int]:
        """Return the axes of ``values`` that stand for these axes."""
        more, found = self.mask.ndim - 1, list[int]()
        for d in axes:
            found += range(d, d + more + 1) if d == self.axis else [d + more * (d > self.axis)]
        return found


def select(x: Value, mask: Value, axis: int, refuse: Callable[[], Exception]) -> Selected:
    """Return ``x[mask]``, where the mask covers the axes of ``x`` from ``axis`` on.

    Elements that are not selected are replaced by a selected one, so that functions of them neither
    fail nor have derivatives that are not finite.
    """
    count, shape = mask.ndim, x.shape
    if 0 in mask.shape or x.fill_value is not None:
        return Selected(x, mask, axis, refuse)
    rows = reshape(x, (*shape[:axis], mask.size, *shape[axis + count :]))
    first = reduce.argmax(reshape(mask, (-1,)), [0])
    one = ix.take(rows, [*[slice(None)] * axis, first])  # type: ignore[list-item]
    return _filled_by(one, x, mask, axis, refuse)


def nonnegative(number: Value) -> Value:
    """Return a number, or 0 if it is negative: one value for equal numbers."""
    key = "nonnegative", identity(number.source), number.shape
    return current_builder().memoized(key, lambda: (ew.maximum(number, 0), number))[0]


def select_first(x: Value, number: Value, axis: int, refuse: Callable[[], Exception]) -> Selected:
    """Return the first ``number`` elements of ``x`` along an axis, as `select` does."""
    size = x.shape[axis]

    def mask() -> tuple[Value, Value]:
        return lax.iota(number.dtype, (size,), 0) < number, number

    key = "first", identity(number.source), size
    first = current_builder().memoized(key, mask)[0]  # One mask for equal numbers.
    if not size or x.fill_value is not None:
        return Selected(x, first, axis, refuse)
    one = ix.take(x, [*[slice(None)] * axis, 0])
    return _filled_by(one, x, first, axis, refuse)


def _filled_by(
    one: Value, x: Value, mask: Value, axis: int, refuse: Callable[[], Exception]
) -> Selected:
    one = expand_dims(ew.stop_gradient(one), range(axis, axis + mask.ndim))
    where = _spread(mask, axis, x.ndim)
    return Selected(ew.where(where, x, broadcast_to(one, x.shape)), mask, axis, refuse)


def nonzero(mask: Value, refuse: Callable[[], Exception]) -> list[Selected]:
    """Return `numpy.nonzero` of a mask: one vector of indices for each of its axes."""
    shape = mask.shape
    every = [count_along(shape, d) for d in range(len(shape))]
    dtype = ew.canonical(INT64)
    positions = (broadcast_to(i.astype(dtype), shape) for i in every)
    return [select(x, mask, 0, refuse) for x in positions]


def _spread(mask: Value, axis: int, rank: int) -> Value:
    """Insert the other axes of an array of this rank into a mask of some axes."""
    own = range(axis, axis + mask.ndim)
    return expand_dims(mask, [d for d in range(rank) if d not in own])


def count(mask: Value) -> Value:
    """Return the number of elements that a mask selects; int64 (int32 where x64 is off)."""

    def counted() -> tuple[Value, Value]:
        ones = mask.astype(ew.canonical(INT64))
        return reduce.sum(ones, range(mask.ndim)), mask

    return current_builder().memoized(_count_key(mask), counted)[0]


def _count_key(mask: Value) -> tuple[Any, ...]:
    return "count", identity(mask.source), mask.shape


def assume_count(mask: Value, number: int) -> None:
    """Take the number of elements that a mask selects as known."""
    found = full((), number, ew.canonical(INT64))
    current_builder().memoized(_count_key(mask), lambda: (found, mask))


def positions(mask: Value) -> Value:
    """Return the position of each element among the selected ones; any where not selected."""
    ones = reshape(mask, (-1,)).astype(ew.canonical(INT64))
    before = cumsum(ones, 0) - 1
    return reshape(ew.maximum(before, 0), mask.shape)


def position(x: Selected, axes: Sequence[int], where: Value) -> Value:
    """Convert a position over ``values``, in row-major order, to one over the selection."""
    every = x.full_axes(axes)
    sizes = {d: where.like(x.values.shape[d]) for d in every}
    index = dict(zip(every, unravel_index(where, list(sizes.values()), "C"), strict=True))
    found = where.like(0)
    for d in axes:
        own = x.full_axes([d])
        step = functools.reduce(lambda i, e: i * sizes[e] + index[e], own[1:], index[own[0]])
        size = sizes[own[0]]
        if d == x.axis:
            size, before = count(x.mask), reshape(positions(x.mask), (-1,))
            indices = expand_dims(step, [step.ndim])
            step = lax.gather(before, indices, [0], range(step.ndim), in_bounds=True)
        found = found * size + step
    return found


def size(x: Selected, axis: int) -> Value:
    """Return the size of an axis, as a scalar."""
    if axis == x.axis:
        return count(x.mask)
    return full((), x.values.shape[x.full_axes([axis])[0]], ew.canonical(INT64))


def filled(x: Selected, value: Array) -> Value:
    """Return all elements, with ``value`` in place of those that are not selected."""
    where = _spread(x.mask, x.axis, x.values.ndim)
    return ew.where(where, x.values, value)


def of_rank(x: Value | Selected, rank: int) -> Value | Selected:
    """Return an array or a selection with axes of size one in front, up to this rank."""
    new = range(rank - x.ndim)
    if isinstance(x, Selected):
        return replace(x, values=expand_dims(x.values, new), axis=x.axis + len(new))
    return expand_dims(x, new)


def aligned(xs: Sequence[Value | Selected]) -> tuple[list[Value], Selected]:
    """Return the full arrays of selections by one mask, and the first selection.

    Other arrays get the axes of the mask, with size one, in place of the selected axis.

    Raises
    ------
    Exception
        The error of `Selected.refuse`: masks differ, or another array has more than one element
        along the selected axis.
    """
    first = next(x for x in xs if isinstance(x, Selected))
    count = first.mask.ndim
    found: list[Value] = []
    for x in xs:
        if isinstance(x, Selected):
            if not is_same(x.mask, first.mask) or x.axis != first.axis:
                raise x.refuse()
            found.append(x.values)
            continue
        own = x.shape  # type: ignore[arg-type]
        if own[first.axis] != 1:
            raise first.refuse()
        sizes = (*own[: first.axis], *[1] * count, *own[first.axis + 1 :])
        found.append(reshape(x, sizes))  # type: ignore[arg-type]
    return found, first
