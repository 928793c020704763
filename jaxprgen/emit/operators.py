"""The operators of values that may take several equations.

`jaxprgen.emit.values.Value` inherits them. The functions behind them are imported when they are
first needed, because these functions compute with values themselves.
"""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from jaxprgen.emit.values import Value, ValueLike

Entry: TypeAlias = "int | slice | Value | np.ndarray[Any, Any] | EllipsisType | None"
"""An entry of an index."""


class Operators:
    """Powers, remainders, products, shifts of bits, absolute values and indexing, as in NumPy."""

    __slots__ = ()

    def __pow__(self, exponent: ValueLike) -> Value:
        return _power(self, exponent)

    def __rpow__(self, base: ValueLike) -> Value:
        return _power(base, self)

    def __floordiv__(self, other: ValueLike) -> Value:
        return _divided("floor_divide", self, other)

    def __rfloordiv__(self, other: ValueLike) -> Value:
        return _divided("floor_divide", other, self)

    def __mod__(self, other: ValueLike) -> Value:
        return _divided("remainder", self, other)

    def __rmod__(self, other: ValueLike) -> Value:
        return _divided("remainder", other, self)

    def __matmul__(self, other: ValueLike) -> Value:
        return _matmul(self, other)

    def __rmatmul__(self, other: ValueLike) -> Value:
        return _matmul(other, self)

    def __lshift__(self, count: ValueLike) -> Value:
        return _shifted("left_shift", self, count)

    def __rlshift__(self, other: ValueLike) -> Value:
        return _shifted("left_shift", other, self)

    def __rshift__(self, count: ValueLike) -> Value:
        return _shifted("right_shift", self, count)

    def __rrshift__(self, other: ValueLike) -> Value:
        return _shifted("right_shift", other, self)

    def __abs__(self) -> Value:
        from jaxprgen.emit.elementwise import modulus

        x: Any = self
        return modulus(x)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("A Value of a program has no numbers that NumPy could read.")

    def __getitem__(self, index: Entry | tuple[Entry, ...]) -> Value:
        """Return `numpy.ndarray.__getitem__`; a mask must be known.

        An index that is known only at run time is moved into the axis if it is out of bounds.
        """
        from jaxprgen.emit.gather import take

        entries = list(index) if isinstance(index, tuple) else [index]
        x: Any = self
        return take(x, _without_ellipsis(entries, x.ndim))


def _power(x: Any, y: Any) -> Value:
    from jaxprgen.emit import division, values
    from jaxprgen.emit import primitives as lax

    if isinstance(y, int) and isinstance(x, values.Value):
        return lax.integer_pow(x, y=int(y))
    return division.power(*values.alike(x, y))


def _divided(name: str, x: Any, y: Any) -> Value:
    from jaxprgen.emit import division, values

    return getattr(division, name)(*values.alike(x, y))


def _shifted(name: str, x: Any, count: Any) -> Value:
    from jaxprgen.emit import elementwise, values

    x, count = values.alike(x, count)
    if x.dtype == values.BOOL:
        x, count = x.astype(values.INT8), count.astype(values.INT8)
    return getattr(elementwise, name)(x, count)


def _matmul(x: Any, y: Any) -> Value:
    from jaxprgen.emit import linalg, values

    return linalg.matmul(*values.alike(x, y))


def _without_ellipsis(entries: list[Any], rank: int) -> list[Any]:
    """Return the entries with the slices that ``...`` stands for, and lists as arrays."""
    from jaxprgen.emit.values import Value

    entries = [np.asarray(e) if isinstance(e, (list, np.generic)) else e for e in entries]
    at = [i for i, e in enumerate(entries) if e is Ellipsis]
    for i in at[:1]:
        masks = (e.ndim for e in entries if isinstance(e, (Value, np.ndarray)) and e.dtype == bool)
        used = sum(e is not None and e is not Ellipsis for e in entries)
        used += sum(ndim - 1 for ndim in masks)
        entries[i : i + 1] = [slice(None)] * (rank - used)
    return entries
