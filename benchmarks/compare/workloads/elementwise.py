"""A chain of elementwise operations: the same text for all libraries."""

from typing import Any

import jax.numpy as jnp
import numpy as np


def chain(lib: Any, z: Any, y: Any, n: int) -> Any:
    """Return a chain of ``n`` operations: tanh(z), z * y, z + 1.5, exp(-z), repeated."""
    for i in range(n):
        z = (lib.tanh, lambda z: z * y, lambda z: z + 1.5, lambda z: lib.exp(-z))[i % 4](z)
    return z


def graph(library: Any, n: int) -> tuple[list[Any], list[Any]]:
    """Return the graph of the chain."""
    z, y = library.tensor.dvectors("z", "y")
    return [z, y], [chain(library.tensor, z, y, n)]


def by_hand(z: Any, y: Any, n: int) -> Any:
    """Compute the chain of JAX arrays."""
    return chain(jnp, z, y, n)


def arguments() -> tuple[Any, ...]:
    """Return two vectors of ten numbers."""
    return np.linspace(0.1, 0.2, 10), np.linspace(0.3, 0.9, 10)
