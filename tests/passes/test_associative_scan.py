"""`AssociativeScan`: affine recurrences in any JAX program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from laws import all_equations, in_one_program
from profiles import examples, sample

import jaxprgen
from jaxprgen._jax import check_jaxpr, open_jaxpr
from jaxprgen.api import jaxpr_as_fun
from jaxprgen.passes import AssociativeScan

xs = np.random.default_rng(0).normal(size=(11, 3))
w = np.random.default_rng(1).normal(size=(3, 3)) / 3
one = np.ones(3)
exact = AssociativeScan()
free = AssociativeScan(reassociate=True)


def loop(step, start):
    return lambda x, w, **options: lax.scan(lambda c, r: step(c, r, w), start, x, **options)


def primitives(closed):
    return [e.primitive.name for e in all_equations(closed.jaxpr)]


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


def total(values):
    return sum(jnp.sum(jnp.sin(jnp.real(v))) for v in jax.tree.leaves(values))


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
        for x, y in zip(*map(jax.tree.leaves, (got[name], wanted[name])), strict=True):
            assert x.dtype == y.dtype and x.weak_type == y.weak_type, name
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=name)


def test_derivatives_and_batches_agree():
    names = ["slopes by row", "a matrix by row", "two orders", "a product", "a maximum"]

    def f(x, w):
        return total([{**RUNNING, **LINEAR}[name](x, w) for name in sample(names, 2)])

    g = jaxprgen.transform(f, free)
    x = xs[:5]
    wanted = jax.jit(jax.grad(f, (0, 1)))(x, w)
    inside = jaxprgen.transform(jax.grad(f, (0, 1)), free)
    for slopes in (jax.grad(g, (0, 1)), inside):
        for got, due in zip(jax.jit(slopes)(x, w), wanted, strict=True):
            np.testing.assert_allclose(got, due, rtol=1e-9, atol=1e-11)
    assert "scan" not in primitives(jax.make_jaxpr(g)(x, w))
    batches = np.stack([x, 2 * x])
    due = jax.jit(jax.vmap(f, (0, None)))(batches, w)
    for h in (jax.vmap(g, (0, None)), jaxprgen.transform(jax.vmap(f, (0, None)), free)):
        np.testing.assert_allclose(jax.jit(h)(batches, w), due, rtol=1e-10)


def printing(c, r, w):
    jax.debug.print("{}", r)
    return c + r, c


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
    for x, y in zip(jaxpr_as_fun(found)(rows), jax.tree.leaves(jax.jit(f)(rows)), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def test_other_recurrences_stay_in_a_loop():
    f = loop(lambda c, r, w: ((jnp.sin(c[0]) + c[1], 0.5 * c[1] + r), c[0]), (one, one))
    found = free(jax.make_jaxpr(f)(xs, w))
    (eqn,) = (e for e in found.jaxpr.eqns if e.primitive.name == "scan")
    inside = [e.primitive.name for e in open_jaxpr(eqn.params["jaxpr"]).eqns]
    assert sorted(inside) == ["add", "sin"]
    for x, y in zip(jaxpr_as_fun(found)(xs, w), jax.tree.leaves(jax.jit(f)(xs, w)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


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
    (eqn,) = (e for e in found.jaxpr.eqns if e.primitive.name == "scan")
    assert sum(v.aval.shape == (11, 3) for v in eqn.invars) == 0
    for x, y in zip(jaxpr_as_fun(found)(xs)[1:], jax.tree.leaves(jax.jit(f)(xs))[1:], strict=True):
        np.testing.assert_allclose(x.astype(float), y.astype(float), rtol=1e-12)


def test_sequences_that_are_not_finite():
    """Values before them are unchanged, and NaN persists after them."""
    f = LINEAR["a decay"]
    rows = xs.copy()
    rows[4, 0], rows[6, 1] = np.nan, np.inf
    found = free(jax.make_jaxpr(f)(rows, w))
    for x, y in zip(
        jaxpr_as_fun(found)(rows, w), jax.tree.leaves(jax.jit(f)(rows, w)), strict=True
    ):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_products_of_slopes_that_underflow():
    """The product of 2,000 single-precision slopes is zero, and the states are right."""
    x = np.random.default_rng(3).normal(size=(2000, 2)).astype(np.float32)
    f = loop(lambda c, r, w: (np.float32(0.5) * c + r, c), np.float32([1, -1]))
    found = free(jax.make_jaxpr(f)(x, w))
    for got, wanted in zip(jaxpr_as_fun(found)(x, w), jax.tree.leaves(f(x, w)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_number_of_equations():
    """Their number grows with the logarithm of the number of steps."""
    counts = [
        len(free(jax.make_jaxpr(LINEAR["a decay"])(np.ones((n, 3)), w)).jaxpr.eqns)
        for n in (2**4, 2**8, 2**12)
    ]
    assert counts[2] - counts[1] == counts[1] - counts[0] < 130


OPERATIONS = [
    jnp.add,
    jnp.subtract,
    lambda a, b: -a,
    lambda a, b: jnp.where(b[:1] > 0, a, 0.5 * a) if b.ndim else a,
    jnp.multiply,
    lambda a, b: a / (2 + jnp.abs(b)),
]


@examples(0.6)
@given(data=st.data(), n=st.integers(2, 9), k=st.integers(0, 3), backwards=st.booleans())
def test_random_recurrences(data, n, k, backwards):
    """Bodies of random equations compute the same, rewritten or not."""
    places = st.integers(0, 9)
    choices = data.draw(st.lists(st.tuples(st.integers(0, 5), places, places), max_size=6))
    ends = data.draw(st.lists(places, min_size=4, max_size=4))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    x, start = generator.normal(size=(n, k)), tuple(generator.normal(size=(2, k)))

    def step(carry, row):
        values = [*carry, row, jnp.sin(row)]
        for which, i, j in choices:
            values.append(OPERATIONS[which](values[i % len(values)], values[j % 4]))
        found = [values[-1 - i % len(values)] for i in ends]
        return tuple(jnp.tanh(row) * v for v in found[:2]), found[2:]

    def f(x):
        return lax.scan(step, start, x, reverse=backwards)

    found = free(jax.make_jaxpr(f)(x))
    check_jaxpr(found.jaxpr)
    for got, wanted in zip(*in_one_program([jaxpr_as_fun(found), f], x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-10)
