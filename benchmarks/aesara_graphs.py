"""The graphs that are measured."""

from typing import Any  # noqa: I001

import jaxprgen  # noqa: F401  # First: it makes Aesara importable.
import aesara
import aesara.tensor as at
import numpy as np


def chain(n: int) -> tuple[list[Any], Any]:
    """``n`` operations: tanh(z), z * y, z + 1.5, exp(-z), over and over."""
    z, y = at.dvectors("z", "y")
    inputs = [z, y]
    for i in range(n):
        z = (at.tanh, lambda z: z * y, lambda z: z + 1.5, lambda z: at.exp(-z))[i % 4](z)
    return inputs, z


def logistic(rows: int, columns: int) -> tuple[tuple[list[Any], list[Any]], tuple[Any, ...]]:
    """A logistic log-likelihood with its gradient by `aesara.grad`, and random arguments."""
    X = at.dmatrix("X")
    y, beta = at.dvectors("y", "beta")
    eta = at.dot(X, beta)
    log_likelihood = at.sum(y * eta - at.softplus(eta))
    rng = np.random.default_rng(0)
    args = rng.normal(size=(rows, columns)), rng.integers(0, 2, rows) * 1.0, np.ones(columns)
    return ([X, y, beta], [log_likelihood, aesara.grad(log_likelihood, beta)]), args


def model_with_data(rows: int) -> tuple[list[Any], Any]:
    """A small model that holds ``rows`` × 25 doubles as a constant."""
    w = at.dvector("w")
    data = at.constant(np.random.default_rng(0).normal(size=(rows, 25)))
    return [w], at.sum(at.tanh(at.dot(data, w)) ** 2)
