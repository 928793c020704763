"""`ShareScan`: loops that compute values of other loops again, in any JAX program."""

import itertools

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from jax import lax
from laws import assert_agrees, assert_computes, primitives
from loop_bodies import body_of, grown, scans, w
from profiles import examples, sample

import jaxprgen
from jaxprgen._jax import open_jaxpr
from jaxprgen.passes import DEFAULT, ShareScan

xs = np.random.default_rng(0).normal(size=(4, 3))
rewrite = ShareScan()


def bodies(closed):
    """Return the primitives in the bodies of a program's loops, and their numbers of results."""
    return [(body_of(e), len(e.outvars)) for e in closed.jaxpr.eqns if e.primitive.name == "scan"]


def assert_same_values(f, found, *args, **options):
    assert_computes(found, f, *args, atol=1e-12, **options)


def pair(forwards, backwards, unroll=1):
    """Return a loop that stacks rows, and a reversed loop over those and the same sequences."""

    def f(x, w):
        start = np.full(3, 0.5)
        end, kept = lax.scan(lambda c, r: forwards(c, r, w), start, x, unroll=unroll)

        def step(g, rows):
            return backwards(g, *rows, w), None

        return end, lax.scan(step, end, (*kept, x), reverse=True, unroll=unroll)[0]

    return f


