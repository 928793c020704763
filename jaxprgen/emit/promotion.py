"""The common shape and the common dtype of operands, as in NumPy."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from jaxprgen._jax import Size
from jaxprgen.emit.sizes import require_equal
from jaxprgen.errors import ShapeMismatchError

_LEVELS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_DEFAULTS = {"i": np.int64, "u": np.int64, "f": np.float64, "c": np.complex128}


def promoted_dtype(dtypes: Collection[np.dtype[Any]], kinds: Collection[str]) -> np.dtype[Any]:
    """Return the dtype to which NumPy promotes arrays and Python numbers.

    Parameters
    ----------
    dtypes : collection of dtype
        The dtypes of the arrays.
    kinds : collection of str
        The kinds of the numbers, as `numpy.dtype.kind`. They matter if they are above those of the
        arrays: booleans, integers, floats, complex numbers.
    """
    dtype = np.result_type(*dtypes) if len(dtypes) > 1 else next(iter(dtypes))
    level = _LEVELS.get(dtype.kind, 2)
    highest = max(kinds, key=lambda kind: _LEVELS[kind], default="b")
    if _LEVELS[highest] <= level:
        return dtype
    if dtype.kind == "f":
        return np.result_type(dtype, np.complex64)
    return np.dtype(_DEFAULTS[highest])


def broadcast_shapes(*shapes: tuple[Size, ...]) -> tuple[Size, ...]:
    """Return the common shape, as `numpy.broadcast_shapes`, or raise a ShapeMismatchError.

    A symbolic size does not broadcast. It is taken to equal the size that it meets.
    """

    def fails() -> ShapeMismatchError:
        text = " and ".join(map(str, dict.fromkeys(shapes)))
        return ShapeMismatchError(f"Shapes {text} do not broadcast together.")

    rank = max(map(len, shapes))
    result: list[Size] = [1] * rank
    for shape in shapes:
        for axis, n in enumerate(shape, rank - len(shape)):
            if n != 1 and result[axis] != n:
                if result[axis] != 1:
                    require_equal(result[axis], n, fails)
                if type(result[axis]) is not int or result[axis] == 1:
                    result[axis] = n
    return tuple(result)
