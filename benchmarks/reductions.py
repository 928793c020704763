"""Measure loops whose results are only reduced: ``python benchmarks/reductions.py``.

- A mean of squares over 1,000 steps of 4,096 single-precision numbers, and its gradient: as JAX
  writes the program, with `ReduceInScan`, and with `DEFAULT` before it, which removes unnecessary
  loops. The table has the bytes of XLA's intermediate results and the median milliseconds of runs
  in turn.
- Linear recurrences, as loops and with `AssociativeScan`.
- A small program of the first kind and its gradient, before and after: the number of arrays over
  all steps, the bytes of intermediate results, and the difference of the values.
"""

import statistics  # noqa: I001
import time
from collections.abc import Callable
from typing import Any

import jaxprgen
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxprgen._jax import sub_jaxprs
from jaxprgen.passes import DEFAULT, AssociativeScan, ReduceInScan

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_cpu_enable_async_dispatch", False)

STEPS, WIDTH, ROUNDS = 1000, 4096, 21
REDUCED, ASSOCIATIVE = (ReduceInScan(reassociate=True),), (AssociativeScan(reassociate=True),)
WAYS = {"": REDUCED, "*": (*DEFAULT, *REDUCED)}


def squares(step: Callable[..., Any], start: Any) -> Callable[..., Any]:
    """Return the mean squared difference between a loop's stacked rows and data."""

    def f(x1: Any, x2: Any, y: Any) -> Any:
        rows = lax.scan(lambda c, row: step(c, row, x1), start, x2)[1]
        return jnp.square(y - rows).mean()

    return f


def amplitude(c: Any, row: Any, x1: Any) -> Any:
    """Return a step whose amplitude follows a recurrence."""
    c = 0.9 * c + row
    return c, c * x1


def state(c: Any, row: Any, x1: Any) -> Any:
    """Return a step whose state is the whole row."""
    c = 0.9 * c + row * x1
    return c, c


def cosines(c: Any, row: Any, x1: Any) -> Any:
    """Return the step of https://github.com/jax-ml/jax/issues/4968, whose carry is unused."""
    return jnp.sin(c), jnp.cos(row)


def contraction(c: Any, row: Any, x1: Any) -> Any:
    """Return a product of a matrix with each row, without a state."""
    return c, x1 @ row


def issue(x1: Any, x2: Any, y: Any) -> Any:
    """Return the same, starting with an array."""
    return squares(cosines, x1)(x1, x2, y)


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    """Return normal numbers."""
    return jnp.asarray(np.random.default_rng(0).normal(size=shape).astype(dtype))


def beside(f: Callable[..., Any], passes: Any, args: Any) -> list[tuple[int, float]]:
    """Return the bytes and milliseconds of a function before and after passes."""
    functions = [jax.jit(g).lower(*args).compile() for g in (f, jaxprgen.transform(f, *passes))]
    first, second = (jax.tree.leaves(g(*args)) for g in functions)
    for x, y in zip(first, second, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
    taken: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for g, times in zip(functions, taken, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(g(*args))
            times.append(1e3 * (time.perf_counter() - start))
    sizes = [g.memory_analysis().temp_size_in_bytes for g in functions]
    return list(zip(sizes, map(statistics.median, taken), strict=True))


def line(name: str, way: str, found: list[tuple[int, float]]) -> None:
    """Print the figures of a program."""
    (size, slow), (less, fast) = found
    print(
        f"{name:24}{way:7}{size:>11,}{less:>11,}{f'{size / less:.1f}' if less else 'all':>8}"
        f"{slow:9.2f}{fast:8.2f}{slow / fast:7.2f}"
    )


def recurrence(slope: Callable[..., Any]) -> Callable[..., Any]:
    """Return the states of a linear recurrence."""

    def f(x: Any, a: Any) -> Any:
        return lax.scan(lambda c, r: (slope(a, c) + r,) * 2, jnp.zeros_like(x[0]), x)[1]

    return f


def whole(closed: Any, steps: int) -> list[Any]:
    """Return the types of values with this many rows, including those of inner programs."""
    found = [v.aval for e in closed.jaxpr.eqns for v in e.outvars]
    inner = [b for e in closed.jaxpr.eqns for _, b in sub_jaxprs(e)]
    found += [v.aval for b in inner for e in b.eqns for v in e.outvars]
    return [t for t in found if t.shape[:1] == (steps,)]


def main() -> None:
    """Print the figures."""
    print(f"{'':31}{'bytes':>11}{'after':>11}{'ratio':>8}{'ms':>9}{'after':>8}{'ratio':>7}")
    y = numbers(STEPS, WIDTH)
    programs = {
        "amplitude": (squares(amplitude, jnp.float32(0)), numbers(WIDTH), numbers(STEPS), y),
        "state": (squares(state, jnp.zeros(WIDTH, "f4")), numbers(WIDTH), numbers(STEPS), y),
        "contraction": (squares(contraction, 0.0), numbers(WIDTH, 8), numbers(STEPS, 8), y),
        "cosines": (issue, numbers(10, 5, 8), numbers(STEPS, WIDTH), y),
    }
    for name, (f, *args) in programs.items():
        gradient = jax.grad(f, 1 if f is issue else 0)
        for mark, passes in WAYS.items():
            line(name, f"value{mark}", beside(f, passes, args))
            line(name, f"grad{mark}", beside(gradient, passes, args))
    print("* with DEFAULT before")
    matrix = 0.3 * numbers(3, 3)
    decay, product = recurrence(lambda a, c: 0.9 * c), recurrence(lambda a, c: a @ c)
    for n in (1_000, 100_000):
        line(f"h = a h + b, {n:,}", "", beside(decay, ASSOCIATIVE, (numbers(n, 1), matrix)))
    line("h = A h + b, 10,000", "", beside(product, ASSOCIATIVE, (numbers(10_000, 3), matrix)))
    args = [numbers(*s, dtype=float) for s in [(10, 5, 8), (30, 15, 12), (30, 15, 12)]]
    for mark, passes in WAYS.items():
        for name, f in {"value": issue, "grad": jax.grad(issue, 1)}.items():
            functions = f, jaxprgen.transform(f, *passes)
            counts = [len(whole(jax.make_jaxpr(g)(*args), 30)) for g in functions]
            made = [jax.jit(g).lower(*args).compile() for g in functions]
            sizes = [g.memory_analysis().temp_size_in_bytes for g in made]
            due, got = (g(*args) for g in made)
            error = float(np.max(np.abs(got - due) / np.abs(due)))
            print(f"30 rows, {name}{mark}: arrays {counts}, bytes {sizes}, {error:.0e}")


if __name__ == "__main__":
    main()
