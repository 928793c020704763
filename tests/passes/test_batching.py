"""What passes may batch: rules of primitives, and what they leave alone."""

import itertools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from laws import all_equations, in_one_program
from profiles import in_turn, sample

import jaxprgen
from jaxprgen._jax import Primitive, check_jaxpr
from jaxprgen.ir import primitives
from jaxprgen.ir.inner import HOLDERS
from jaxprgen.passes import (
    DEFAULT,
    DistributeScan,
    MapToVmap,
    ScanRepeats,
    VmapRepeats,
    batching,
    repeats,
    unbatching,
    writes,
)
from jaxprgen.passes.repeat_notes import listening

rng = np.random.default_rng(0)

# --- Tables ------------------------------------------------------------------------------------

TABLES = {
    "left": batching._LEFT,
    "custom": batching._CUSTOM,
    "keeping bits": batching.KEEPS_BITS,
    "elementwise": primitives.ELEMENTWISE,
    "unbatching": unbatching.ROW_BY_ROW,
    "monoids": unbatching.MONOIDS,
    "reductions": unbatching.REDUCTIONS,
    "chains": repeats.CHAINS,
    "combining": writes.COMBINING,
    "reading": writes.READING,
    "writing": writes.WRITING,
    "holders": HOLDERS,
}
SOMETIMES = {"one_minus_square", "stack", "unstack", "closed_call", "eval_jaxpr"}
"""Primitives that only some supported versions of JAX have."""


@pytest.mark.parametrize("name", TABLES)
def test_tables_name_primitives_of_jax(name):
    modules = [vars(m) for name, m in [*sys.modules.items()] if name.split(".")[0] == "jax"]
    installed = {x.name for m in modules for x in m.values() if isinstance(x, Primitive)}
    assert not set(TABLES[name]) - installed - SOMETIMES


# --- Without reassociation, every bit is kept -----------------------------------------------------


def positive(x):
    """Return a positive definite matrix."""
    return x @ x.T + 9 * jnp.eye(len(x))


ROUNDED = {
    "product with a matrix": lambda x, w: w @ x,
    "product of rows": lambda x, w: x @ jnp.cos(x),
    "sum": lambda x, w: jnp.sum(x),
    "sum along an axis": lambda x, w: jnp.sum(x[:299].reshape(13, 23), 1),
    "product of numbers": lambda x, w: jnp.prod(1 + x / 99),
    "cumulative sum": lambda x, w: jnp.cumsum(x),
    "sum of exponentials": lambda x, w: jax.nn.logsumexp(x),
    "convolution": lambda x, w: jnp.convolve(x, w[0, :40]),
    "scatter": lambda x, w: jnp.zeros(5).at[jnp.arange(300) % 5].add(x),
    "transform": lambda x, w: jnp.abs(jnp.fft.rfft(x)),
    "factor": lambda x, w: jnp.linalg.cholesky(positive(x.reshape(20, 15))),
    "solution": lambda x, w: jnp.linalg.solve(positive(x.reshape(20, 15)), x[:20]),
    "call": lambda x, w: jax.jit(lambda x: jnp.exp(x @ w.T))(x),
    "loop": lambda x, w: lax.fori_loop(0, 3, lambda i, v: jnp.tanh(w.T @ (w @ v)), x),
    "elementwise": lambda x, w: jnp.sin(x) * w[0] + jnp.where(x > 0, x, w[1]) / 3,
    "quotient by a number": lambda x, w: x[0] / w[0, 0],
    "quotients": lambda x, w: jnp.sin(x) / w[0],
    "places": lambda x, w: (jnp.sort(x), jnp.argmax(x), x[::-1].at[3].set(0.5), jnp.max(x)),
}


def copies(f):
    return lambda xs, w: [f(x, w) for x in xs]


def mapped(f):
    return lambda xs, w: lax.map(lambda x: f(x, w), xs)


EXACT = [VmapRepeats(), ScanRepeats(least=8), MapToVmap()]


@pytest.mark.parametrize(("name", "rewrite"), sample(itertools.product(ROUNDED, EXACT), 20))
def test_without_reassociation_every_bit_is_kept(name, rewrite):
    f = (mapped if isinstance(rewrite, MapToVmap) else copies)(ROUNDED[name])
    args = rng.normal(size=(9, 300)), rng.normal(size=(20, 300))
    ours, wanted = (jax.jit(g)(*args) for g in (jaxprgen.transform(f, rewrite), f))
    jax.tree.map(np.testing.assert_array_equal, ours, wanted)


