"""A first-order autoregression with observation noise, as a loop and unrolled, with its gradient.

The mean is a state: nothing but a loop, or as many equations as there are steps, computes it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from compare.workloads.densities import normal


def step(lib: Any, now: Any, mean: Any, phi: Any, sigma: Any) -> tuple[Any, Any]:
    """Return the next mean, and the term of an observation."""
    return phi * mean + 0.1 * now, normal(lib, now, mean, sigma)


def scanned(library: Any, steps: int) -> tuple[list[Any], list[Any]]:
    """Return the graph with the library's loop; observations are a constant."""
    lib, (y, _, _) = library.tensor, arguments(steps)
    phi, sigma = inputs = [lib.dscalar("phi"), lib.dscalar("sigma")]
    _, terms = library.scan(
        lambda *values: step(lib, *values), lib.as_tensor(y), [lib.zeros(()), None], inputs
    )
    value = terms.sum()
    return inputs, [value, *library.grad(value, [phi, sigma])]


def scanned_by_hand(phi: Any, sigma: Any, steps: int) -> Any:
    """Compute it with `jax.lax.scan`."""
    y, _, _ = arguments(steps)

    def density(phi: Any, sigma: Any) -> Any:
        def move(mean: Any, now: Any) -> tuple[Any, Any]:
            return step(jnp, now, mean, phi, sigma)

        return jax.lax.scan(move, jnp.zeros(()), y)[1].sum()

    return jax.value_and_grad(density, (0, 1))(phi, sigma)


def unrolled(library: Any, steps: int) -> tuple[list[Any], list[Any]]:
    """Return the graph that a Python loop builds."""
    lib = library.tensor
    y, phi, sigma = inputs = [lib.dvector("y"), lib.dscalar("phi"), lib.dscalar("sigma")]
    value = density_unrolled(lib, y, phi, sigma, steps)
    return inputs, [value, *library.grad(value, [phi, sigma])]


def density_unrolled(lib: Any, y: Any, phi: Any, sigma: Any, steps: int) -> Any:
    """Compute it with a Python loop."""
    mean, total = 0.0, 0.0
    for i in range(steps):
        mean, term = step(lib, y[i], mean, phi, sigma)
        total = total + term
    return total


def unrolled_by_hand(y: Any, phi: Any, sigma: Any, steps: int) -> Any:
    """Return the value and the gradient."""

    def density(phi: Any, sigma: Any) -> Any:
        return density_unrolled(jnp, y, phi, sigma, steps)

    return jax.value_and_grad(density, (0, 1))(phi, sigma)


def arguments(steps: int) -> tuple[Any, ...]:
    """Return observations, slope and deviation."""
    y = np.random.default_rng(0).normal(size=steps) * 0.5
    return y, np.asarray(0.3), np.asarray(0.6)
