"""What the typing rules share: kinds of dtypes, and a check of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Dtype = np.dtype[Any]
Shape = tuple[int, ...]

BOOL, INT32 = np.dtype(bool), np.dtype(np.int32)
FLOAT, INEXACT, REAL, NUMBER, DISCRETE, ANY = "f", "fc", "iuf", "iufc", "biu", "biufc"


def are_axes(axes: Sequence[int], rank: int) -> bool:
    """Whether these are different axes of an array of that rank, none counted from the end."""
    return len(set(axes)) == len(axes) and all(0 <= d < rank for d in axes)
