"""Lazy values: arrays that a program may never need.

A graph may read only the last row of a loop's results, or only the sum of the elements that a mask
selects. Such results are lazy. A rule that can use a lazy value is registered for it by
``lowers(..., lazy=)``. Every other rule gets the array, which is emitted once, when it is first
needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxprgen.emit.values import Shape, Value


class Lazy:
    """An array that is not part of the program yet.

    Attributes
    ----------
    dtype
        The dtype: a field, or a property.
    shape
        The sizes, a tuple with None for a size that only the running program knows.
    refuse
        Returns the error for a graph that needs a size that only the running program knows.
    """

    dtype: Any
    shape: Any
    refuse: Callable[[], Exception]

    def static_shape(self) -> Shape:
        """Return the sizes.

        Raises
        ------
        Exception
            The error of `refuse`: a size is not known.
        """
        sizes = tuple(n for n in self.shape if n is not None)
        if len(sizes) < len(self.shape):
            raise self.refuse()
        return sizes

    def force(self) -> Value | Lazy:
        """Return the array, emitted once, or another lazy value that stands for it.

        Raises
        ------
        Exception
            The error of `refuse`: only the running program knows the number of elements.
        """
        raise NotImplementedError


def forced(x: Any) -> Any:
    """Return a lazy value as an array, and anything else unchanged.

    Raises
    ------
    Exception
        The error of `Lazy.refuse`.
    """
    while isinstance(x, Lazy):
        x = x.force()
    return x
