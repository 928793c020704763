"""Parts of typing rules that several families of constructors share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from jaxprgen._jax import Var

Dtype: TypeAlias = np.dtype[Any]
Shape: TypeAlias = tuple[int, ...]
Construct = TypeVar("Construct", bound=Callable[..., Var])

BOOL, INT32 = np.dtype(bool), np.dtype(np.int32)

FLOAT, INEXACT, REAL, NUMBER, DISCRETE, ANY = "f", "fc", "iuf", "iufc", "biu", "biufc"
"""Sets of dtypes, as strings of NumPy's ``dtype.kind``."""


def are_axes(axes: Sequence[int], rank: int) -> bool:
    """Return whether these are distinct axes of an array of that rank, all nonnegative."""
    return len(set(axes)) == len(axes) and all(0 <= d < rank for d in axes)


def named(construct: Construct, name: str, doc: str) -> Construct:
    """Return a constructor that a factory made, with a name and a docstring."""
    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = doc
    return construct
