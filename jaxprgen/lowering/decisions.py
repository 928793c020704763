"""What a program depends on that its arguments' types do not tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class ValueNeededError(Exception):
    """Lowering cannot go on without the values of some inputs; caught by the specializer.

    Without a ``node`` they are to be known. With one no more than what it decides of them is, so
    that one program does for all arguments of which it decides the same.
    """

    def __init__(self, inputs: Sequence[int], where: str, node: Any = None) -> None:
        super().__init__(where)
        self.inputs = tuple(inputs)
        self.where = where
        self.node = node


class Decisions(NamedTuple):
    """What nodes decide of a program by values that the program itself takes as arguments.

    Attributes
    ----------
    nodes
        Those that are to decide: loops of which it has to be known how many steps they take,
        branchings of which it has to be known which branch is taken, and what has as many elements
        as values say, such as what a mask selects.
    values
        The values of arguments that they may ask for, by position.
    found
        What they decided, in the order of lowering; None where arguments do not tell.
    """

    nodes: frozenset[Any]
    values: Mapping[int, Any]
    found: list[Any]
