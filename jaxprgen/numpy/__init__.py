"""NumPy's functions on values of a program: the vocabulary of rules.

Functions have the names, the arguments, the meaning and the dtypes of NumPy's, but no ``out`` and
``where``. They append equations to the program of the rule that calls them (or of the innermost
``with builder:``), and nothing is traced. Operands are values, arrays and Python numbers. Shapes
and axes are Python integers. Where x64 is off, results have 32 bits.

`linalg` has functions of `numpy.linalg` and `scipy.linalg`, `fft` those of `numpy.fft`, and
`special` those of `scipy.special`.
"""

# Used as a namespace: ``from jaxprgen import numpy as jp``.
from jaxprgen.numpy import fft as fft
from jaxprgen.numpy import linalg as linalg
from jaxprgen.numpy import special as special
from jaxprgen.numpy.arrays import *  # noqa: F403
from jaxprgen.numpy.products import *  # noqa: F403
from jaxprgen.numpy.quantiles import *  # noqa: F403
from jaxprgen.numpy.reductions import *  # noqa: F403
from jaxprgen.numpy.ufuncs import *  # noqa: F403
