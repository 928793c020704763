"""The graphs of the benchmarks."""

from typing import Any  # noqa: I001

import jaxprgen  # noqa: F401  # First: it makes Aesara importable.
import aesara
import aesara.tensor as at
import numpy as np


def chain(n: int) -> tuple[list[Any], Any]:
    """Return a chain of ``n`` operations: tanh(z), z * y, z + 1.5, exp(-z), repeated."""
    z, y = at.dvectors("z", "y")
    inputs = [z, y]
    for i in range(n):
        z = (at.tanh, lambda z: z * y, lambda z: z + 1.5, lambda z: at.exp(-z))[i % 4](z)
    return inputs, z


def logistic(rows: int, columns: int) -> tuple[tuple[list[Any], list[Any]], tuple[Any, ...]]:
    """Return a logistic log-likelihood with its gradient, and random arguments."""
    X = at.dmatrix("X")
    y, beta = at.dvectors("y", "beta")
    eta = at.dot(X, beta)
    log_likelihood = at.sum(y * eta - at.softplus(eta))
    rng = np.random.default_rng(0)
    args = rng.normal(size=(rows, columns)), rng.integers(0, 2, rows) * 1.0, np.ones(columns)
    return ([X, y, beta], [log_likelihood, aesara.grad(log_likelihood, beta)]), args


def model_with_data(rows: int) -> tuple[list[Any], Any]:
    """Return a small model that holds ``rows`` × 25 doubles as a constant."""
    w = at.dvector("w")
    data = at.constant(np.random.default_rng(0).normal(size=(rows, 25)))
    return [w], at.sum(at.tanh(at.dot(data, w)) ** 2)


def horseshoe(rows: int, columns: int) -> tuple[tuple[list[Any], Any], tuple[Any, ...]]:
    """Return the log-density of a horseshoe logistic regression, and random arguments."""
    X, (lam, beta, y), tau = at.dmatrix("X"), at.dvectors("lambda", "beta", "y"), at.dscalar("tau")
    eta, scale = at.dot(X, beta), tau * lam
    log_density = (
        at.sum(-at.softplus(at.switch(y > 0, eta, -eta)))
        + at.sum(-0.5 * (beta / scale) ** 2 - at.log(scale) - 0.5 * np.log(2 * np.pi))
        + at.sum(np.log(2 / np.pi) - at.log1p(lam**2))
        + np.log(2 / np.pi)
        - at.log1p(tau**2)
    )
    rng = np.random.default_rng(0)
    beta_value, lam_value = rng.normal(size=columns), np.abs(rng.normal(size=columns)) + 0.1
    args = rng.normal(size=(rows, columns)), np.asarray(0.5), lam_value, beta_value
    return ([X, tau, lam, beta, y], log_density), (*args, rng.integers(0, 2, rows) * 1.0)
