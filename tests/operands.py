"""Numbers of every dtype to try Ops on."""

from __future__ import annotations

import numpy as np

UNSIGNED = [0, 1, 2, 3, 5, 7, 20]
SIGNED = [*UNSIGNED, -1, -2, -3, -5, -7, -20]
FLOATS = [0.0, -0.0, 1, -1, 0.5, -0.5, 2.5, -3.5, 1.5, 0.25, np.inf, -np.inf, np.nan, 0.75]
COMPLEX = [
    0,
    1,
    -1,
    1j,
    -1j,
    1 + 2j,
    0.5 - 0.25j,
    -2 - 1j,
    0.3 + 0.1j,
    2,
    -0.5j,
    3 - 2j,
    0.25,
    1.5j,
]
NUMBERS = {"b": [True, False], "u": UNSIGNED, "i": SIGNED, "f": FLOATS, "c": COMPLEX}
COUNT = 14


def values(dtype: str, *, limits: bool = False) -> np.ndarray:
    """``COUNT`` numbers of a dtype: small ones of each sign, for floats also infinities and NaN.

    With ``limits`` the last two of integers are the dtype's smallest and largest.
    """
    kind = np.dtype(dtype).kind
    numbers = np.resize(np.array(NUMBERS[kind]), COUNT).astype(dtype)
    if limits and kind in "iu":
        numbers[-2:] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return numbers
