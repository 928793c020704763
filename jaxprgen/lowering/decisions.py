"""What a program depends on that its arguments' types do not tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

Path: TypeAlias = tuple[tuple[Any, Any], ...]
"""The steps that ask for a value, each with the `Lowering` it belongs to: those inside first."""


def where(path: Path) -> str:
    """Several lines that name the nodes of a path, their inputs and the user's lines."""
    return "\n".join(lowering.describe(step) for lowering, step in path)


class ValueNeededError(Exception):
    """Lowering cannot go on without the values of some inputs; caught by the specializer.

    Attributes
    ----------
    inputs
        The positions of the inputs, and behind them shared variables.
    path
        The steps that ask for them.
    node
        The node that is to decide by their values, so that one program does for all arguments
        of which it decides the same; None if the values are to be known.
    """

    def __init__(self, inputs: Sequence[int], path: Path, node: Any = None) -> None:
        super().__init__("The values of inputs are needed.")
        self.inputs = tuple(inputs)
        self.path = path
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
