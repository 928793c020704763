"""Rules for advanced indexing, from `aesara.tensor.subtensor`: by arrays of integers and by masks.

If the size of a mask's selection is needed, it is static, given by the user, or decided by an
argument; otherwise the selection is a `Selected`. Ops that work in place have the rules of those
that do not, because programs have no memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew, fixed_size, gather as ga, index as ix, selection as sel
from jaxprgen.emit.create import count_along
from jaxprgen.emit.ravel import choose, within
from jaxprgen.emit.selection import Selected
from jaxprgen.emit.shape import reshape
from jaxprgen.emit.sizes import is_at_most
from jaxprgen.emit.values import BOOL, INT64, Array, Value, broadcast_to, common_shape, full
from jaxprgen.errors import JaxprGenError, PositionOutOfBoundsError, ShapeMismatchError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.names import Apply, is_a, library_of
from jaxprgen.lowering.registry import lowers
from jaxprgen.ops.subtensor import check_bounds, index_with

SIZED = "Or give the result a size: jaxprgen.compile(..., sizes={variable: n})."
"""The remedy for a result whose size depends on values."""


def _masks(node: Apply) -> Sequence[int]:
    """Return the positions of the inputs that are boolean indices."""
    return [i for i, v in enumerate(node.inputs) if i and getattr(v.type, "dtype", "") == "bool"]


def _positions(node: Apply, first: int) -> list[Any]:
    """Return the index in terms of positions of inputs, with slices as such.

    ``first`` is the position of the first index. Aesara's nodes take whole slices as inputs.
    """
    if hasattr(node.op, "idx_list"):
        return index_with(node.op, range(first, len(node.inputs)))
    entries = list(enumerate(node.inputs))[first:]
    return [slice(i) if is_a(v.type, "tensor.SliceType") else i for i, v in entries]


def _with_slices(ctx: RuleContext, entries: Sequence[Any], first: int) -> list[Any]:
    """Return the index that inputs are the entries of, with slices of static bounds."""
    if not hasattr(ctx.op, "idx_list"):
        return list(entries)

    def bound(position: int | None) -> Any:
        return None if position is None else ctx.static_int(position)

    def filled(i: Any) -> Any:
        is_slice = isinstance(i, slice)
        return slice(*map(bound, (i.start, i.stop, i.step))) if is_slice else entries[i - first]

    return [filled(i) for i in _positions(ctx.node, first)]


def lone_mask(node: Apply, first: int) -> int | None:
    """Return the position of the only index besides slices, if it is a mask.

    ``first`` is the position of the first index.
    """
    others = [i for i in _positions(node, first) if not isinstance(i, slice)]
    return others[0] if len(others) == 1 and others == _masks(node)[-1:] else None


def indices_of_one(node: Apply, first: int) -> Apply | None:
    """Return the node of ``x[nonzero(mask)]`` that computes ``nonzero(mask)``."""
    index = node.inputs[first:]
    maker = index[0].owner if index else None
    is_one = maker is not None and is_a(maker.op, "tensor.Nonzero") and index == maker.outputs
    return maker if is_one else None


def _count_of_values(node: Apply, mask: int, shape: Sequence[int]) -> int:
    """Return how many values of this shape go to a mask's elements; one goes to all of them."""
    before = _positions(node, 2).index(mask)
    trailing = node.inputs[0].type.ndim - before - node.inputs[mask].type.ndim
    return 1 if len(shape) <= trailing else shape[len(shape) - trailing - 1]


@lowers("tensor.AdvancedSubtensor", "tensor.AdvancedSubtensor1")
def lower_advanced_subtensor(ctx: RuleContext, x: Value, *index: Any) -> Value | Selected:
    """Return ``x[index]``; for a single mask of unknown size, a `Selected`."""
    mask = lone_mask(ctx.node, 1)
    if mask is not None and ctx.static_or_none(mask) is None:
        entries = _with_slices(ctx, index, first=1)
        if ctx.size is not None:
            return fixed_size.select(x, entries, ctx.size)
        counts = ctx.decided([mask], _counts)
        if counts is not None:
            sel.assume_count(index[mask - 1], *counts)
            return fixed_size.select(x, entries, *counts, exact=True)
        return ga.select(x, entries, lambda: _unknown_count(ctx, [mask]))
    return ga.take(x, _entries(ctx, x, index, first=1))


@lowers("tensor.AdvancedSubtensor", "tensor.AdvancedSubtensor1", lazy=Selected)
def lower_advanced_subtensor_by_selected(ctx: RuleContext, x: Any, *index: Any) -> Selected:
    """Return ``x[index]`` for indices selected by one mask, such as ``nonzero(mask)``."""
    first = next(v for v in (x, *index) if isinstance(v, Selected))
    if any(
        not isinstance(i, Selected) or not sel.is_same(i.mask, first.mask) or i.axis for i in index
    ):
        raise first.refuse()
    if any(i.values.dtype == BOOL for i in index):
        raise first.refuse()
    if isinstance(x, Selected):
        raise x.refuse()
    rank = first.mask.ndim
    if indices_of_one(ctx.node, 1) and first.mask.shape == x.shape[:rank]:
        return ga.select(x, [first.mask], first.refuse)
    entries = _entries(ctx, x, [i.values for i in index], first=1)
    return replace(first, values=ga.take(x, entries))


