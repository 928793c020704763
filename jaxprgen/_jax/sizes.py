"""Sizes of axes: integers, or expressions of the symbolic dimensions of `jax.export`.

Arithmetic on symbolic sizes is JAX's. Two expressions are equal if they are so for all sizes. Any
other comparison that does not hold, or fail, for all sizes raises `InconclusiveSizeError`.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from jax._src import core as _core
from jax._src.export import shape_poly as _shape_poly

Size: TypeAlias = Any
"""An integer or a symbolic dimension."""
InconclusiveSizeError = _core.InconclusiveDimensionOperation
is_symbolic = _core.is_symbolic_dim
min_size = _core.min_dim
max_size = _core.max_dim
canonicalize_slice = _core.canonicalize_slice


def is_about_sizes(error: Exception) -> bool:
    """Return whether an error comes from a symbolic size where there has to be a number."""
    return isinstance(error, InconclusiveSizeError) or "_DimExpr" in str(error)


def bound(n: Size) -> float:
    """Return the largest value of a size: infinity, if it is symbolic."""
    return math.inf if is_symbolic(n) else n


dim_as_value_p = _shape_poly.dim_as_value_p
shape_assertion_p = _shape_poly.shape_assertion_p
