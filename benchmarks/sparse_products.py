"""Measure products of a sparse matrix, beside a gather and a segment sum written by hand.

Run as ``python benchmarks/sparse_products.py [ROWS COLUMNS ENTRIES]``; by default 100,000 by 10,000
with 1,000,000 entries. All programs return a sum of squares of a matrix-vector product with its
derivatives by the entries and the vector. They are called in turn; times are medians of 21 calls.
A ratio is between medians of a program and of the one written by hand that is given the same.
"""

from __future__ import annotations  # noqa: I001

import sys
import time
from collections.abc import Callable
from typing import Any

import jaxprgen  # First: it makes Aesara importable.
import aesara.sparse as sparse
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.experimental.sparse import BCSR

Programs = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]


def programs(rows: int, columns: int, count: int) -> tuple[Any, Programs]:
    """Return the matrix, and by name the programs with their arguments."""
    density = count / (rows * columns)
    A = scipy.sparse.random(rows, columns, density, "csr", random_state=0)
    held = BCSR.from_scipy_sparse(A)
    data, indices, pointers = held.data, held.indices, held.indptr
    x = jnp.ones(columns)
    index = np.repeat(np.arange(rows, dtype=np.int32), np.diff(A.indptr))

    def by_hand(data: Any, x: Any, index: Any, indices: Any) -> Any:
        sums = jax.ops.segment_sum(data * x[indices], index, rows, indices_are_sorted=True)
        return (sums**2).sum()

    X, d, v = sparse.csr_matrix("X"), at.dvector("d"), at.dvector("v")
    known = sparse.CSM("csr")(d, A.indices, A.indptr, np.array(A.shape, np.int32))
    of_known = jaxprgen.compile([d, v], (sparse.dot(known, v) ** 2).sum())
    of_argument = jaxprgen.compile([X, v], (sparse.dot(X, v) ** 2).sum())

    def of_bcsr(data: Any, x: Any, indices: Any, pointers: Any) -> Any:
        return of_argument(BCSR((data, indices, pointers), shape=A.shape), x)

    def by_hand_of_bcsr(data: Any, x: Any, indices: Any, pointers: Any) -> Any:
        made = jnp.repeat(jnp.arange(rows), jnp.diff(pointers), total_repeat_length=len(data))
        return by_hand(data, x, made, indices)

    def jaxs_bcsr(data: Any, x: Any, indices: Any, pointers: Any) -> Any:
        return ((BCSR((data, indices, pointers), shape=A.shape) @ x) ** 2).sum()

    return A, {
        "by hand, known positions": (
            lambda data, x: by_hand(data, x, index, A.indices),
            (data, x),
        ),
        "jaxprgen, known positions": (of_known, (data, x)),
        "by hand, row of each entry given": (by_hand, (data, x, jnp.asarray(index), indices)),
        "by hand, BCSR as argument": (by_hand_of_bcsr, (data, x, indices, pointers)),
        "jaxprgen, BCSR as argument": (of_bcsr, (data, x, indices, pointers)),
        "jax.experimental.sparse, BCSR as argument": (jaxs_bcsr, (data, x, indices, pointers)),
    }


def main() -> None:
    """Print the time and the memory of each program."""
    jax.config.update("jax_enable_x64", True)
    A, found = programs(*(map(int, sys.argv[1:]) if sys.argv[1:] else (100_000, 10_000, 1_000_000)))
    jitted = {name: jax.jit(jax.value_and_grad(f, (0, 1))) for name, (f, _) in found.items()}
    times: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(22):  # The first call compiles.
        for name, (_, args) in found.items():
            start = time.perf_counter()
            jax.block_until_ready(jitted[name](*args))
            times[name].append(time.perf_counter() - start)
    size = A.data.nbytes + A.indices.nbytes + A.indptr.nbytes
    print(f"JAX {jax.__version__}; {A.shape}, {A.nnz} entries, {size / 1e6:.1f} MB")
    medians = {name: np.median(each[1:]) for name, each in times.items()}
    for name, (_, args) in found.items():
        memory = jitted[name].lower(*args).compile().memory_analysis()
        used = memory.temp_size_in_bytes + memory.output_size_in_bytes
        ratio = medians[name] / medians[f"by hand, {name.split(', ')[1]}"]
        print(
            f"{name:41} {medians[name] * 1e3:6.2f} ms, {ratio:.2f} x by hand, "
            f"{used / size:.2f} x the matrix for temporary arrays and results"
        )


if __name__ == "__main__":
    main()
