"""Lazy values: arrays that a program may never need.

A loop leaves rows of which the graph may read only the last one, and a mask selects elements that
the graph may only sum up. Such results are lazy. A rule that can use one as it is, is registered
for it by ``lowers(..., lazy=)``; every other rule gets the array, which is emitted once, when it is
first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprgen.emit.values import Dtype, Shape, Value


class Lazy:
    """An array that is not part of the program yet.

    Attributes
    ----------
    refuse
        Gives the error for a graph that needs a size that only the running program knows.
    """

    refuse: Callable[[], Exception]

    @property
    def dtype(self) -> Dtype:
        """The dtype."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes; None for one that only the running program knows."""
        raise NotImplementedError

    def static_shape(self) -> Shape:
        """The sizes.

        Raises
        ------
        Exception
            The error that `refuse` gives: one of them is not known.
        """
        sizes = tuple(n for n in self.shape if n is not None)
        if len(sizes) < len(self.shape):
            raise self.refuse()
        return sizes

    def force(self) -> Value | Lazy:
        """The array, emitted now unless it was before; or another lazy value that stands for it.

        Raises
        ------
        Exception
            The error that `refuse` gives: only the running program knows how many elements there
            are.
        """
        raise NotImplementedError


def forced(x: Any) -> Any:
    """A lazy value as an array; whatever else as it is.

    Raises
    ------
    Exception
        The error that `Lazy.refuse` gives.
    """
    while isinstance(x, Lazy):
        x = x.force()
    return x
