"""Logarithms of densities that models share: of arrays, or of a graph library's variables."""

from typing import Any

import numpy as np


def standard_normal(lib: Any, z: Any) -> Any:
    """The standard normal distribution's."""
    return -0.5 * z**2 - 0.5 * np.log(2 * np.pi)


def normal(lib: Any, x: Any, mean: Any, deviation: Any) -> Any:
    """The normal distribution's. The logarithm of a known deviation is known."""
    log = np.log if isinstance(deviation, float | np.ndarray) else lib.log
    return standard_normal(lib, (x - mean) / deviation) - log(deviation)


def half_normal(lib: Any, x: Any, scale: float) -> Any:
    """The half-normal distribution's, of a positive number."""
    return standard_normal(lib, x / scale) + np.log(2 / scale)


def half_cauchy(lib: Any, x: Any, scale: float) -> Any:
    """The half-Cauchy distribution's, of a positive number."""
    return np.log(2 / (np.pi * scale)) - lib.log1p((x / scale) ** 2)
