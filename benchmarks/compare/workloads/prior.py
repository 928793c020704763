"""1,000 draws from the prior of eight schools, with data.

A graph that draws once is compiled and mapped over keys; what has no such transformation draws
vectors. Programs draw other numbers: what must agree are quartiles, and those of a compiled graph
are what `jaxprgen.compile` documents, bit for bit.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from compare.workloads.schools import ERRORS

DRAWS = 1000


def drawn(library: Any, shape: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Return this many draws from one random stream."""
    stream = library.stream()
    mu = stream.normal(0, 5, size=shape)
    tau = abs(stream.cauchy(0, 5, size=shape))
    z = stream.normal(0, 1, size=(*shape, 8))
    mean = mu[..., None] + tau[..., None] * z
    return [], [mu, tau, z, stream.normal(mean, ERRORS)]


def graph(library: Any) -> tuple[list[Any], list[Any]]:
    """Return the graph of one draw."""
    return drawn(library, ())


def graph_of_all(library: Any) -> tuple[list[Any], list[Any]]:
    """Return the graph of all draws."""
    return drawn(library, (DRAWS,))


def one(keys: Any) -> Any:
    """Make one draw with `jax.random`."""
    mu = 5 * jax.random.normal(keys[0])
    tau = 5 * jnp.abs(jax.random.cauchy(keys[1]))
    z = jax.random.normal(keys[2], 8)
    return mu, tau, z, mu + tau * z + ERRORS * jax.random.normal(keys[3], 8)


def by_hand(keys: Any) -> Any:
    """Make all draws."""
    return jax.vmap(lambda key: one(jax.random.split(key, 4)))(keys)


def documented(keys: Any) -> Any:
    """Make all draws with the keys that `jaxprgen.compile` documents."""
    fold = jax.random.fold_in
    return jax.vmap(lambda key: one([fold(fold(key, i), 0) for i in range(4)]))(keys)


def arguments() -> tuple[Any, ...]:
    """Return keys."""
    return (jax.random.split(jax.random.key(0), DRAWS),)


def quartiles(results: Any) -> Any:
    """Return the quartiles of each quantity."""
    columns = [np.reshape(x, (DRAWS, -1)) for x in results]
    return np.quantile(np.concatenate(columns, 1), [0.25, 0.5, 0.75], axis=0)


def check(system: str, results: Any, expected: Any) -> None:
    """Check that the results of a system are draws from the prior."""
    if system == "jaxprgen":
        for x, y in zip(results, jax.jit(documented)(*arguments()), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)
    found, due = quartiles(results), quartiles(expected)
    spread = due[2] - due[0]
    # Quartiles of 1,000 draws deviate by a few hundredths of the spread.
    assert np.all(np.abs(found - due) < 0.3 * spread), (found, due)
