"""Values of special functions by mpmath at 60 digits or more, stored in special_values.csv.

A row is the function, its arguments and its value; ``_der_a`` and the like are derivatives, by
central differences with steps of 1e-18 and less.
"""

from pathlib import Path

import numpy as np
from profiles import is_deep

_LINES = Path(__file__).with_name("special_values.csv").read_text().splitlines()


def stored(function: str) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the arguments of a function, one array for each, and its values.

    A quick run gets one row in four.
    """
    rows = whole(function)
    *args, values = (rows if is_deep() else rows[::4]).T
    return args, values


def whole(function: str) -> np.ndarray:
    """Return all rows of a function, without its name."""
    rows = [line.split(",")[1:] for line in _LINES if line.startswith(f"{function},")]
    assert len(rows) >= 10, f"the table of {function} is cut off"
    return np.array(rows, "float64")


def assert_close(ours, theirs, rtol, args, floor=0.0):
    """Relative errors at most ``rtol``, below ``floor`` relative to that; tells the worst place."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(all="ignore"):
        error = np.abs(ours - theirs) / np.maximum(np.abs(theirs), floor)
    error = np.where(same, 0, np.where(np.isnan(error), np.inf, error))
    worst = np.argmax(error)
    place = [x[worst] for x in args]
    assert error[worst] <= rtol, (
        f"{error[worst]:.1e} at {place}: {ours[worst]}, not {theirs[worst]}"
    )
