"""`MapToVmap`: loops without recurrences, in any JAX program."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from jax import lax
from laws import all_equations, assert_computes, primitives
from loop_bodies import grown, loop, one, printing, w
from profiles import examples, sample

from jaxprgen._jax import check_jaxpr, sub_jaxprs
from jaxprgen.passes import MapToVmap

xs = np.random.default_rng(0).normal(size=(5, 3))
indices = np.array([2, 0, 1, 1, 9])
batched = MapToVmap()
summed = MapToVmap(reassociate=True)


custom = jax.custom_jvp(lambda x: x)
custom.defjvps(lambda t, y, x: 3 * t)


def each(step, *arrays, reverse=False):
    """Return a loop without carries."""
    return lax.scan(lambda c, row: (c, step(*row)), (), arrays, reverse=reverse)[1]


MAPS = {
    "elementwise": lambda x, w: each(lambda r: jnp.sin(r) * w[0] + 2, x),
    "scalars": lambda x, w: each(lambda s: (s * 2, w @ jnp.ones(3) * s, 1 / s), x[:, 0]),
    "backwards": lambda x, w: each(lambda r: r + 1, x, reverse=True),
    "select": lambda x, w: each(lambda r: jnp.where(r[0] > 0, r, w[0]), x),
    "select rows": lambda x, w: each(lambda r: jnp.where(w[0] > 0, r, 2 * r), x),
    "clamp": lambda x, w: each(lambda r: lax.clamp(-0.5, r, 1.0), x),
    "clamp between rows": lambda x, w: each(lambda r: lax.clamp(-jnp.abs(r), w[0], r + 9), x),
    "broadcast": lambda x, w: each(lambda r: jnp.broadcast_to(r[:, None], (3, 2)), x),
    "reshape": lambda x, w: each(lambda r: (r[None] * w).reshape(9), x),
    "transpose": lambda x, w: each(lambda r: jnp.outer(r, w[1] + r).T, x),
    "rev": lambda x, w: each(lambda r: r[::-1], x),
    "roll": lambda x, w: each(lambda r: jnp.roll(r, 1), x),
    "slices": lambda x, w: each(lambda r: (r[1:], r[::2], r[2]), x),
    "pad": lambda x, w: each(lambda r: jnp.pad(r, (1, 2)), x),
    "concatenate": lambda x, w: each(lambda r: jnp.concatenate([r, w[0], r]), x),
    "reduce": lambda x, w: each(lambda r: (r.sum(), (r > 0).any(), r.prod(), r.max()), x),
    "argmax": lambda x, w: each(lambda r: (jnp.argmax(r), jnp.argmin(w * r, 1)), x),
    "cumulate": lambda x, w: each(lambda r: (jnp.cumsum(r), lax.cummax(w * r, 1)), x),
    "sort": lambda x, w: each(lambda r: jnp.sort(r * w, axis=0), x),
    "sort by": lambda x, w: each(lambda r: lax.sort((r, w[0]), num_keys=1)[1], x),
    "product with a matrix": lambda x, w: each(lambda r: r @ w, x),
    "product from the right": lambda x, w: each(lambda r: w @ r, x),
    "product of the row": lambda x, w: each(lambda r: jnp.vdot(r, jnp.sin(r)), x),
    "batches": lambda x, w: each(lambda r: jnp.einsum("bi,bij->bj", w * r, jnp.stack([w] * 3)), x),
    "batches of the other": lambda x, w: each(lambda r: jnp.einsum("bi,bi->b", w, w * r), x),
    "batches of one": lambda x, w: each(lambda r: jnp.einsum("bi,bij->bj", w, r * w[None] * w), x),
    "outer": lambda x, w: each(lambda r: jnp.einsum("ij,k->ikj", w, r), x),
    "rows of a table": lambda x, w: each(lambda i: jnp.asarray(w)[i], indices),
    "a place in the row": lambda x, w: each(lambda r, i: r[i], x, indices),
    "places in the row": lambda x, w: each(lambda r: r[jnp.array([2, 0, 2, 7])], x),
    "places": lambda x, w: each(lambda r, i: (r * w)[jnp.stack([i, 0 * i]), :2], x, indices),
    "a block at one place": lambda x, w: each(
        lambda r: lax.dynamic_slice(r, [jnp.argmax(w[0])], [2]), x
    ),
    "a block": lambda x, w: each(lambda r, i: lax.dynamic_slice(r * w, [i, 1], [1, 2]), x, indices),
    "extrema at a place": lambda x, w: each(
        lambda r, i: (r.at[i].min(0.0), (w * r).at[i, 1].max(r[0])), x, indices
    ),
    "cholesky": lambda x, w: each(lambda r: jnp.linalg.cholesky(w @ w.T + jnp.diag(r**2)), x),
    "solve": lambda x, w: each(
        lambda r: lax.linalg.triangular_solve(w + 5 * jnp.eye(3), r[:, None], left_side=True), x
    ),
    "solve from the right": lambda x, w: each(
        lambda r: lax.linalg.triangular_solve(w + 5 * jnp.eye(3), r[None] * w), x
    ),
    "solve by other matrices": lambda x, w: each(
        lambda r: lax.linalg.triangular_solve(w * r + 5 * jnp.eye(3), w, left_side=True), x
    ),
    "a rule of the user's": lambda x, w: each(custom, x),
    "a value to pad with": lambda x, w: each(lambda r: lax.pad(r, r[0], [(1, 0, 0)]), x),
    "a rule of the user's on what all rows share": lambda x, w: each(lambda r: r * custom(w[0]), x),
    "indices that are unique to each row": lambda x, w: each(
        lambda i: jnp.asarray(w).at[i + jnp.arange(2)].get(unique_indices=True, mode="clip"),
        indices,
    ),
    "bits of another width": lambda x, w: each(
        lambda r: lax.bitcast_convert_type(r, jnp.uint32).astype(float), x
    ),
    "a program that is called": lambda x, w: each(jax.jit(lambda r: r @ w + 1), x),
    "a row as it is": lambda x, w: each(lambda r: (r, r, w[0], 3.0), x),
    "bits": lambda x, w: each(lambda i: (i & 3, lax.population_count(i), i << 2), indices),
    "loops in loops": lambda x, w: each(lambda r: each(lambda s: s * r[0], r), x),
}  # fmt: skip


@pytest.mark.parametrize("name", MAPS)
def test_maps_are_batched(name):
    """No loop is left."""
    found = summed(jax.make_jaxpr(MAPS[name])(xs, w))
    assert "scan" not in primitives(found)
    check_jaxpr(found.jaxpr)


@pytest.mark.parametrize("name", sample(MAPS, len(MAPS) // 3))
def test_values_and_derivatives_agree_with_the_loop(name):
    found = summed(jax.make_jaxpr(MAPS[name])(xs, w))
    assert_computes(found, MAPS[name], xs, w, slopes=(0, 1))


CARRIES = {
    "handed over": loop(lambda c, r, w: (r, c * r), one),
    "handed over twice": loop(lambda c, r, w: ((r + 1, c[0]), c[1] - c[0]), (one, 0 * one)),
    "kept": loop(lambda c, r, w: (c, c * r), one),
    "a constant": loop(lambda c, r, w: (np.zeros(3), c), one),
    "not used": loop(lambda c, r, w: (r, ()), one),
    "a count": loop(lambda c, r, w: ((c[0] + 1, c[1] | (r[0] > 0)), r), (0, False)),
    "a product of integers": loop(lambda c, r, w: (c * (1 + (r[0] > 0)), r), 1),
    "the largest integer": loop(lambda c, r, w: (jnp.maximum(jnp.argmax(r), c), ()), np.int64(0)),
}
SUMS = {
    "a sum": loop(lambda c, r, w: (c + r * r, r), one),
    "a sum in parts": loop(lambda c, r, w: (r[0] + (c + r.sum()) + 1.0, ()), np.float64(0.5)),
    "extrema": loop(
        lambda c, r, w: ((jnp.minimum(c[0], r), jnp.maximum(r, c[1])), ()), (xs[0], xs[0])
    ),
    "a sum of what was handed over": loop(
        lambda c, r, w: ((r, c[1] + c[0] * r), ()), (one, 0 * one)
    ),
    # JAX 0.7 binds unread results to ``_``, which no other equation may read.
    "without a stack that is read": lambda x, w, **options: loop(
        lambda c, r, w: (lambda s: (c + s, s))(jnp.sin(r)), 0 * one
    )(x, w, **options)[0],
}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", [*CARRIES, *SUMS])
def test_carries_without_recurrence(name, backwards):
    f = functools.partial({**CARRIES, **SUMS}[name], reverse=backwards)
    found = (summed if name in SUMS else batched)(jax.make_jaxpr(f)(xs, w))
    assert "scan" not in primitives(found)
    assert_computes(found, f, xs, w)


LEFT = {
    "a recurrence": (summed, loop(lambda c, r, w: (jnp.sin(c) + r, c), one)),
    "two that feed each other": (
        summed,
        loop(lambda c, r, w: ((c[1] + r, c[0]), r), (xs[0], xs[1])),
    ),
    "a sum that is read": (summed, loop(lambda c, r, w: (c + r, c), one)),
    "a sum that is stacked": (summed, loop(lambda c, r, w: (c + r, c + r), one)),
    "a sum of itself": (summed, loop(lambda c, r, w: (c + c, r), one)),
    "a sum and a product": (summed, loop(lambda c, r, w: ((c + r) * r, r), one)),
    "a product": (summed, loop(lambda c, r, w: (c * r, r), one)),
    "a sum in order": (batched, loop(lambda c, r, w: (c + r, r), one)),
    "memory": (MapToVmap(memory=5 * 24 - 1), lambda x, w: each(lambda r: r + 1, x)),
    "an effect": (summed, lambda x, w: each(lambda r: printing(0, r, w)[0], x)),
    "a branch": (summed, lambda x, w: each(lambda r: lax.cond(r[0] > 0, jnp.sin, jnp.cos, r), x)),
    "no step": (summed, lambda x, w: each(jnp.sin, x[:0])),
    "no loop": (summed, lambda x, w: x @ w),
}


@pytest.mark.parametrize("name", LEFT)
def test_loops_that_stay(name):
    """The pass returns the given program."""
    rewrite, f = LEFT[name]
    closed = jax.make_jaxpr(f)(xs, w)
    assert rewrite(closed) is closed
    assert name == "no loop" or "scan" in primitives(closed)


@pytest.mark.parametrize("backwards", [False, True])
def test_unread_carries(backwards):
    """Carries that depend on themselves are removed if nothing else reads them."""

    def f(w, x):
        step = lambda c, r: (jnp.sin(c), jnp.cos(r))  # noqa: E731
        return jnp.sum(lax.scan(step, w, x, reverse=backwards)[1] ** 2)

    for g in (f, jax.grad(f, 1)):
        after = batched(jax.make_jaxpr(g)(w, xs))
        assert "scan" not in primitives(after)
        assert_computes(after, g, w, xs)


@pytest.mark.parametrize("step", [lambda c, r: (c[1], c[0][0] @ r), lambda c, r: (c[0], r @ c[1])])
def test_memory_of_repeated_values(step):
    """A shared value takes no memory per step, but a carry does."""
    matrix = np.ones((64, 64))
    f = lambda x: lax.scan(lambda c, r: ((step(c, r)[0], matrix), r * 2), (matrix, matrix), x)  # noqa: E731
    closed = jax.make_jaxpr(f)(np.ones((100, 64)))
    found = MapToVmap(memory=10 * 64 * 64 * 8)(closed)
    largest = max(v.aval.size for e in all_equations(found.jaxpr) for v in e.outvars)
    assert largest <= 100 * 64


def test_memory_limit():
    closed = jax.make_jaxpr(lambda x: each(lambda r: r + 1, x))(xs)
    assert "scan" not in primitives(MapToVmap(memory=5 * 24)(closed))


@pytest.mark.parametrize("around", ["jit", "cond", "while", "scan"])
def test_loops_in_inner_programs(around):
    """Equal programs are rewritten once, and the equations around them stay."""

    def inner(x):
        return each(lambda r: r * 2, x)

    wraps = {
        "jit": lambda x: jax.jit(inner)(x) + jax.jit(inner)(2 * x),
        "cond": lambda x: lax.cond(x[0, 0] > 0, inner, lambda x: x, x),
        "while": lambda x: lax.while_loop(lambda x: x.max() < 100, lambda x: inner(jnp.abs(x)), x),
        "scan": lambda x: lax.scan(lambda c, _: (jnp.sin(inner(c)), ()), x, None, 3)[0],
    }
    f = wraps[around]
    closed = jax.make_jaxpr(f)(xs)
    found = summed(closed)
    assert primitives(found).count("scan") == (around == "scan")
    assert_computes(found, f, xs)
    if around == "jit":
        called = {id(s) for e in found.jaxpr.eqns for _, s in sub_jaxprs(e)}
        before = {id(s) for e in closed.jaxpr.eqns for _, s in sub_jaxprs(e)}
        assert len(called) == len(before)


OPERATIONS = [
    *(lambda a, _: jnp.sin(a), lambda a, _: jnp.exp(a), lambda a, _: a * 2.0, lambda a, _: a[::-1]),
    *(lambda a, _: jnp.cumsum(a), lambda a, _: jnp.sort(a), lambda a, _: jnp.abs(a)),
    *(jnp.add, jnp.multiply, lambda a, b: jnp.where(a > 0, a, b), lambda a, b: a * b.sum()),
]
places = st.integers(0, 9)


@examples(1, quick=0.4)
@given(
    choices=st.lists(st.tuples(st.integers(0, 10), places, places), max_size=6),
    seed=st.integers(0, 99),
    n=st.integers(1, 4),
    k=st.integers(0, 3),
    backwards=st.booleans(),
)
def test_random_bodies(choices, seed, n, k, backwards):
    """Bodies of random equations, with sums and other carries, compute the same as before."""
    generator = np.random.default_rng(seed)
    x, c = generator.normal(size=(n, k)), generator.normal(size=k)

    def step(carry, row):
        before, total = carry
        values = grown([row, c, before], choices, OPERATIONS)
        return (row + c, total + values[-1]), (values[-1], values[len(values) // 2])

    def f(x):
        return lax.scan(step, (c, np.zeros(k)), x, reverse=backwards)

    found = summed(jax.make_jaxpr(f)(x))
    assert "scan" not in primitives(found)
    assert_computes(found, f, x, rtol=1e-10, atol=1e-12)
