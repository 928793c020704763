"""Measure what a call costs above a bare jitted call: ``python benchmarks/calls.py``.

The log-density of the horseshoe logistic regression, by hand with `jax.numpy` under `jax.jit`, and
compiled. All are called in turn, over and over; a figure is the median of the calling thread's time
on the processor, in which nothing waits for the result.
"""

import statistics  # noqa: I001
import time
import warnings
from collections.abc import Callable
from typing import Any

import jaxprgen  # First: it makes Aesara importable.
import aesara
import aesara_graphs as graphs
import jax
import jax.numpy as jnp
import numpy as np

from jaxprgen._jax import sub_jaxprs

jax.config.update("jax_enable_x64", True)


@jax.jit
def by_hand(X: Any, tau: Any, lam: Any, beta: Any, y: Any) -> Any:
    """Return the same log-density, written by hand."""
    eta = X @ beta
    scale = tau * lam
    return (
        jnp.sum(-jax.nn.softplus(jnp.where(y > 0, eta, -eta)))
        + jnp.sum(-0.5 * (beta / scale) ** 2 - jnp.log(scale) - 0.5 * np.log(2 * np.pi))
        + jnp.sum(np.log(2 / np.pi) - jnp.log1p(lam**2))
        + np.log(2 / np.pi)
        - jnp.log1p(tau**2)
    )


def cost(functions: dict[str, Callable[..., Any]], args: Any) -> dict[str, float]:
    """Return the microseconds of a call of each: the median over 400 rounds of ten calls."""
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for f in functions.values():
        jax.block_until_ready(f(*args))
    for _ in range(400):
        for name, f in functions.items():
            start = time.thread_time()
            for _ in range(10):
                result = f(*args)
            taken[name].append((time.thread_time() - start) * 1e5)
            jax.block_until_ready(result)
    return {name: statistics.median(times) for name, times in taken.items()}


def count(jaxpr: Any) -> int:
    """Count the equations of a program and its inner programs."""
    return sum(1 + sum(count(inner) for _, inner in sub_jaxprs(eqn)) for eqn in jaxpr.eqns)


def main() -> None:
    """Print one line for each way to call, for JAX arrays and for NumPy arrays."""
    warnings.simplefilter("ignore")
    (inputs, density), args = graphs.horseshoe(100, 5)
    functions = {
        "by hand, jax.jit": by_hand,
        "jaxprgen.compile": jaxprgen.compile(inputs, density),
        'aesara.function(mode="JAXPR")': aesara.function(inputs, density, mode="JAXPR"),
        "jaxprgen.function": jaxprgen.function(inputs, density),
        'aesara.function(mode="JAX")': aesara.function(inputs, density, mode="JAX"),
    }
    values = [float(f(*args)) for f in functions.values()]
    np.testing.assert_allclose(values, values[0], rtol=1e-12)
    for kind, arrays in (("JAX", [jnp.asarray(x) for x in args]), ("NumPy", args)):
        print(f"\nmicroseconds per call with {kind}'s arrays, and the ratio to the first")
        found = cost(functions, arrays)
        for name, micros in found.items():
            print(f"  {name:32}{micros:8.1f}{micros / found['by hand, jax.jit']:8.2f}")


if __name__ == "__main__":
    main()