@pytest.mark.parametrize("name", ROUNDED)
def test_what_is_batched_with_and_without_reassociation(name):
    closed = jax.make_jaxpr(mapped(ROUNDED[name]))(np.ones((9, 300)), np.ones((20, 300)))
    assert (MapToVmap()(closed) is closed) == (name not in ("elementwise", "places"))
    found = MapToVmap(reassociate=True)(closed)
    stays = any(e.params.get("length") == 9 for e in found.jaxpr.eqns)
    assert stays == (name == "loop")  # Others of these may be longer than their own.


def test_sums_of_integers_are_batched_without_reassociation():
    f = mapped(lambda x, w: (w @ x, x.sum(), jnp.cumsum(x)))
    found = MapToVmap()(jax.make_jaxpr(f)(np.ones((9, 3), int), np.ones((2, 3), int)))
    assert all(e.primitive.name != "scan" for e in found.jaxpr.eqns)


# --- Loops whose lengths depend on values ---------------------------------------------------------


def power(n):
    """Return the smallest power of two ``p`` with ``n * p >= 10``; for ``n = 0`` there is none."""
    return lax.while_loop(lambda p: p * n < 10, lambda p: 2 * p, jnp.int32(1))


differentiable = jax.custom_jvp(power)
differentiable.defjvps(lambda t, y, n: t)
INSIDE = {
    "a loop": power,
    "a call": jax.jit(power),
    "a custom derivative": differentiable,
    "a branch": lambda n: lax.cond(n < 5, power, lambda n: 2 * n, n),
    "a scan": lambda n: lax.scan(lambda c, _: (c + power(n), None), n, None, 3)[0],
}


@pytest.mark.parametrize("name", INSIDE)
def test_loops_inside_do_not_run_on_rows_that_are_done(name):
    """On their last values, the loop inside would never end."""

    def count(n):
        def step(c):
            n, total = c
            return n - 1, total + INSIDE[name](n)

        return lax.while_loop(lambda c: c[0] > 0, step, (n, jnp.int32(0)))[1]

    def f(x):
        return [count(x[i]) for i in range(9)], lax.map(count, x)

    x = np.arange(1, 10, dtype=np.int32)
    for rewrite in (VmapRepeats(), ScanRepeats(least=8), MapToVmap(), DistributeScan()):
        found = rewrite(jax.make_jaxpr(f)(x))
        loops = [e for e in all_equations(found.jaxpr) if e.primitive.name == "while"]
        assert {v.aval.shape for e in loops for v in e.outvars} == {()}
    assert jax.tree.map(int, jaxprgen.transform(f, *DEFAULT)(x)[0]) == [int(count(n)) for n in x]


def test_reasons_why_a_loop_is_left_alone():
    def f(x):
        return [lax.while_loop(lambda n: n < 9, lambda n: n + power(n), v) for v in x]

    with listening() as notes:
        VmapRepeats()(jax.make_jaxpr(f)(np.arange(1, 10, dtype=np.int32)))
    assert "a loop inside may not end on rows that are done" in str(notes.repeats())


def root(a):
    return lax.while_loop(lambda x: jnp.abs(x * x - a) > 1e-3, lambda x: 0.5 * (x + a / x), a)


def draw(seed):
    return jax.random.poisson(jax.random.key(seed.astype(int)), 2.0)


def steps(a):
    """Return a carry that depends on the condition alone, and one with axes of its own."""
    start = a, 0, jnp.ones((2, 3)) * a
    return lax.while_loop(
        lambda c: c[0] < 9, lambda c: (c[0] + a, c[1] + 1, jnp.tanh(c[2] @ c[2].T @ c[2])), start
    )


@pytest.mark.parametrize(("loop", "axes"), in_turn([root, draw, steps], [1, 2]))
def test_conditions_with_axes(loop, axes):
    """Loops made by ``vmap`` have one condition for each element."""
    x = np.ceil(rng.uniform(1, 9, (9, 3, 2)[: axes + 1]))
    for _ in range(axes):
        loop = jax.vmap(loop)
    f = lambda x: [loop(x[i]) for i in range(9)]  # noqa: E731
    found = VmapRepeats(reassociate=True)(jax.make_jaxpr(f)(x))
    check_jaxpr(found.jaxpr)
    assert sum(e.primitive.name == "while" for e in all_equations(found.jaxpr)) in (1, 2)
    ours, wanted = in_one_program([jaxprgen.jaxpr_as_fun(found), f], x)
    for a, b in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def counts(x):
    def count(a):
        start = a, 0
        return lax.while_loop(lambda c: c[0] < 5.0, lambda c: (c[0] * 1.5, c[1] + 1), start)[1]

    return [count(jnp.tanh(jnp.sin(x[i]))) for i in range(8)]


def numbers(x):
    return lax.scan(lambda c, r: (c, (2, r * r, c)), 0, x)


