"""Which kernels XLA makes of a program, as the cost model takes it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprgen  # noqa: F401  # First: it makes Aesara importable.
from jaxprgen.ir.redundancy import Identities
from jaxprgen.passes.costs import work_of
from jaxprgen.passes.kernels import Kernels
from jaxprgen.passes.repeats import Colouring

N = 6


def work(f, *shapes):
    """Return the work of a function of lists of arrays."""
    args = [[np.ones(shape)] * N for shape in shapes]
    jaxpr = jax.make_jaxpr(f)(*args).jaxpr
    colouring = Colouring(jaxpr, Identities(), reassociate=True)
    colouring.colour()
    return Kernels(colouring.nodes, jaxpr.outvars).work(colouring.nodes)


@pytest.mark.parametrize(
    ("f", "shapes", "kernels"),
    [
        (lambda xs: [jnp.exp(x / 2).sum() for x in xs], [(8, 8)], 1),
        (lambda xs: [jnp.exp(x / (i + 2)).sum() for i, x in enumerate(xs)], [(8, 8)], N),
        (lambda xs: [jnp.exp(xs[0][i]) for i in range(N)], [(8, 8)], N),
        (lambda xs: [jnp.exp(x[0]) for x in xs], [(8, 8)], 1),
        (lambda xs: sum(jnp.exp(x) * i for i, x in enumerate(xs)), [(8, 8)], 1),
        # Sums are written to memory; then another kernel reads them.
        (lambda xs: [x / x.sum() for x in xs], [(8, 8)], 2),
        # A slow value is computed once for both kernels that read it, a cheap one in each.
        (lambda xs: [(y * 2, y * 3) for y in map(jnp.exp, xs)], [(8, 8)], 3),
        (lambda xs: [(y * 2, y * 3) for y in (x + 1 for x in xs)], [(8, 8)], 2),
        # Reshaped memory needs no kernel.
        (lambda xs: [x.reshape(4, 16) for x in xs], [(8, 8)], 0),
        # Products of large matrices, and factors, are calls of a library.
        (lambda xs, ys: [x @ y for x, y in zip(xs, ys, strict=True)], [(8, 8), (8, 8)], 0),
        (lambda xs: [jax.lax.linalg.lu(x)[1] for x in xs], [(8, 8)], 0),
        # Products of a matrix and a vector, and small ones, are compiled each.
        (lambda xs, ys: [x @ y for x, y in zip(xs, ys, strict=True)], [(8, 8), (8,)], N / 2),
        (lambda xs, ys: [x @ y for x, y in zip(xs, ys, strict=True)], [(3, 3), (3, 3)], N),
        (lambda xs: [jax.lax.sort(x) for x in xs], [(8,)], N),
        (lambda xs: [jax.jit(lambda x: jnp.sort(x))(x) for x in xs], [(8,)], 1),
    ],
)
def test_alike_kernels_count_once(f, shapes, kernels):
    assert work(f, *shapes).kernels == kernels


def test_equations_count_each():
    assert work(lambda xs: [jnp.exp(x / 2).sum() for x in xs], (8, 8)).equations == 3 * N


@pytest.mark.parametrize("readers", [4, 8, 9, 20])
def test_what_many_kernels_read_is_not_computed_in_each(readers):
    def f(xs):
        (x, *_) = xs
        y = x * x + 1
        return [y * i for i in range(2, readers + 2)]

    assert work(f, ()).kernels == readers + (readers > 8)


def growing(xs, n, spread_last):
    """Products with sums to which each step adds an array and a number for each row."""
    found, y = [], xs[0]
    for x in xs[:n]:
        of_rows = jnp.sum(x, 1, keepdims=True)
        y = (y + x) + of_rows if spread_last else (y + of_rows) + x
        found.append(y @ x)
    return found


@pytest.mark.parametrize("spread_last", [True, False])
def test_a_stored_sum_is_computed_again_where_that_reads_no_more_memory(spread_last):
    """What is added last decides: numbers of rows, which are small, or an array."""

    def additions(n):
        """How many XLA compiles, in all kernels."""
        xs = [np.ones((8, 8))] * N
        compiled = jax.jit(growing, static_argnums=(1, 2)).lower(xs, n, spread_last).compile()
        return compiled.as_text().count(" add(")

    def equations(n):
        return work(lambda xs: growing(xs, n, spread_last), (8, 8)).equations

    for count in (additions, equations):
        few, some, many = map(count, (2, 4, 6))
        assert (many - some > some - few) == spread_last


def test_programs_that_call_each_other_are_read_once():
    def nested(depth):
        if not depth:
            return lambda x: jax.lax.sort(x)
        g = jax.jit(nested(depth - 1))
        return lambda x: g(x) + g(2 * x)

    depth = 30  # Two calls in each: a thousand million sorts.
    assert work_of(jax.make_jaxpr(nested(depth))(np.ones(3)).jaxpr.eqns).kernels == 2**depth
