"""Measure the constants of `jaxprgen.passes.CostModel`: ``python benchmarks/costs.py``.

Each constant is the difference between two programs that differ in little else, divided by the
number of what they differ in. Times of calls are the shortest of several hundred.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprgen.passes import CostModel

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    """Return small random numbers."""
    return jnp.asarray(0.1 * rng.normal(size=shape))


def measured(f: Callable[..., Any], *args: Any) -> tuple[float, float]:
    """Return the seconds to compile a function, and of a call."""
    lowered = jax.jit(f).lower(*args)
    start = time.perf_counter()
    compiled = lowered.compile()
    compiling = time.perf_counter() - start
    calls: list[float] = []
    for _ in range(300):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*args))
        calls.append(time.perf_counter() - start)
    return compiling, min(calls)


def sums(n: int, makes_alike: bool) -> Callable[..., Any]:
    """Return ``n`` sums of functions of matrices, which are alike or differ in a number."""
    numbers = [0.5 if makes_alike else 0.01 * i for i in range(n)]
    return lambda xs: [jnp.exp(c * x).sum() for c, x in zip(numbers, xs, strict=True)]


def recurrent(n: int) -> Callable[..., Any]:
    """Return a recurrence of ``n`` products with a matrix, written out."""

    def f(w: Any, x: Any) -> Any:
        for _ in range(n):
            x = jnp.tanh(w @ x)
        return x

    return f


def looped(n: int) -> Callable[..., Any]:
    """Return the same as a loop."""
    return lambda w, x: jax.lax.fori_loop(0, n, lambda _, x: jnp.tanh(w @ x), x)


def stepped(inside: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loop whose steps compute a function of a row."""

    def f(w: Any, x: Any) -> Any:
        return jax.lax.scan(lambda h, row: (0.5 * h + inside(w, row), None), 0 * x[0], x)[0]

    return f


def beside(outside: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same, with the function of all rows computed before the loop."""

    def f(w: Any, x: Any) -> Any:
        rows = jax.lax.optimization_barrier(outside(w, x))
        return jax.lax.scan(lambda h, row: (0.5 * h + row, None), 0 * x[0], rows)[0]

    return f


def constants() -> dict[str, float]:
    """Measure all constants."""
    w, v = normal(16, 16), normal(16)
    matrices = [normal(8, 8) for _ in range(400)]
    few, many = (measured(sums(n, makes_alike=True), matrices[:n])[0] for n in (100, 400))
    fewer_kinds, kinds = (measured(sums(n, makes_alike=False), matrices[:n])[0] for n in (20, 60))
    fewer, more = (measured(recurrent(n), w, v) for n in (20, 60))
    short, long = (measured(looped(n), w, v) for n in (1_000, 11_000))
    plain = [measured(lambda x, n=n: jax.lax.fori_loop(0, n, lambda i, h: h + x, x), v[0])
             for n in (1_000, 101_000)]  # fmt: skip
    pieces = [normal(4096) for _ in range(100)]
    joined = measured(lambda xs: jnp.concatenate(xs), pieces)
    untouched = measured(lambda xs: xs[0] + 1, pieces)
    parts = [measured(lambda x: [row + 1 for row in x], normal(100, n))[1] for n in (1, 4096)]
    row, terms = normal(16_384), normal(30)
    fused = measured(lambda x, c: sum(c[i] * x for i in range(30)), row, terms)
    apart = measured(lambda x, c: jax.lax.optimization_barrier(c[:, None] * x).sum(0), row, terms)
    steps = 2_000
    product, cheap = normal(32, 32), normal(6)
    in_steps = measured(stepped(lambda w, r: w @ r), product, normal(steps, 32))
    at_once = measured(beside(lambda w, x: x @ w.T), product, normal(steps, 32))
    slow_in_steps = measured(stepped(lambda w, r: jnp.exp(r)), cheap, normal(steps, 6))
    slow_at_once = measured(beside(lambda w, x: jnp.exp(x)), cheap, normal(steps, 6))
    large = normal(400, 400)
    products = measured(lambda a, b: a @ b, large, large)[1]
    tiny = [measured(g(lambda w, x: x + 1), cheap, normal(400, 6))[1] for g in (stepped, beside)]
    return {
        "compile_kernel": (kinds - fewer_kinds) / 40,
        "compile_equation": few / 300,
        "compile_pair": (many - 4 * few) / (1200**2 - 4 * 300**2),
        "kernel": (more[1] - fewer[1]) / 40 - (long[1] - short[1]) / 10_000,
        "step": (plain[1][1] - plain[0][1]) / 100_000,
        "byte_in": (joined[1] - untouched[1]) / (100 * 4096 * 8),
        "byte_out": (parts[1] - parts[0]) / (100 * 4095 * 8),
        "row_out": parts[0] / 100,
        "element": (apart[1] - fused[1]) / (30 * 16_384),
        "together": tiny[1] - tiny[0],
        "kernel_in_step": (in_steps[1] - at_once[1]) / steps,
        "slow_in_step": (slow_in_steps[1] - slow_at_once[1]) / (6 * steps),
        "product": products / 400**3,
    }


def main() -> None:
    """Print the constants that were measured, beside those of the table."""
    platform = jax.default_backend()
    print(f"jax {jax.__version__}, {platform}; seconds\n")
    print("| constant | measured | in the table |")
    print("|---|---|---|")
    known = CostModel(platform=platform).constants._asdict()
    for name, found in constants().items():
        print(f"| {name} | {found:.2g} | {known[name]:.2g} |")


if __name__ == "__main__":
    main()