@pytest.mark.parametrize(("f", "rewrite"), [(counts, VmapRepeats()), (numbers, MapToVmap())])
def test_weak_types_are_kept_when_a_program_is_traced_again(f, rewrite):
    x = np.ones((3, 8))
    assert rewrite(program := jax.make_jaxpr(f)(x[0])) is not program
    for trace in (jax.jit, jax.vmap):
        found, wanted = (
            jax.make_jaxpr(trace(g))(x if trace is jax.vmap else x[0])
            for g in (jaxprgen.transform(f, rewrite), jax.jit(f))
        )
        assert [v.weak_type for v in found.out_avals] == [v.weak_type for v in wanted.out_avals]


# --- Derivatives of the user's --------------------------------------------------------------------

sine = jax.custom_jvp(jnp.sin)
sine.defjvps(lambda t, y, x: 3 * t)
cosine = jax.custom_vjp(jnp.cos)
cosine.defvjp(lambda x: (jnp.cos(x), x), lambda x, t: (t * x,))


@pytest.mark.parametrize(
    ("rewrite", "own"), in_turn([VmapRepeats(), MapToVmap(), DistributeScan()], [sine, cosine])
)
def test_derivatives_of_the_user_are_kept(rewrite, own):
    def f(x):
        once = jax.jit(own)
        step = lambda c, row: (c * row, jnp.sin(own(row + 1)))  # noqa: E731
        return lax.map(own, x), lax.scan(step, x[0], x), [once(2 * x[i]) for i in range(9)]

    x = rng.normal(size=9)
    found = rewrite(jax.make_jaxpr(f)(x))
    calls = [e for e in all_equations(found.jaxpr) if e.primitive.name.startswith("custom")]
    assert (9,) in {v.aval.shape for e in calls for v in e.outvars}
    ours, wanted = (jax.jit(jax.jacrev(g))(x) for g in (jaxprgen.jaxpr_as_fun(found), f))
    jax.tree.map(np.testing.assert_allclose, jax.tree.leaves(ours), jax.tree.leaves(wanted))


# --- Random draws ---------------------------------------------------------------------------------


KEYS = ["threefry2x32", "rbg", "unsafe_rbg"]
BATCHING = [VmapRepeats(), MapToVmap(), DistributeScan(), *DEFAULT[:1]]


@pytest.mark.parametrize(("rewrite", "kind"), in_turn(BATCHING, KEYS))
def test_draws_of_every_kind_of_keys_stay_the_same(rewrite, kind):
    """Rows of keys draw what each key draws alone only if they are Threefry's."""

    def f(keys):
        def draw(key):
            pair = jax.random.split(jax.random.fold_in(key, 3))
            again = jax.random.wrap_key_data(jax.random.key_data(key), impl=kind)
            return jax.random.bits(pair[0]), jax.random.bits(again, (3,))

        def step(key, own):
            return jax.random.split(key)[0], (jnp.exp(jax.random.uniform(key)), draw(own))

        return (
            [draw(keys[i]) for i in range(8)],
            lax.map(draw, keys),
            lax.scan(step, keys[0], keys)[1],
        )

    keys = jax.random.split(jax.random.key(0, impl=kind), 8)
    ours, wanted = in_one_program([jaxprgen.transform(f, rewrite), f], keys)
    for a, b in zip(ours, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    closed = jax.make_jaxpr(lambda keys: lax.map(jax.random.bits, keys))(keys)
    assert (MapToVmap()(closed) is closed) == (kind != "threefry2x32")


NUMBERS = {
    "one number for all keys": lambda keys, i: jax.vmap(lambda k: jax.random.fold_in(k, i))(keys),
    "one key for all numbers": lambda keys, i: jax.vmap(
        lambda j: jax.random.fold_in(keys[0], j + i)
    )(jnp.arange(3)),
    "pairs": lambda keys, i: jax.vmap(jax.random.fold_in)(keys, i + jnp.arange(3)),
    "a grid": lambda keys, i: jax.vmap(
        lambda k: jax.vmap(lambda j: jax.random.fold_in(k, j + i))(jnp.arange(2))
    )(keys),
    "gamma": lambda keys, i: jax.random.split(
        jax.vmap(lambda k: jax.random.fold_in(k, i))(keys)[0]
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_folded_into_several_keys(name):
    def f(keys):
        fold = lambda i: jax.random.key_data(NUMBERS[name](keys, i))  # noqa: E731
        return [fold(i) for i in range(8)], lax.map(fold, jnp.arange(4))

    keys = jax.random.split(jax.random.key(0), 3)
    program = jax.make_jaxpr(f)(keys)
    found = MapToVmap()(VmapRepeats()(program))
    assert all(e.primitive.name != "scan" for e in found.jaxpr.eqns)
    ours, wanted = in_one_program([jaxprgen.jaxpr_as_fun(found), f], keys)
    for a, b in zip(ours, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
