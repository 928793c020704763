"""Rules for `aesara.typed_list`: typed lists are Python lists of values while lowering.

The program itself holds no lists. A rule returns a list inside a list, the list of outputs.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxprgen.emit import elementwise as ew, reduce
from jaxprgen.emit.values import BOOL, Array, Value, full
from jaxprgen.errors import IndexOutOfBoundsError
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.registry import lowers


def _lower_made(make: Callable[..., list[Any]], op_type: str) -> None:
    """Make a function of lists and items, which returns a list, the rule of an Op."""
    lowers(op_type, folds=False)(lambda ctx, *operands: [make(*operands)])


_lower_made(lambda *items: list(items), "typed_list.MakeList")
_lower_made(lambda items, item: [*items, item], "typed_list.Append")
_lower_made(operator.add, "typed_list.Extend")
_lower_made(lambda items: items[::-1], "typed_list.Reverse")


@lowers("typed_list.GetItem", folds=False)
def lower_get_item(ctx: RuleContext, items: list[Any], index: Any) -> list[Any]:
    """Return the item at a static index, or the list of items in a static slice."""
    where = index if isinstance(index, slice) else ctx.static_int(1)
    try:
        return [items[where]]
    except IndexError:
        raise IndexOutOfBoundsError(
            f"Index {where} is out of bounds for a list of {len(items)} items."
        ) from None


@lowers("typed_list.Insert", folds=False)
def lower_insert(ctx: RuleContext, items: list[Any], index: Value, item: Any) -> list[list[Any]]:
    """Return the list with an item inserted before the one at a static index."""
    where = ctx.static_int(1)
    return [[*items[:where], item, *items[where:]]]


@lowers("typed_list.Length", folds=False, shape_only=(0,))
def lower_length(ctx: RuleContext, items: list[Any]) -> Array:
    """Return the number of items, which is static."""
    return np.asarray(len(items), np.int64)


# --- Rules that compare items -------------------------------------------------------------


def _known(item: Any) -> Any:
    """Return an item as NumPy arrays, or None if a part of it is not known."""
    if not isinstance(item, list):
        return item.static
    found = [_known(each) for each in item]  # pyright: ignore[reportUnknownVariableType]
    return None if any(each is None for each in found) else found


def _equal(x: Any, y: Any) -> Value:
    """Return whether two items are equal, as a boolean scalar; NaN equals NaN."""
    if isinstance(x, list):
        pairs = [_equal(*pair) for pair in zip(x, y, strict=False)]
        return functools.reduce(operator.and_, pairs, full((), len(x) == len(y), BOOL))
    if x.shape != y.shape:
        return full((), False, BOOL)
    same = ew.equal(x, y)
    if x.dtype.kind in "fc":
        same = same | ew.isnan(x) & ew.isnan(y)
    return reduce.bitwise_and(same, range(x.ndim))


@lowers("typed_list.Remove", folds=False)
def lower_remove(ctx: RuleContext, items: list[Any], item: Any) -> list[list[Any]]:
    """Return the list without the first item that equals another; its position is decided."""
    both = _known([items, item])
    are_equal = ctx.node.inputs[0].type.ttype.values_eq

    def first_equal(values: Sequence[Any]) -> int:
        found = (i for i, each in enumerate(values[0]) if are_equal(each, values[1]))
        return next(found, len(values[0]))

    where = ctx.decided([0, 1], first_equal) if both is None else first_equal(both)
    if where is None:
        text = "The values of the items decide which one is removed, and are known only when the "
        text += "program runs. Remove an item by its position instead: join the slices before and "
        raise ctx.undecided([0, 1], f"{text}after it.")
    return [items[:where] + items[where + 1 :]]


@lowers("typed_list.Count", folds=False)
def lower_count(ctx: RuleContext, items: list[Any], item: Any) -> Any:
    """Return how many items equal another."""
    both = _known([items, item])
    if both:
        return ctx.evaluate(*both)
    ones = (_equal(each, item).astype(ctx.dtype) for each in items)
    return sum(ones, full((), 0, ctx.dtype))


@lowers("typed_list.Index", folds=False)
def lower_index(ctx: RuleContext, items: list[Any], item: Any) -> Any:
    """Return the position of the first item that equals another; NaN, or -1, if none does."""
    both = _known([items, item])
    if both:
        return ctx.evaluate(*both)
    found = full((), np.nan if ctx.dtype.kind == "f" else -1, ctx.dtype)
    for position in reversed(range(len(items))):
        found = ew.where(_equal(items[position], item), position, found)
    return found
