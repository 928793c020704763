"""500 separate scalars with normal priors: the log-density and its gradient."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from compare.workloads.densities import normal

COUNT = 500


def density(lib: Any, parameters: Any) -> Any:
    """Return the log-density, term by term."""
    terms = (normal(lib, x, 0.01 * i, 2.0) for i, x in enumerate(parameters))
    return sum(terms, start=0.0)


def graph(library: Any) -> tuple[list[Any], list[Any]]:
    """Return the log-density, and its gradient with respect to all scalars."""
    inputs = [library.tensor.dscalar(f"x{i}") for i in range(COUNT)]
    value = density(library.tensor, inputs)
    return inputs, [value, *library.grad(value, inputs)]


def by_hand(*parameters: Any) -> Any:
    """Compute the same in `jax.numpy`."""
    return jax.value_and_grad(lambda parameters: density(jnp, parameters))(parameters)


def arguments() -> tuple[Any, ...]:
    """Return random numbers."""
    return tuple(map(np.asarray, np.random.default_rng(0).normal(size=COUNT)))
