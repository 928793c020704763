"""Parts of an array before or after a place that only the running program knows.

The size of neither is known. Joined again, in either order, they have that of the array: `roll` is
written like this.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from jaxprgen._jax import Size
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import index as ix
from jaxprgen.emit.lazy import Lazy
from jaxprgen.emit.shape import concatenate
from jaxprgen.emit.values import INT64, Dtype, Shape, Value


@dataclass(frozen=True, eq=False)
class Cut(Lazy):
    """``x[place:]`` or, of a head, ``x[:place]``, along one axis.

    ``key`` is equal for cuts of one array at one place. ``take`` returns the part, or raises.
    """

    x: Value
    axis: int
    place: Value
    is_head: bool
    key: Hashable
    take: Callable[[], Value]

    @property
    def dtype(self) -> Dtype:
        """Return the dtype."""
        return self.x.dtype

    @property
    def shape(self) -> tuple[Size | None, ...]:
        """Return the sizes, with None for the one that is not known."""
        return tuple(None if d == self.axis else n for d, n in enumerate(self.x.shape))

    def static_shape(self) -> Shape:
        """Return the sizes, or raise the error of the one that is not known."""
        return self.take().shape

    def force(self) -> Value:
        """Return the part, or raise the error of a size that is not known."""
        return self.take()

    def joined(self) -> Value:
        """Return this part followed by the rest of ``x``."""
        size = self.x.shape[self.axis]
        if self.is_head or not size:
            return self.x
        place = self.place.astype(ew.canonical(INT64))
        start = ew.minimum(ew.maximum(ew.where(place < 0, place + size, place), 0), size)
        index = [*[slice(None)] * self.axis, ix.DynamicSlice(start, int(size))]
        return ix.take(concatenate([self.x, self.x], self.axis), index)
