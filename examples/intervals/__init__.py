"""Bound the results of a JAX function for all arguments within bounds, with an interpreter.

A value is an `Interval`: arrays of lower and upper bounds, and where NaN is possible. The law: for
arguments within their bounds, each result is within its bounds or is a NaN marked as possible. This
holds for exact numbers and for numbers as XLA computes them. Therefore bounds are widened by `ULPS`
units in the last place of the program's dtype, and by its smallest normal number, below which XLA
rounds to zero. Bounds are not tight if a variable is read more than once: those of ``x - x`` are
not zero.

R. E. Moore, R. B. Kearfott, M. J. Cloud: Introduction to Interval Analysis, SIAM 2009.
"""

import numpy as np

from intervals import arrays as arrays, elementwise as elementwise
from intervals.values import Interval, between, interval

__all__ = ["Interval", "between", "bounds", "interval"]


def bounds(f):
    """Return ``f`` as a function from intervals to intervals; it takes arrays as well."""
    return np.errstate(all="ignore")(interval(f))