@lowers("tensor.AdvancedIncSubtensor", "tensor.AdvancedIncSubtensor1", lazy=Selected)
def lower_advanced_inc_subtensor_by_selected(
    ctx: RuleContext, x: Any, y: Any, *entries: Any
) -> Value:
    """Write elements selected by a mask where the same mask, or its `nonzero`, selects."""
    selected = next(v for v in (x, y, *entries) if isinstance(v, Selected))
    if indices_of_one(ctx.node, 2) and _fits_selection(x, y, entries[0].mask):
        index = [entries[0].mask]
    elif isinstance(x, Selected) or not isinstance(y, Selected) or lone_mask(ctx.node, 2) is None:
        raise selected.refuse()
    else:
        index = _with_slices(ctx, entries, first=2)
    if isinstance(y, Selected):
        y = replace(y, values=y.values.astype(ctx.dtype))
    else:
        y = y.astype(ctx.dtype)
    return ga.put_where(x, y, index, add=not ctx.op.set_instead_of_inc)


def _fits_selection(x: Value | Selected, y: Value | Selected, mask: Value) -> bool:
    """Return whether a mask covers the first axes of ``x``, and ``y`` broadcasts to a selection."""
    if isinstance(x, Selected):
        return False
    rank, shape = mask.ndim, x.shape  # type: ignore[arg-type]
    own = () if isinstance(y, Selected) else y.shape  # type: ignore[arg-type]
    trailing = len(shape) - rank
    return mask.shape == shape[:rank] and (len(own) <= trailing or own[-trailing - 1] == 1)


@lowers("tensor.AdvancedIncSubtensor", "tensor.AdvancedIncSubtensor1")
def lower_advanced_inc_subtensor(ctx: RuleContext, x: Value, y: Value, *index: Any) -> Value:
    """Return ``x`` with ``x[index]`` replaced by ``y``, or increased by it.

    As in NumPy, an increased boolean is the truth of the sum, so true increased by -1 is false.
    Three cases differ from `numpy.add.at`:

    - If a boolean is increased several times, NumPy takes the truth of each sum, this rule of the
      total.
    - NumPy adds signed integers to uint64 as floats, this rule modulo 2**64.
    - If a vector must broadcast to an index of several axes, NumPy reads beyond the vector.
    """
    add = not ctx.op.set_instead_of_inc
    if add and ctx.dtype == BOOL != y.dtype:
        return ew.truth(_write(ctx, x.astype(y.dtype), y, index, add))
    return _write(ctx, x, y.astype(ctx.dtype), index, add)


def _write(ctx: RuleContext, x: Value, y: Value, index: Sequence[Any], add: bool) -> Value:
    position = lone_mask(ctx.node, 2)
    if position is not None:
        mask, count = index[position - 2], _count_of_values(ctx.node, position, y.shape)
        if count == 1 or mask.static is None:
            if count != 1:
                _require_count(ctx, mask, position, count)
            return ga.put_where(x, y, _with_slices(ctx, index, first=2), add=add)
    entries = _entries(ctx, x, index, first=2)
    if add and getattr(ctx.op, "ignore_duplicates", False):  # As NumPy's ``x[index] += y``.
        y, add = ga.take(x, entries) + y, False
    return ga.put(x, y, entries, add=add)


def _entries(ctx: RuleContext, x: Value, index: Sequence[Any], first: int) -> list[ga.ArrayEntry]:
    """Return the index with masks replaced by their true positions, and check its integers."""
    masks = _mask_entries(ctx, index, first)
    entries: list[ga.ArrayEntry] = [
        entry if entry is None or isinstance(entry, slice) else masks.get(i, _integers(entry))
        for i, entry in enumerate(index, first)
    ]
    shape, bounds = x.shape, _upper_bounds(ctx, entries, first)
    entries = _with_slices(ctx, entries, first)

    def is_unsure(axis: int, entry: Any) -> bool:
        bound = bounds.get(id(entry))
        return bound is None or not is_at_most([bound - shape[axis]], 0)

    by_axis = ga.entries_by_axis(shape, entries)
    check_bounds(ctx, shape, [pair for pair in by_axis if is_unsure(*pair)])
    return entries


def _upper_bounds(ctx: RuleContext, entries: Sequence[ga.ArrayEntry], first: int) -> dict[int, int]:
    """Return the size of the array's axis for entries that are positions in it, by ``id``.

    These are positions from `nonzero`, and from `argsort` of a vector.
    """
    found: dict[int, int] = {}
    for position, entry in enumerate(entries, first):
        if type(entry) is ga.MaskIndices:
            found.update(zip(map(id, entry.arrays), entry.shape, strict=True))
        node, inputs, output = ctx.producer(position) or (None, [], 0)
        if node is None:
            continue
        sorts = is_a(node.op, "tensor.ArgSortOp") and len(inputs[0].shape) == 1
        if sorts or is_a(node.op, "tensor.Nonzero"):
            size = inputs[0].shape[output]
            found.update({} if size is None else {id(entry): size})
    return found


