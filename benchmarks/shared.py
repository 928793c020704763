"""Measure what it costs to read shared arrays as they are: ``python benchmarks/shared.py``.

A product of a matrix and a vector, in which the matrix is a shared variable: an array of its own, a
buffer, or a buffer that is read-only; for the last two ways to compile, an array of its own. They
are called in turn with the same product of a matrix
that is an argument on the device. A figure is the median over 41 rounds, and the process waits for
each result.
"""

import statistics  # noqa: I001
import time

import jaxprgen  # First: it makes Aesara importable.
import aesara
import aesara.tensor as at
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)


def main() -> None:
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


if __name__ == "__main__":
    main()
