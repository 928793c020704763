"""Values that change from one step of a loop to the next, where the loop's sequences are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen.errors import StaticShapeError


class Row(NamedTuple):
    """An input of a step's graph that is a row of an input of the loop, by its position."""

    position: int


class EachStep(NamedTuple):
    """The values that one variable has in the steps of a loop, one after the other."""

    loop: Any
    values: Sequence[Any]


def by_step(values: Sequence[Any]) -> list[list[Any]]:
    """Return the values of variables in each step; one list if none of them changes."""
    lengths = [len(x.values) for x in values if type(x) is EachStep]
    return [
        [x.values[i] if type(x) is EachStep else x for x in values]
        for i in range(lengths[0] if lengths else 1)
    ]


def changes() -> StaticShapeError:
    """Return the error of a value that changes, and is not known."""
    return StaticShapeError(
        "A shape depends on a value that changes from one step of a loop to the next, and is not "
        "known while the program is emitted.\nMake all that the loop gives of one shape: compute "
        "with as much as there can be, and mask the rest."
    )


def compute(
    function: Callable[[dict[int, Any]], dict[int, Any]],
    given: Mapping[int, Any],
    targets: Sequence[int],
) -> dict[int, Any]:
    """Return what a function makes of values, in each step if some of them change.

    Raises
    ------
    StaticShapeError
        Values change from step to step of several loops.
    """
    changing = {place: x for place, x in given.items() if type(x) is EachStep}
    if not changing:
        return function(dict(given))
    loop, *others = {x.loop for x in changing.values()}
    if others:
        raise changes()
    known: dict[Any, dict[int, Any]] = {}  # Many steps may have the same values.
    found: list[dict[int, Any]] = []
    for row in by_step([*changing.values()]):
        key = tuple(np.asarray(x).tobytes() for x in row)
        if key not in known:
            own = dict(zip(changing, map(np.asarray, row), strict=True))
            known[key] = function({**given, **own})
        found.append(known[key])
    return {place: EachStep(loop, [x[place] for x in found]) for place in targets}
