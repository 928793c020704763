"""Measure what shared variables cost: ``python benchmarks/shared.py``.

A product of a matrix and a vector, in which the matrix is a shared variable: an array of its own, a
buffer, or a buffer that is read-only; for the last two ways to compile, an array of its own. They
are called in turn with the same product of a matrix
that is an argument on the device. A figure is the median over 41 rounds, and the process waits for
each result.

Then a step of gradient descent on the four arrays of a network with one hidden layer, by hand with
`jax.jit` that donates them, and compiled. A figure is the median over 200 rounds of ten steps.
"""

import statistics  # noqa: I001
import time
from collections.abc import Callable
from typing import Any

import jaxprgen  # First: it makes Aesara importable.
import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


def read() -> None:
    """Print one line for each size: microseconds by argument, and the ratios to it."""
    kinds = ["its own", "buffer", "read-only", "function", "mode"]
    print(f"{'MB':>8}{'argument':>12}" + "".join(f"{kind:>10}" for kind in kinds))
    matrix, vector = at.dmatrix("A"), at.dvector("v")
    for n in (16, 64, 256, 1024, 3162):
        value, v = np.random.default_rng(0).normal(size=(n, n)), jax.device_put(np.ones(n))
        frozen = value.copy()
        frozen.flags.writeable = False
        on_device, product = (
            jax.device_put(value.copy()),
            jaxprgen.compile([matrix, vector], matrix @ vector),
        )
        functions = [
            lambda v, product=product, on_device=on_device: product(on_device, v),
            jaxprgen.compile([vector], aesara.shared(value) @ vector),
            jaxprgen.compile([vector], aesara.shared(value, borrow=True) @ vector),
            jaxprgen.compile([vector], aesara.shared(frozen, borrow=True) @ vector),
            jaxprgen.function([vector], aesara.shared(value) @ vector),
            aesara.function([vector], aesara.shared(value) @ vector, mode="JAXPR"),
        ]
        times: list[list[float]] = [[] for _ in functions]
        for _ in range(41):
            for f, taken in zip(functions, times, strict=True):
                start = time.perf_counter()
                jax.block_until_ready(f(v))
                taken.append((time.perf_counter() - start) * 1e6)
        first, *rest = map(statistics.median, times)
        print(
            f"{value.nbytes / 1e6:8.3f}{first:12.0f}" + "".join(f"{t / first:10.2f}" for t in rest)
        )


def parameters(sizes: tuple[int, int, int]) -> list[Any]:
    """Return the arrays of a network."""
    rng, (rows, hidden, columns) = np.random.default_rng(0), sizes
    shapes: list[tuple[int, ...]] = [(rows, hidden), (hidden,), (hidden, columns), (columns,)]
    return [rng.normal(size=shape) / 10 for shape in shapes]


def by_hand(sizes: tuple[int, int, int]) -> Callable[..., Any]:
    """Return a step that keeps its parameters."""

    def loss(w: Any, x: Any, y: Any) -> Any:
        hidden = jnp.tanh(x @ w[0] + w[1])
        return jnp.square(hidden @ w[2] + w[3] - y).mean()

    def step(w: Any, x: Any, y: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(w, x, y)
        return value, [a - 0.01 * b for a, b in zip(w, gradient, strict=True)]

    jitted = jax.jit(step, donate_argnums=0)
    kept = [[jnp.asarray(w) for w in parameters(sizes)]]

    def run(x: Any, y: Any) -> Any:
        value, kept[0] = jitted(kept[0], x, y)
        return value

    return run


def compiled(sizes: tuple[int, int, int], make: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same step as a function of shared variables."""
    w = [aesara.shared(value) for value in parameters(sizes)]
    x, y = at.dmatrices("x", "y")
    loss = at.square(at.tanh(x @ w[0] + w[1]) @ w[2] + w[3] - y).mean()
    gradient = aesara.grad(loss, w)
    return make([x, y], loss, updates=[(a, a - 0.01 * b) for a, b in zip(w, gradient, strict=True)])


def train() -> None:
    """Print microseconds of a step by hand, and the ratios to it."""
    print(f"{'network':>12}{'batch':>8}{'arrays':>8}{'by hand':>10}{'function':>10}{'mode':>10}")
    for sizes, batch in (((20, 16, 10), 32), ((784, 128, 10), 64)):
        rng = np.random.default_rng(1)
        data = rng.normal(size=(batch, sizes[0])), rng.normal(size=(batch, sizes[2]))
        for kind, args in (("JAX", tuple(map(jnp.asarray, data))), ("NumPy", data)):
            functions = [
                by_hand(sizes),
                compiled(sizes, jaxprgen.function),
                compiled(
                    sizes, lambda *given, **more: aesara.function(*given, mode="JAXPR", **more)
                ),
            ]
            times: list[list[float]] = [[] for _ in functions]
            for i in range(200):
                for f, taken in zip(functions, times, strict=True):
                    start = time.perf_counter()
                    for _ in range(10):
                        found = f(*args)
                    jax.block_until_ready(found)
                    if i:  # The first round compiles.
                        taken.append((time.perf_counter() - start) * 1e5)
            first, *rest = map(statistics.median, times)
            name = "-".join(map(str, sizes))
            print(
                f"{name:>12}{batch:8}{kind:>8}{first:10.1f}"
                + "".join(f"{t / first:10.2f}" for t in rest)
            )


def main() -> None:
    """Measure reading, and training."""
    read()
    train()


if __name__ == "__main__":
    main()
