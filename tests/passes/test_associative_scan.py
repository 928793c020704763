"""`AssociativeScan`: affine recurrences in any JAX program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from jax import lax
from laws import assert_close, assert_computes, primitives, total
from loop_bodies import grown, loop, one, only_body, printing, scans
from profiles import examples, sample

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.api import jaxpr_as_fun
from jaxprgen.passes import AssociativeScan

xs = np.random.default_rng(0).normal(size=(11, 3))
w = np.random.default_rng(1).normal(size=(3, 3)) / 3
exact = AssociativeScan()
free = AssociativeScan(reassociate=True)


RUNNING = {
    "a sum": loop(lambda c, r, w: (c + r - w[0], c), one),
    "a product": loop(lambda c, r, w: (c * jnp.exp(r), c + r), one),
    "a maximum": loop(lambda c, r, w: (jnp.maximum(w[0], jnp.maximum(r, c)), c), one),
    "a minimum": loop(lambda c, r, w: (jnp.minimum(c, r), c), one),
}
LINEAR = {
    "a decay": loop(lambda c, r, w: (0.9 * c + r, c), one),
    "slopes by row": loop(lambda c, r, w: (jnp.sin(r) * c + jnp.exp(r), jnp.tanh(c) * r), one),
    "slopes and no more": loop(lambda c, r, w: (c / (2 + jnp.sin(r)) * w[0], c @ w), one),
    "a choice": loop(lambda c, r, w: (jnp.where(r > 0, c / (2 + r), r - c), c), one),
    "a choice by one number": loop(lambda c, r, w: (jnp.where(r[0] > 0, c, 0.5 * c), -c), one),
    "a reset": loop(lambda c, r, w: (jnp.where(r > 0, r, c + r), c), one),
    "scalars": loop(lambda c, r, w: (c * r[0] + r[1], c * r), 1.0),
    "numbers for arrays": loop(lambda c, r, w: (c * r[:, None] - r[0], c.sum()), w),
    "a matrix": loop(lambda c, r, w: (w @ c + r, c), one),
    "a matrix from the right": loop(lambda c, r, w: (-(0.5 * (c @ w) - c / 3) + r, c), one),
    "a matrix by row": loop(lambda c, r, w: ((w * r) @ (c + r), c), one),
    "a matrix or none": loop(lambda c, r, w: (jnp.where(r > 0, w @ (w @ c), c), c), one),
    "two orders": loop(lambda c, r, w: ((0.5 * c[0] + 0.3 * c[1] + r, c[0]), c[1] * 2), (one, one)),
    "two orders of matrices": loop(
        lambda c, r, w: ((w @ c[0] + 0.3 * c[1], c[0] + r), c[1] * 2), (one, one)
    ),
    "one after the other": loop(
        lambda c, r, w: ((0.5 * c[0] + r, 0.3 * c[1] + jnp.sin(c[0])), c[1]), (one, one)
    ),
    "complex numbers": loop(lambda c, r, w: (c * jnp.exp(1j * r) + r, c), one + 0j),
    "narrower on the way": loop(
        lambda c, r, w: ((c.astype(np.float64) * r + 1).astype(np.float32), c), np.float32(one)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*RUNNING, *LINEAR])
def test_affine_recurrences_leave_no_loop(name):
    f = {**RUNNING, **LINEAR}[name]
    for options in ({}, {"reverse": True}, {"unroll": 4}):
        closed = jax.make_jaxpr(lambda x, w: f(x, w, **options))(xs, w)  # noqa: B023
        found = free(closed)
        assert "scan" not in primitives(found)
        check_jaxpr(found.jaxpr)
        assert free(found) is found
    if name in RUNNING:
        assert any(p.startswith("cum") for p in primitives(found))
        assert len(found.jaxpr.eqns) < 20


def everything(x, w, **options):
    chosen = sample({**RUNNING, **LINEAR}.items(), 10)
    return {name: f(x, w, **options) for name, f in chosen}


@pytest.mark.parametrize(("n", "backwards"), sample([(7, True), (2, False)], 1))
def test_values_agree_with_the_loop(n, backwards):
    def f(x, w):
        return everything(x, w, reverse=backwards)

    got, wanted = jax.jit(lambda *args: (jaxprgen.transform(f, free)(*args), f(*args)))(xs[:n], w)
    for name in wanted:
        tolerance = 1e-5 if name == "narrower on the way" else 1e-12
        assert_close(got[name], wanted[name], tolerance, tolerance)


def test_derivatives_and_batches_agree():
    names = ["slopes by row", "a matrix by row", "two orders", "a product", "a maximum"]

    def f(x, w):
        return total([{**RUNNING, **LINEAR}[name](x, w) for name in sample(names, 2)])

    g = jaxprgen.transform(f, free)
    x = xs[:5]
    wanted = jax.jit(jax.grad(f, (0, 1)))(x, w)
    inside = jaxprgen.transform(jax.grad(f, (0, 1)), free)
    for slopes in (jax.grad(g, (0, 1)), inside):
        assert_close(jax.jit(slopes)(x, w), wanted, 1e-9, 1e-11)
    assert "scan" not in primitives(jax.make_jaxpr(g)(x, w))
    batches = np.stack([x, 2 * x])
    due = jax.jit(jax.vmap(f, (0, None)))(batches, w)
    for h in (jax.vmap(g, (0, None)), jaxprgen.transform(jax.vmap(f, (0, None)), free)):
        np.testing.assert_allclose(jax.jit(h)(batches, w), due, rtol=1e-10)


LEFT = {
    "a recurrence that is not linear": (free, loop(lambda c, r, w: (jnp.sin(c) + r, c), one)),
    "a square": (free, loop(lambda c, r, w: (c * c + r, c), one)),
    "one by another": (free, loop(lambda c, r, w: ((c[0] * c[1], c[1] + c[0]), c[0]), (one, one))),
    "divided by it": (free, loop(lambda c, r, w: (r / c, c), one)),
    "a choice by itself": (free, loop(lambda c, r, w: (jnp.where(c > 0, c, r), c), one)),
    "a sum of its numbers": (free, loop(lambda c, r, w: (c * c.sum() + r, c), one)),
    "along another axis": (free, loop(lambda c, r, w: (c[::-1] + r, c), one)),
    "a matrix that is large": (AssociativeScan(reassociate=True, size=2), LINEAR["a matrix"]),
    "memory": (AssociativeScan(reassociate=True, memory=300), LINEAR["a decay"]),
    "rounding": (exact, LINEAR["a decay"]),
    "rounding of a sum": (exact, RUNNING["a sum"]),
    "types that differ": (
        free,
        loop(lambda c, r, w: ((c[0] + c[1][0], c[1] + c[0]), c[0]), (1.0, one)),
    ),
    "whole numbers on the way": (
        free,
        loop(lambda c, r, w: (c.astype(int).astype(float) + r, c), one),
    ),
    "division of whole numbers": (free, loop(lambda c, r, w: (lax.div(c, 2) + 1, c), 9)),
    "an effect": (free, loop(printing, one)),
    "no recurrence": (free, loop(lambda c, r, w: (r, c), one)),
    "an overall sum": (free, loop(lambda c, r, w: (c + r, r), one)),
    "one step": (free, lambda x, w: LINEAR["a decay"](x[:1], w)),
    "no step": (free, lambda x, w: LINEAR["a decay"](x[:0], w)),
}


@pytest.mark.parametrize("name", LEFT)
def test_loops_that_stay(name):
    rewrite, f = LEFT[name]
    closed = jax.make_jaxpr(f)(xs, w)
    assert rewrite(closed) is closed


def test_only_exact_recurrences_without_reassociation():
    """Integers, which wrap around, and extrema, which propagate NaN, are exact in any order."""
    rows = np.where(np.abs(xs) > 1.5, np.nan, np.where(np.abs(xs) > 1.2, -np.inf, xs))

    def f(x):
        def step(c, r):
            count = c[0] * 1_000_003 + (r > 0)
            return (count, jnp.maximum(c[1], r), jnp.minimum(r, c[2])), c

        return lax.scan(step, (jnp.arange(3, dtype=np.int32), one, one), x)

    found = exact(jax.make_jaxpr(f)(rows))
    assert "scan" not in primitives(found)
    assert_close(jaxpr_as_fun(found)(rows), jax.jit(f)(rows), rtol=0)


def test_other_recurrences_stay_in_a_loop():
    f = loop(lambda c, r, w: ((jnp.sin(c[0]) + c[1], 0.5 * c[1] + r), c[0]), (one, one))
    found = free(jax.make_jaxpr(f)(xs, w))
    assert sorted(only_body(found)) == ["add", "sin"]
    assert_computes(found, f, xs, w)


def test_keys_stay_in_a_loop():
    """Random draws are unchanged. Carries of dtypes that NumPy does not know stay in the loop."""

    def f(x):
        def step(carry, row):
            key, h, short, total = carry
            key, own = jax.random.split(key)
            short = short * jnp.bfloat16(0.5) + row[0].astype(jnp.bfloat16)
            return (key, 0.5 * h + row, short, total + short), (h * jax.random.normal(own), short)

        zero = jnp.bfloat16(0)
        return lax.scan(step, (jax.random.key(0), one, zero, zero), x)

    found = free(jax.make_jaxpr(f)(xs))
    (eqn,) = scans(found)
    assert sum(v.aval.shape == (11, 3) for v in eqn.invars) == 0
    assert_computes(found, f, xs)


def test_sequences_that_are_not_finite():
    """Values before them are unchanged, and NaN persists after them."""
    f = LINEAR["a decay"]
    rows = xs.copy()
    rows[4, 0], rows[6, 1] = np.nan, np.inf
    assert_computes(free(jax.make_jaxpr(f)(rows, w)), f, rows, w)


def test_products_of_slopes_that_underflow():
    """The product of 2,000 single-precision slopes is zero, and the states are right."""
    x = np.random.default_rng(3).normal(size=(2000, 2)).astype(np.float32)
    f = loop(lambda c, r, w: (np.float32(0.5) * c + r, c), np.float32([1, -1]))
    assert_computes(free(jax.make_jaxpr(f)(x, w)), f, x, w, rtol=1e-5, atol=1e-6)


def test_number_of_equations():
    """Their number grows with the logarithm of the number of steps."""
    counts = [
        len(free(jax.make_jaxpr(LINEAR["a decay"])(np.ones((n, 3)), w)).jaxpr.eqns)
        for n in (2**4, 2**8, 2**12)
    ]
    assert counts[2] - counts[1] == counts[1] - counts[0] < 130


OPERATIONS = [
    *(jnp.add, jnp.subtract, lambda a, b: -a, jnp.multiply, lambda a, b: a / (2 + jnp.abs(b))),
    lambda a, b: jnp.where(b[:1] > 0, a, 0.5 * a) if b.ndim else a,
]
places = st.integers(0, 9)


@examples(0.6, quick=0.4)
@given(
    choices=st.lists(st.tuples(st.integers(0, 5), places, st.integers(0, 3)), max_size=6),
    ends=st.lists(places, min_size=4, max_size=4),
    seed=st.integers(0, 99),
    n=st.integers(2, 9),
    k=st.integers(0, 3),
    backwards=st.booleans(),
)
def test_random_recurrences(choices, ends, seed, n, k, backwards):
    """Bodies of random equations compute the same, rewritten or not."""
    generator = np.random.default_rng(seed)
    x, start = generator.normal(size=(n, k)), tuple(generator.normal(size=(2, k)))

    def step(carry, row):
        values = grown([*carry, row, jnp.sin(row)], choices, OPERATIONS)
        found = [values[-1 - i % len(values)] for i in ends]
        return tuple(jnp.tanh(row) * v for v in found[:2]), found[2:]

    def f(x):
        return lax.scan(step, start, x, reverse=backwards)

    assert_computes(free(jax.make_jaxpr(f)(x)), f, x, rtol=1e-9, atol=1e-10)
