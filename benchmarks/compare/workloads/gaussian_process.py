"""A Gaussian process of 200 points: the log-likelihood of its kernel, and the gradient.

The parameters are the logarithms of the kernel's length and of the noise's variance.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np

POINTS = 200


def data() -> tuple[Any, Any]:
    """Return the places of observations, and the observations."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, POINTS))
    return x, np.sin(x) + 0.3 * rng.normal(size=POINTS)


X, Y = data()
SQUARES = (X[:, None] - X) ** 2


def graph(library: Any) -> tuple[list[Any], list[Any]]:
    """Return the log-likelihood, and its gradient with respect to both parameters."""
    lib, linalg = library.tensor, library.linalg
    inputs = log_length, log_noise = [lib.dscalar("log_length"), lib.dscalar("log_noise")]
    kernel = lib.exp(-0.5 * SQUARES / lib.exp(log_length) ** 2)
    root = linalg.cholesky(kernel + lib.exp(log_noise) * lib.eye(POINTS))
    z = linalg.solve_triangular(root, lib.as_tensor(Y), lower=True)
    value = -0.5 * lib.sum(z**2) - lib.sum(lib.log(lib.diag(root))) - CONSTANT
    return inputs, [value, *library.grad(value, inputs)]


CONSTANT = 0.5 * POINTS * np.log(2 * np.pi)


def density(log_length: Any, log_noise: Any) -> Any:
    """Compute the log-likelihood in `jax.numpy`."""
    kernel = jnp.exp(-0.5 * SQUARES / jnp.exp(log_length) ** 2)
    root = jnp.linalg.cholesky(kernel + jnp.exp(log_noise) * jnp.eye(POINTS))
    z = jax.scipy.linalg.solve_triangular(root, Y, lower=True)
    return -0.5 * jnp.sum(z**2) - jnp.sum(jnp.log(jnp.diag(root))) - CONSTANT


by_hand = jax.value_and_grad(density, (0, 1))


def arguments() -> tuple[Any, ...]:
    """Return a point."""
    return np.asarray(0.1), np.asarray(-2.0)