SHARED = {  # The primitives of the second loop afterwards, and the number of results of the first.
    "what is dear": (
        lambda c, r, w: (jnp.tanh(c @ w) + r, (c,)),
        lambda g, c, r, w: (g * (1 - jnp.tanh(c @ w) ** 2)) @ w.T,
        {"mul", "sub", "integer_pow", "transpose", "dot_general"},
        2,
    ),
    "of rows that both are given": (
        lambda c, r, w: (jnp.sin(c) * jnp.exp(r), (c,)),
        lambda g, c, r, w: g * jnp.exp(r) * c,
        {"mul"},
        3,
    ),
    "several": (
        lambda c, r, w: (jnp.sin(c) + jnp.cos(r), (c,)),
        lambda g, c, r, w: g * jnp.sin(c) + jnp.cos(r),
        {"mul", "add"},
        3,
    ),
    "not what is cheap behind it": (
        lambda c, r, w: (-jnp.exp(c) + r, (c,)),
        lambda g, c, r, w: g * -jnp.exp(c),
        {"neg", "mul"},
        2,
    ),
    "not what comes before it": (
        lambda c, r, w: (jnp.sin(jnp.exp(c) * 2) + r, (c,)),
        lambda g, c, r, w: g * jnp.sin(jnp.exp(c) * 2),
        {"mul"},
        2,
    ),
    "what is stacked": (
        lambda c, r, w: (jnp.sin(c) + r, (c, jnp.sin(c))),
        lambda g, c, s, r, w: g * jnp.sin(c),
        {"mul"},
        2,
    ),
    "what is stacked, where that is cheap": (
        lambda c, r, w: (jnp.sin(c) + r, (c, jnp.sin(c) + r)),
        lambda g, c, s, r, w: g * (jnp.sin(c) + r) + s,
        {"mul", "add"},
        2,
    ),
    "a number": (
        lambda c, r, w: (jnp.sin(c) * jnp.sum(r), (c, 2.0)),
        lambda g, c, n, r, w: g * n * jnp.sum(r),
        {"mul", "convert_element_type"},
        2,
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_expensive_values_are_computed_once(name):
    forwards, backwards, left, results = SHARED[name]
    f = pair(forwards, backwards)
    closed = jax.make_jaxpr(f)(xs, w)
    found = rewrite(closed)
    (_, count), (after, _) = bodies(found)
    assert (set(after), count) == (left, results)
    assert rewrite(found) is found
    assert_same_values(f, found, xs, w, slopes=[0])


def sine(c, r, w):
    return jnp.sin(c) + r, (c,)


def cosine(g, c, r, w):
    return g * jnp.cos(c)


def shorter(x, w):
    end, kept = lax.scan(lambda c, r: sine(c, r, w), x[0], x)
    return lax.scan(lambda g, c: (g * jnp.sin(c), None), end, kept[0][1:])[0]


def reversed_rows(x, w):
    end, kept = lax.scan(lambda c, r: sine(c, r, w), x[0], x)
    return lax.scan(lambda g, c: (g * jnp.sin(c), None), end, kept[0][::-1])[0]


def printing(g, c, r, w):
    jax.debug.print("{}", c[0])
    return g * jnp.sin(c)


def looping(c, w):
    return lax.fori_loop(0, 3, lambda _, v: jnp.sin(v @ w), c)


STAYS = {
    "nothing that both compute": pair(sine, cosine),
    "of other rows": pair(sine, lambda g, c, r, w: g * jnp.sin(r)),
    "of what is carried": pair(sine, lambda g, c, r, w: jnp.sin(g) * c),
    "what is cheap": pair(
        lambda c, r, w: (c * r - 2, (c,)), lambda g, c, r, w: g + jnp.sqrt((c * r - 2) ** 2)
    ),
    "fewer steps": shorter,
    "the other order": reversed_rows,
    "an effect": pair(sine, printing),
    "a loop inside": pair(
        lambda c, r, w: (looping(c, w) + r, (c,)), lambda g, c, r, w: g + looping(c, w) * r
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_loops_that_stay(name):
    closed = jax.make_jaxpr(STAYS[name])(xs, w)
    assert rewrite(closed) is closed


def test_chains_of_three_loops():
    def f(x):
        step = lambda c, r: (jnp.sin(c) + r, c)  # noqa: E731
        end, kept = lax.scan(step, x[0], x)
        end, more = lax.scan(lambda g, c: (g * jnp.sin(c) + jnp.exp(c), g), end, kept)
        return lax.scan(
            lambda g, r: (g + jnp.exp(r[0]) * jnp.sin(r[0]) * r[1], 0), end, (kept, more)
        )

    found = rewrite(jax.make_jaxpr(f)(xs))
    used = [name for body, _ in bodies(found) for name in body]
    assert used.count("sin") == used.count("exp") == 1
    assert_same_values(f, found, xs)


def test_loops_that_share_a_body():
    """JAX traces a body once, so both loops have the same program and variables."""

    def step(c, r):
        return jnp.sin(c) + jnp.exp(r), jnp.exp(r)

    def f(x):
        end, kept = lax.scan(step, x[0], x)
        return lax.scan(step, end, kept)

    closed = jax.make_jaxpr(f)(xs)
    one, two = (open_jaxpr(e.params["jaxpr"]) for e in scans(closed))
    assert one is two
    assert_same_values(f, rewrite(closed), xs)


def test_loops_inside_a_loop():
    f = pair(sine, lambda g, c, r, w: g * jnp.sin(c))

    def outer(x, w):
        return lax.scan(lambda c, r: (f(x + c, w)[1], r), x[0], x[:2])

    found = rewrite(jax.make_jaxpr(outer)(xs, w))
    assert len(scans(found)) == 3 and primitives(found).count("sin") == 1
    assert_same_values(outer, found, xs, w)


def test_unrolling_and_direction_are_kept():
    f = pair(sine, lambda g, c, r, w: g * jnp.sin(c), unroll=2)
    found = rewrite(jax.make_jaxpr(f)(xs, w))
    kept = [(e.params["unroll"], e.params["reverse"]) for e in scans(found)]
    assert kept == [(2, False), (2, True)]


def test_memory_limit():
    f = pair(sine, lambda g, c, r, w: g * jnp.sin(c))
    closed = jax.make_jaxpr(f)(xs, w)
    assert ShareScan(memory=xs.nbytes)(closed) is not closed
    assert ShareScan(memory=xs.nbytes - 1)(closed) is closed


def test_common_subexpressions_outside_of_loops():
    def f(x, w):
        return pair(sine, lambda g, c, r, w: g * c)(jnp.exp(x), w), jnp.exp(x)

    closed = jax.make_jaxpr(f)(xs, w)
    assert [primitives(p).count("exp") for p in (closed, rewrite(closed))] == [2, 1]
    assert_same_values(f, rewrite(closed), xs, w)
    alone = jax.make_jaxpr(lambda x: jnp.exp(x) + jnp.exp(x))(xs)
    assert rewrite(alone) is alone  # XLA eliminates these.


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
def test_random_draws(make):
    """Keys that are carried and split, and the draws with them."""

    def f(x):
        def step(key, r):
            key, own = jax.random.split(key)
            return key, (key, own, jax.random.normal(own) * r[0])

        def again(g, rows):
            return g + jax.random.normal(rows[1]), jax.random.bits(rows[0])

        last, kept = lax.scan(step, make(0), x)
        return last, lax.scan(again, 0.0, kept[:2], reverse=True)

    closed = jax.make_jaxpr(f)(xs)
    assert_same_values(f, rewrite(closed), xs)


OPERATIONS = [
    *(lambda a, _: jnp.sin(a), lambda a, _: jnp.exp(a), lambda a, _: a[::-1], lambda a, _: -a),
    *(jnp.add, jnp.multiply, lambda a, b: jnp.where(a > 0, a, b), lambda a, b: a * b.sum()),
]
places = st.integers(0, 9)
equation = st.tuples(st.integers(0, 7), places, places)


@examples(0.6, quick=0.4)
@given(
    both=st.lists(equation, max_size=6),
    others=st.lists(st.lists(equation, max_size=3), min_size=2, max_size=2),
    ends=st.lists(places, min_size=4, max_size=4),
    n=st.integers(0, 3),
    ways=st.tuples(st.booleans(), st.booleans()),
)
def test_random_loops(both, others, ends, n, ways):
    """Two loops with a common part agree, and expensive equations are computed once."""
    x, s = np.linspace(-1, 1, 2 * n).reshape(n, 2), np.asarray([0.25, -0.5])

    def f(x):
        def first(c, r):
            values = grown([r, c, s], both + others[0], OPERATIONS)
            return jnp.tanh(values[ends[0] % len(values)]), (c, values[ends[1] % len(values)])

        def second(g, rows):
            values = grown([rows[0], rows[1], s], both, OPERATIONS)
            same = len(values)
            values = grown([*values, g, rows[2]], others[1], OPERATIONS)
            return jnp.tanh(values[ends[2] % len(values)]), values[ends[3] % same]

        end, (before, stacked) = lax.scan(first, s, x, reverse=ways[0])
        return end, lax.scan(second, end, (x, before, stacked), reverse=ways[1])

    found = rewrite(jax.make_jaxpr(f)(x))
    assert_same_values(f, found, x)
    assert rewrite(found) is found


# --- Aesara graphs ------------------------------------------------------------------------


def hidden(y, scale):
    """Return the likelihood of a hidden Markov model with three states (forward algorithm)."""
    moves, means = np.log(0.1 * np.ones((3, 3)) + 0.7 * np.eye(3)), np.array([-1.0, 0.0, 1.5])

    def step(now, log, scale):
        return at.log(at.exp(log[:, None] + moves).sum(0)) - (now - scale * means) ** 2

    return at.exp(aesara.scan(step, y, at.zeros(3), [scale])[0][-1]).sum()


y, k, v = at.dvector("y"), at.dscalar("k"), at.dvector("v")
numbers = np.linspace(-1, 1, 6)


def test_gradient_of_a_hidden_markov_model():
    """Exponentials are computed once. Their sums are stacked, but no states."""
    cost = hidden(y, k)
    outputs = [cost, *aesara.grad(cost, [y, k])]
    for n in (1, 6):
        assert_agrees([y, k], outputs, [numbers[:n], 0.5])
    closed = jaxprgen.compile([y, k], outputs, passes=DEFAULT).jaxpr(numbers, 0.5)
    (forwards, stacked), (backwards, _) = bodies(closed)
    assert forwards.count("exp") == 1 and "exp" not in backwards
    assert stacked == 3
    outside = [e.primitive.name for e in closed.jaxpr.eqns]
    assert outside.count("exp") == 1  # Of the last state.


def tapped(p, q, c, d, k):
    return at.sin(c * k) * d + at.exp(p * q)


def carried(c, n, k):
    return at.tanh(c * k) + n, n + 1


@pytest.mark.parametrize(
    ("truncated", "backwards"), sample(itertools.product([-1, 1, 3], [False, True]), 3)
)
def test_gradients_of_other_loops(truncated, backwards):
    """Loops with taps, several results, integers, reversal and truncated gradients."""
    options = {"go_backwards": backwards, "truncate_gradient": truncated}
    rows, states = {"input": y, "taps": [-1, 1]}, {"initial": v, "taps": [-1, -2]}
    taps = aesara.scan(tapped, rows, states, [k], **options)[0]
    start = [k * 1.0, at.constant(0, dtype="int64")]
    trace, _ = aesara.scan(carried, None, start, [k], n_steps=3, truncate_gradient=truncated)[0]
    costs = [(taps**2).sum(), (trace**2).sum()]
    outputs = [*costs, *aesara.grad(costs[0], [y, v, k]), aesara.grad(costs[1], k)]
    assert_agrees([y, v, k], outputs, [numbers, numbers[:2], 0.5])
