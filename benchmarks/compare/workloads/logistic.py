"""The log-likelihood of a logistic regression, 1,000 rows of 20, and its gradient."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

ROWS, COLUMNS = 1000, 20


def graph(library: Any) -> tuple[list[Any], list[Any]]:
    """Return the value, and the gradient with respect to the coefficients."""
    lib = library.tensor
    X = lib.dmatrix("X")
    y, beta = lib.dvectors("y", "beta")
    eta = lib.dot(X, beta)
    value = lib.sum(y * eta - lib.softplus(eta))
    return [X, y, beta], [value, library.grad(value, beta)]


def density(X: Any, y: Any, beta: Any) -> Any:
    """Compute the log-likelihood in `jax.numpy`."""
    eta = X @ beta
    return jnp.sum(y * eta - jax.nn.softplus(eta))


by_hand = jax.value_and_grad(density, 2)


def arguments(rows: int = ROWS) -> tuple[Any, ...]:
    """Return random data, and coefficients."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, COLUMNS))
    return X, rng.integers(0, 2, rows) * 1.0, np.linspace(-1, 1, COLUMNS)
