"""Measure the cost and the quality of draws by NUTS: ``python benchmarks/samplers.py``.

The model is eight schools, as in examples/kernels.py. Three samplers draw from it: aehmc's NUTS as
one JAX program, the same graph as an Aesara function in its default mode, and BlackJAX's NUTS with
the same log-density. All use one step size, a unit mass matrix and at most ten doublings.

Each chain makes 1,000 transitions of warm-up and five runs of 1,000 draws; the time is the median
run. Aesara runs one chain, with 20 and 200 draws. It compiles to C if it finds a working compiler:
not on NumPy 2, and not with ``AESARA_FLAGS=cxx=``. R-hat is split over four chains and not
rank-normalized.
"""

import statistics  # noqa: I001
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxprgen  # First: it makes Aesara importable.
import aehmc.nuts
import aesara
import aesara.tensor as at
import blackjax
import jax
import numpy as np
from calls import count
from numpyro.diagnostics import split_gelman_rubin

sys.path.append(str(Path(__file__).parents[1] / "examples"))
import kernels

CHAINS, DRAWS, RUNS = 4, 1_000, 5
SIZE = kernels.SIZES["NUTS"]
Move = Callable[[Any, Any], tuple[Any, Any]]
"""A transition: from a state and a key to the next state and its position."""


def run(name: str, move: Move, starts: Any) -> tuple[float, Any]:
    """Return the seconds per draw of chains from these states, and their positions."""

    def chain(state: Any, key: Any) -> Any:
        return jax.lax.scan(move, state, jax.random.split(key, DRAWS))

    chains = len(jax.tree.leaves(starts)[0])
    keys = [jax.random.split(key, chains) for key in jax.random.split(jax.random.key(1), RUNS + 1)]
    start = time.perf_counter()
    program = jax.jit(jax.vmap(chain)).lower(starts, keys[0]).compile()
    compiling = time.perf_counter() - start
    states, _ = program(starts, keys[0])
    taken, found = [], []
    for key in keys[1:]:
        start = time.perf_counter()
        states, positions = jax.block_until_ready(program(states, key))
        taken.append((time.perf_counter() - start) / (chains * DRAWS))
        found.append(np.asarray(positions))
    print_row(name, chains, compiling, statistics.median(taken))
    return statistics.median(taken), found[0]


def run_aesara(graph: Any, start: Any) -> float:
    """Return the seconds per draw of one chain in Aesara's default mode."""
    inputs, output, updates = graph
    began = time.perf_counter()
    step = aesara.function(inputs, output, updates=updates)
    compiling = time.perf_counter() - began
    position = start
    for draws in (20, 200):
        began = time.perf_counter()
        for _ in range(draws):
            position = step(position, SIZE)
        seconds = (time.perf_counter() - began) / draws
    compiler = aesara.config.cxx or "no C compiler"
    print_row(f"aehmc, Aesara ({compiler})", 1, compiling, seconds)
    return seconds


def print_row(name: str, chains: int, compiling: float, seconds: float) -> None:
    """Print a line of the table."""
    print(f"{name:36}{chains:8}{compiling:14.1f}{seconds * 1e6:18.1f}", flush=True)


def diagnose(positions: Any) -> dict[str, float]:
    """Return the split R-hat of each quantity."""
    parts = 5 * positions[..., 0], positions[..., 1], positions[..., 2:]
    draws = kernels.quantities(parts)
    rows = enumerate(kernels.NAMES)
    return {name: float(split_gelman_rubin(draws[..., i])) for i, name in rows}


def main() -> None:
    """Print a line for each sampler, ratios, and diagnostics for each quantity."""
    warnings.simplefilter("ignore")
    starts = jax.random.normal(jax.random.key(0), (CHAINS, 10))
    graph = kernels.transition(aehmc.nuts)
    step = jaxprgen.compile(*graph[:2])
    program = step.jaxpr(jax.random.key(0), starts[0], SIZE).jaxpr
    print(f"aehmc's NUTS is one program of {len(program.eqns)} equations,", end=" ")
    print(f"{count(program)} with those of its loops and branches.\n")

    q = at.dvector("q")
    logdensity = jaxprgen.compile([q], kernels.log_density(q))
    other = blackjax.nuts(logdensity, SIZE, np.ones(10))

    def by_aehmc(q: Any, key: Any) -> tuple[Any, Any]:
        q = step(key, q, SIZE)
        return q, q

    def by_blackjax(state: Any, key: Any) -> tuple[Any, Any]:
        state, _ = other.step(key, state)
        return state, state.position

    print(f"{'':36}{'chains':>8}{'s to compile':>14}{'µs per draw':>18}")
    states = jax.vmap(other.init)(starts)
    _, theirs = run("BlackJAX", by_blackjax, states)
    four, ours = run("aehmc, jaxprgen", by_aehmc, starts)
    one, _ = run("aehmc, jaxprgen", by_aehmc, starts[:1])
    aesara_seconds = run_aesara(graph, np.asarray(starts[0]))
    print(f"\nAesara's time is {aesara_seconds / one:.0f} times that of one chain, and", end=" ")
    print(f"{aesara_seconds / four:.0f} times that of a draw of four.")
    rows = zip(diagnose(ours).items(), diagnose(theirs).values(), strict=True)
    print(f"\n{'split R-hat of':16}{'aehmc':>10}{'BlackJAX':>10}")
    for (name, value), reference in rows:
        print(f"{name:16}{value:10.4f}{reference:10.4f}")


if __name__ == "__main__":
    main()
