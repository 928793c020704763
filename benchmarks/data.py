"""Calls of a program whose data decide much: ``python benchmarks/data.py``.

A regression standardizes its matrix of 20,000 × 30 inside the graph. Its value and gradient are
called beside those of a graph that takes the prepared matrix, in turns. Rows have the wall time to
the first number, the median time of a call, and the median of the ratios of neighbouring calls.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import jaxprgen  # First: it makes Aesara importable.  # isort: skip
import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
ROWS, TARGET = rng.normal(3.0, 2.0, size=(20_000, 30)), rng.normal(size=20_000)
STANDARD = (ROWS - ROWS.mean(0)) / ROWS.std(0)
CALLS = 300


def regression(x: Any, *, is_prepared: bool) -> tuple[list[Any], list[Any]]:
    """Return the inputs and outputs of a regression on a matrix."""
    b = at.dvector("b")
    standard = x if is_prepared else (x - x.mean(0)) / x.std(0)
    total = ((TARGET - standard @ b) ** 2).sum()
    return [b], [total, at.grad(total, b)]


def timed(f: Callable[..., Any], *args: Any) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    jax.block_until_ready(f(*args))
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    print(f"jax {jax.__version__}, {jax.default_backend()}\n")
    print("| data | function | first number, ms | call, µs | prepared, µs | ratio |")
    print("|---|---|---|---|---|---|")
    ways: dict[str, Callable[..., Any]] = {
        "`compile`": jaxprgen.compile,
        "`function`": jaxprgen.function,
        'mode "JAXPR"': lambda i, o: aesara.function(i, o, mode="JAXPR"),
    }
    point = jnp.full(30, 0.1)
    for kind, make in {"constant": at.as_tensor, "shared": aesara.shared}.items():
        for name, way in ways.items():
            start = time.perf_counter()
            f = way(*regression(make(ROWS), is_prepared=False))
            jax.block_until_ready(f(point))
            first = time.perf_counter() - start
            g = way(*regression(make(STANDARD), is_prepared=True))
            g(point)
            pairs = [(timed(f, point), timed(g, point)) for _ in range(CALLS)]
            own, other = (statistics.median(times) for times in zip(*pairs, strict=True))
            ratio = statistics.median(x / y for x, y in pairs)
            print(
                f"| {kind} | {name} | {first * 1e3:.0f} | {own * 1e6:.0f} | {other * 1e6:.0f} "
                f"| {ratio:.2f} |"
            )


if __name__ == "__main__":
    main()
