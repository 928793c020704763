"""Bounds of what a JAX function returns, for all arguments within bounds, by an interpreter.

A value is an `Interval`: an array of lower bounds, one of upper ones, and where NaN may be. The
law: for arguments within theirs, results are within the bounds found, or are a NaN that was
announced, in exact numbers and as XLA computes them. So bounds are moved outwards by `ULPS` units
in the last place of the program's dtype, and by its smallest normal number, below which XLA rounds
to zero; a subnormal number of the program may be off by that much. They are not tight where a
variable is read more than once: of ``x - x`` they are not zero.

R. E. Moore, R. B. Kearfott, M. J. Cloud: Introduction to Interval Analysis, SIAM 2009.
"""

import numpy as np

from intervals import arrays as arrays
from intervals import elementwise as elementwise
from intervals.values import Interval, between, interval

__all__ = ["Interval", "between", "bounds", "interval"]


def bounds(f):
    """The function of intervals that gives those of ``f``; arrays stand for themselves."""
    return np.errstate(all="ignore")(interval(f))
