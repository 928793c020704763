"""What is known of Ops beside rules: which of their inputs decide sizes by their values.

By the qualified names of classes, so that nothing is imported for it; subclasses are included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from aesara.graph.basic import Apply

from jaxprgen.frontend.aesara.advanced_subtensor import MASKED
from jaxprgen.frontend.registry import Positions

T = TypeVar("T")

_COUNTED = "give the graph what it finds as an input, of a size that is fixed"
_STEPPED = (
    "take the last value of what it stacks, or a sum, mean or extremum; or let a fixed number of "
    "steps run, and keep the last value by switch"
)


class Bound(NamedTuple):
    """An Op whose results have sizes that only running it tells.

    ``sizes`` gives the inputs whose values decide them: none if that is more than inputs, None
    if this node has no such results.
    """

    sizes: Callable[[Apply], Sequence[int] | None]
    reason: str
    remedy: str


BOUND: dict[str, Bound] = {
    "aesara.scan.op.Scan": Bound(
        lambda node: () if node.op.info.as_while else None,
        "the number of its steps is decided while it runs, by `until`",
        _STEPPED,
    ),
}

# Of Ops whose rules declare what must be known.
_BY_MASK = Bound(lambda node: (), "", MASKED)
_BY_COUNT = Bound(lambda node: (), "", _COUNTED)
DECLARED: dict[str, Bound] = {
    "aesara.tensor.extra_ops.Unique": _BY_COUNT,
    "aesara.typed_list.basic.Remove": _BY_COUNT,
}

STATIC: dict[str, Positions] = {
    "aesara.tensor.random.op.RandomVariable": (1,),
}


def bound_of(node: Apply) -> Bound | None:
    """The entry of `BOUND`, if there is one and it says that results of the node need it."""
    found = _first(node, BOUND)
    return found if found and found.sizes(node) is not None else None


def remedy_of(node: Apply) -> Bound:
    """What to do about a node whose rule takes known inputs only; mostly these are masks."""
    return _first(node, DECLARED) or _BY_MASK


def static_of(node: Apply) -> Sequence[int]:
    """The inputs of the node whose values decide the sizes of its results."""
    found = _first(node, STATIC) or ()
    return found(node) if callable(found) else found


def _first(node: Apply, table: dict[str, T]) -> T | None:
    names = (f"{base.__module__}.{base.__qualname__}" for base in type(node.op).__mro__)
    return next((table[name] for name in names if name in table), None)