def _integers(entry: Value) -> Value:
    # In NumPy, 2**64 - 1 is -1, except as a scalar index.
    is_wide = entry.dtype == np.uint64 and entry.shape
    return entry.astype(INT64) if is_wide else entry


def _mask_entries(ctx: RuleContext, index: Sequence[Any], first: int) -> dict[int, ga.ArrayEntry]:
    """Return the true positions of masks, by the positions of these inputs.

    Raises
    ------
    StaticShapeError
        The number of true elements depends on an argument without a value.
    """
    masks = [i for i in _masks(ctx.node) if i >= first and index[i - first].shape]
    found: dict[int, Any] = {i: index[i - first].static for i in masks}
    found.update((i, ctx.static_or_none(i)) for i in masks if found[i] is None)
    unknown = [i for i in masks if found[i] is None]
    counts = ctx.decided(unknown, _counts) if unknown else ()
    if counts is None:
        raise _unknown_count(ctx, unknown)
    for i, count in zip(unknown, counts, strict=True):
        mask = index[i - first]
        sel.assume_count(mask, count)
        found[i] = ga.MaskIndices(fixed_size.nonzero(mask, count), mask.shape)
    return found


def _counts(masks: Sequence[Array]) -> tuple[int, ...]:
    """Return how many elements of each mask are not zero."""
    return tuple(int(np.count_nonzero(mask)) for mask in masks)


def _unknown_count(ctx: RuleContext, positions: Sequence[int]) -> JaxprGenError:
    """Return the error for masks whose number of true elements must be known."""
    names, library = " and of ".join(map(ctx.label, positions)), library_of(ctx.op)
    instead = (
        f"keep the shape: {library}.tensor.switch(mask, x, fill), and reduce with the mask as "
    )
    text = f"The number of true elements of {names} decides a shape, and is known only when the "
    return ctx.undecided(positions, f"{text}program runs; {instead}weights. {SIZED}")


def _require_count(ctx: RuleContext, mask: Value, position: int, count: int) -> None:
    if sel.count(mask).static == count:
        return
    label, found = ctx.label(position), sel.count(mask)
    fails = f"There are {count} values to write where {label} is true, which has {{}} true "
    fails += "elements."
    unchecked = (
        f"whether {label} has {count} true elements, as many as there are values to write. If not, "
        "the Op raises ValueError, and this program writes the values in order, and repeats the "
        "last one if there are too few"
    )
    ctx.require(lambda: ew.equal(found, count), ShapeMismatchError, fails, unchecked, found)


@lowers("tensor.Nonzero")
def lower_nonzero(ctx: RuleContext, x: Value) -> Sequence[Value | Selected]:
    """Return the positions of elements other than zero, one array of indices for each axis.

    If only the running program knows how many there are, the arrays are `Selected`.
    """
    value = ctx.static_or_none(0)
    if value is not None:
        return [Value(positions) for positions in np.nonzero(value)]
    if ctx.size is not None:
        return fixed_size.nonzero(x, ctx.size)
    counts = ctx.decided([0], _counts)
    if counts is not None:
        return fixed_size.nonzero(x, *counts)
    return sel.nonzero(ew.truth(x), lambda: _unknown_count(ctx, [0]))


@lowers("tensor.PermuteRowElements")
def lower_permute_row_elements(ctx: RuleContext, x: Value, y: Value, inverse: Value) -> Value:
    """Permute each row of ``x`` by a row of ``y``, or by the inverse permutation."""
    shape = common_shape(x, y)
    rows: list[Any] = [count_along(shape, d) for d in range(len(shape) - 1)]
    if all(n == 1 for n in y.shape[:-1]):  # One permutation for all rows.
        rows, y = [slice(None)] * len(rows), reshape(y, y.shape[-1:])
    index = [*rows, y]
    check_bounds(ctx, shape, [(len(rows), y)])
    x = broadcast_to(x, shape)
    if not ctx.static_int(2):
        return ga.take(x, index)
    return ga.put(full(shape, 0, ctx.dtype), x, index, add=False)


@lowers("tensor.Choose", folds=False)
def lower_choose(ctx: RuleContext, which: Value, choices: Any) -> Value:
    """Return `numpy.choose`: each element from one of several arrays.

    The arrays are a list, or the slices of an array along its first axis.
    """
    if not isinstance(choices, list):
        choices = [ix.take(choices, [i]) for i in range(int(choices.shape[0]))]
    if ctx.op.mode == "raise" and which.static is None:
        count = len(choices)
        ctx.require(
            lambda: within(which, count),
            PositionOutOfBoundsError,
            f"There are {count} arrays to choose from, and none has the number {{}}.",
            f"whether all numbers are below {count}, as many arrays as there are to choose from. "
            "If one is not, the Op raises ValueError, and this program uses the nearest number",
            which,
        )
    return choose(which, choices, ctx.op.mode)
