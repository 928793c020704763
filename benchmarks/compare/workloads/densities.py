"""Log-densities that models share, of arrays or of graph variables."""

from typing import Any

import numpy as np


def standard_normal(lib: Any, z: Any) -> Any:
    """Return the standard normal log-density."""
    return -0.5 * z**2 - 0.5 * np.log(2 * np.pi)


def normal(lib: Any, x: Any, mean: Any, deviation: Any) -> Any:
    """Return the normal log-density; the logarithm of a known deviation is a number."""
    log = np.log if isinstance(deviation, float | np.ndarray) else lib.log
    return standard_normal(lib, (x - mean) / deviation) - log(deviation)


def half_normal(lib: Any, x: Any, scale: float) -> Any:
    """Return the half-normal log-density of a positive number."""
    return standard_normal(lib, x / scale) + np.log(2 / scale)


def half_cauchy(lib: Any, x: Any, scale: float) -> Any:
    """Return the half-Cauchy log-density of a positive number."""
    return np.log(2 / (np.pi * scale)) - lib.log1p((x / scale) ** 2)
