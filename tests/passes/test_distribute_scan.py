"""`DistributeScan`: work outside of recurrences, in any JAX program."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from laws import all_equations, in_one_program

from jaxprgen._jax import check_jaxpr, open_jaxpr
from jaxprgen.api import jaxpr_as_fun
from jaxprgen.passes import CostModel, DistributeScan, MapToVmap

xs = np.random.default_rng(0).normal(size=(6, 3))
w = np.random.default_rng(1).normal(size=(3, 3))
exact = DistributeScan()
summing = DistributeScan(reassociate=True)


def loop(step, start):
    return lambda x, w: lax.scan(lambda c, r: step(c, r, w), start, x)


def body_of(closed):
    """Return the primitives in the body of a program's only loop."""
    (eqn,) = (e for e in closed.jaxpr.eqns if e.primitive.name == "scan")
    return [e.primitive.name for e in open_jaxpr(eqn.params["jaxpr"]).eqns]


one = np.ones(3)
LOOPS = {
    "before": (summing, loop(lambda c, r, w: (jnp.tanh(c + r @ w), c), one), {"add", "tanh"}),
    "behind": (summing, loop(lambda c, r, w: (c * r, jnp.sin(c @ w) ** 2), one), {"mul"}),
    "both": (
        summing,
        loop(lambda c, r, w: (c * jnp.exp(r), (jnp.log(c * c) @ w, c + r, 2 * r)), one),
        {"mul"},
    ),
    "what is handed over before": (
        exact,
        loop(lambda c, r, w: ((jnp.sin(c[0]) + c[1], jnp.exp(r)), c[0]), (one, one)),
        {"sin", "add"},
    ),
    "what is handed over behind": (
        exact,
        loop(lambda c, r, w: ((jnp.sin(c[0]) + r, c[0] * 2), jnp.cos(c[1])), (one, one)),
        {"sin", "add"},
    ),
    "a recurrence that another one needs": (
        summing,
        loop(
            lambda c, r, w: (
                (jnp.sin(c[0]), c[1] * c[2], jnp.cos(c[0])),
                c[1] @ w,
            ),
            (one, one, one),
        ),
        {"sin", "cos", "mul"},
    ),
    "a sum behind": (
        summing,
        loop(lambda c, r, w: ((jnp.sin(c[0]) + r, c[1] + c[0] @ w), None), (one, one)),
        {"sin", "add"},
    ),
    "a sum of products": (
        summing,
        loop(
            lambda c, r, w: ((jnp.sin(c[0]) + r, c[1] + jnp.outer(c[0], r), c[2] + 1), None),
            (one, w, np.int32(0)),
        ),
        {"sin", "add"},
    ),
    "a sum in order": (
        exact,
        loop(lambda c, r, w: (c + jnp.sin(r), jnp.cos(c)), one),
        {"add"},
    ),
}


def assert_same_with_gradients(f, found, rtol=1e-12):
    """Compare the results and derivatives of a program with those of a function."""
    check_jaxpr(found.jaxpr)
    run = jaxpr_as_fun(found)

    def total(values):
        return sum(jnp.sum(jnp.sin(v)) for v in values)

    slopes = [jax.grad(lambda *a, g=g: total(jax.tree.leaves(g(*a))), (0, 1)) for g in (run, f)]
    ours, theirs, our_slopes, their_slopes = in_one_program([run, f, *slopes], xs, w)
    for x, y in zip(ours, theirs, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=rtol)
    for x, y in zip(our_slopes, their_slopes, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LOOPS)
def test_only_the_recurrence_stays_in_the_loop(name):
    rewrite, f, inside = LOOPS[name]
    found = rewrite(jax.make_jaxpr(f)(xs, w))
    assert set(body_of(found)) == inside
    assert_same_with_gradients(f, found)
    assert rewrite(found) is found


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("has_gradient", [False, True])
def test_a_symbolic_number_of_steps(name, has_gradient):
    """Costs are weighed without knowing the number of steps."""
    f = LOOPS[name][1]

    def gradient(x, w):
        return jax.grad(lambda x: sum(y.sum() for y in jax.tree.leaves(f(x, w))))(x)

    rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 3"), xs.dtype)
    closed = jax.make_jaxpr(gradient if has_gradient else f)(rows, w)
    found = DistributeScan(reassociate=True, cost=CostModel())(closed)
    check_jaxpr(found.jaxpr)


@pytest.mark.parametrize("name", ["both", "what is handed over behind", "a sum behind"])
def test_gradient_loops(name):
    """The gradient loops of JAX run in reverse."""
    f = LOOPS[name][1]

    def backwards(x, w):
        return jax.vjp(lambda x: jax.tree.leaves(f(x, w)), x)[1](
            [jnp.ones_like(y) for y in jax.tree.leaves(f(x, w))]
        )

    closed = jax.make_jaxpr(backwards)(xs, w)
    assert any(e.params.get("reverse") for e in closed.jaxpr.eqns)
    found = DistributeScan(reassociate=True)(closed)
    assert found is not closed
    for x, y in zip(*in_one_program([jaxpr_as_fun(found), backwards], xs, w), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10)


def branching(c, r, w):
    return lax.cond(r[0] > 0, jnp.sin, jnp.cos, c), r


LEFT = {
    "nothing to move": loop(lambda c, r, w: (jnp.sin(c) + r, None), one),
    "no more to win than to hand over": lambda x, w: lax.scan(
        lambda c, _: ((jnp.sin(c[0]), jnp.cos(c[1])), c[0] * c[1]), (one, one), None, 6
    ),
    "a sum whose order matters": loop(lambda c, r, w: (c + r, c), one),
    "no recurrence": loop(lambda c, r, w: (r, c), one),
    "no step": lambda x, w: loop(lambda c, r, w: (jnp.sin(c), jnp.exp(r)), one)(x[:0], w),
}


@pytest.mark.parametrize("name", LEFT)
def test_loops_that_stay(name):
    closed = jax.make_jaxpr(LEFT[name])(xs, w)
    assert summing(closed) is closed


STUCK = {
    "in the recurrence": lambda c, r, w: (branching(c, r, w)[0], jnp.exp(c) @ w),
    "behind it": lambda c, r, w: (jnp.sin(c), jnp.exp(branching(c, r, w)[0]) @ w),
    "without any": lambda c, r, w: (c, jnp.exp(branching(one, r, w)[0]) @ w),
    "of what is handed over": lambda c, r, w: (r @ w, jnp.exp(branching(c, r, w)[0]) @ w),
}


@pytest.mark.parametrize("name", STUCK)
def test_only_the_equation_without_a_rule_stays(name):
    """An equation without a batching rule does not keep others in the loop."""
    f = loop(STUCK[name], one)
    found = summing(jax.make_jaxpr(f)(xs, w))
    assert "cond" in body_of(found)
    assert not {"exp", "dot_general"}.intersection(body_of(found))
    assert_same_with_gradients(f, found)


def test_inner_loops_with_unread_results():
    def f(x, w):
        def inner(c, _):
            return (jnp.sin(c[0]), jnp.cos(c[1]) + c[0]), c[0]

        def step(c, r):
            (last, _), _ = lax.scan(inner, (c, r), None, 3)
            return last, jnp.exp(c) @ w

        return lax.scan(step, one, x)

    found = summing(jax.make_jaxpr(f)(xs, w))
    assert "scan" in body_of(found)
    assert "dot_general" not in body_of(found)
    assert_same_with_gradients(f, found)


@jax.custom_jvp
def custom(a, b):
    return jnp.sin(a) * b, a - b


custom.defjvp(lambda primals, tangents: (custom(*primals), tangents))
remat = jax.checkpoint(lambda a, b: (jnp.sin(a) * b, a - b))
SEVERAL = {
    "a call": jax.jit(lambda a, b: (jnp.sin(a) * b, a - b)),
    "a custom derivative": custom,
    "rematerialization": lambda a, b: jax.vjp(remat, a, b)[1]((a, b)),
    "a branch": lambda a, b: lax.cond(b[0] > 0, lambda: (a * b, b), lambda: (a / 2, a - b)),
    "a loop": lambda a, b: lax.while_loop(
        lambda c: c[0][0] > 0.5, lambda c: (c[0] / 2, c[1] + c[0]), (a, b)
    ),
    "a scan": lambda a, b: lax.scan(lambda c, i: (jnp.sin(c), c + i), a, b)[::1],
    "two sorted arrays": lambda a, b: lax.sort((a, b), num_keys=1),
    "a factorization": lambda a, b: jnp.linalg.eigh(jnp.outer(a, a) + jnp.eye(3)),
}


@pytest.mark.parametrize("rewrite", [exact, summing], ids=["exact", "summing"])
@pytest.mark.parametrize("name", SEVERAL)
def test_some_results_of_an_equation_are_needed_in_the_loop(name, rewrite):
    """The others are read after it, by equations and by sums."""

    def both(a, b):
        u, v = SEVERAL[name](a, b)
        return u if u.shape == a.shape else jnp.tile(u, 3)[:3], jnp.tanh(v).reshape(-1, 3).sum(0)

    def f(x, w):
        def step(carry, r):
            h, total = carry
            u, v = both(h, r)
            return (u, total + v), (jnp.exp(v) + jnp.cos(r), jnp.tan(r), v * r)

        def other(carry, r):
            v, u = both(carry, r)
            return u, (jnp.exp(v) + jnp.cos(r), jnp.tan(r))

        return lax.scan(step, (one, one), x), lax.scan(other, one, x, reverse=True)

    found = rewrite(jax.make_jaxpr(f)(xs, w))
    bodies = [e.params["jaxpr"] for e in found.jaxpr.eqns if e.primitive.name == "scan"]
    inside = [e.primitive.name for body in bodies for e in all_equations(open_jaxpr(body))]
    assert len(bodies) >= 2 and "tan" not in inside
    check_jaxpr(found.jaxpr)
    for x, y in zip(*in_one_program([jaxpr_as_fun(found), f], xs, w), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_gradients_of_selections():
    """JAX derives ``where`` as a call with one result for each branch."""

    def loss(c, x):
        return lax.scan(lambda h, r: (jnp.where(r > 0, c, h), h * r), one, x)[1].sum()

    closed = jax.make_jaxpr(jax.grad(loss, (0, 1)))(one, xs)
    found = summing(closed)
    assert found is not closed
    ours, theirs = in_one_program([jaxpr_as_fun(found), jax.grad(loss, (0, 1))], one, xs)
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_unrolling_is_kept():
    f = lambda x: lax.scan(lambda c, r: (jnp.sin(c), c * r), one, x, unroll=3)  # noqa: E731
    found = exact(jax.make_jaxpr(f)(xs))
    (eqn,) = (e for e in found.jaxpr.eqns if e.primitive.name == "scan")
    assert eqn.params["unroll"] == 3


def test_memory_limit():
    f = loop(lambda c, r, w: (c * r, jnp.sin(c)), one)
    closed = jax.make_jaxpr(f)(xs, w)
    rows = 6 * 3 * 8
    last = 3 * 8
    assert DistributeScan(memory=2 * rows + last)(closed) is not closed
    assert DistributeScan(memory=2 * rows + last - 1)(closed) is closed


def halved(a, b):
    """Return what a loop of a length that depends on values carries."""
    start = lax.stop_gradient((a, b))
    return lax.while_loop(
        lambda c: jnp.abs(c[0]).sum() > 0.5, lambda c: (c[0] / 2, c[1] + c[0]), start
    )


OPERATIONS = [
    lambda a, b: (jnp.sin(a),),
    lambda a, b: (a[::-1],),
    lambda a, b: (a + b,),
    lambda a, b: (jnp.tanh(a) * jnp.tanh(b),),
    lambda a, b: (jnp.where(a > 0, a, b),),
    lambda a, b: (jnp.tanh(a) * b.sum(),),
    jax.jit(lambda a, b: (jnp.sin(a) * jnp.cos(b), a - b)),
    custom,
    lambda a, b: lax.cond(a.sum() > 0, lambda: (jnp.sin(b), a), lambda: (a / 2, a - b)),
    halved,
    lambda a, b: lax.scan(
        lambda c, r: (jnp.sin(c) + r, jnp.where(r > 0, c, r)), a, jnp.stack([a, b]), reverse=True
    ),
    lambda a, b: lax.sort((a, b), num_keys=1),
]


@given(data=st.data(), n=st.integers(1, 4), k=st.integers(0, 3), backwards=st.booleans())
def test_random_loops(data, n, k, backwards):
    """Loops with three carries and random equations compute the same as before."""
    places = st.integers(0, 9)
    kinds = st.integers(0, len(OPERATIONS) - 1)
    choices = data.draw(st.lists(st.tuples(kinds, places, places), max_size=8))
    ends = data.draw(st.lists(places, min_size=6, max_size=6))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    x, start = generator.normal(size=(n, k)), tuple(generator.normal(size=(3, k)))

    def step(carry, row):
        values = [row, *carry]
        for which, i, j in choices:
            a, b = values[-1 - i % len(values)], values[-1 - j % len(values)]
            values += [v if v.shape == a.shape else v.sum(0) for v in OPERATIONS[which](a, b)]
        found = [values[-1 - i % len(values)] for i in ends]
        return (jnp.sin(found[0]), jnp.sin(found[1]), carry[2] + found[2]), found[3:]

    def f(x):
        return lax.scan(step, start, x, reverse=backwards)

    def gradient(x):
        return jax.grad(lambda x: sum(jnp.sin(y).sum() for y in jax.tree.leaves(f(x))))(x)

    programs = []
    for g in (f, gradient):
        closed = jax.make_jaxpr(g)(x)
        for rewrite in (exact, summing, MapToVmap(reassociate=True)):
            found = rewrite(closed)
            check_jaxpr(found.jaxpr)
            programs.append(jaxpr_as_fun(found))
    wanted, slopes, *others = in_one_program([f, gradient, *programs], x)
    for got in others[:3]:
        jax.tree.map(
            functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9), got, wanted
        )
    for got in others[3:]:
        np.testing.assert_allclose(got, slopes, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
def test_random_keys(make):
    """Random draws are unchanged, and keys among the carries are not summed."""

    def f(keys, x):
        def step(carry, row):
            key, before = carry
            key, own = jax.random.split(key)
            return (key, row[0]), (jax.random.normal(own) + jnp.exp(row[1]), before)

        return lax.scan(step, (keys[0], keys[0]), (keys, x))

    args = jax.random.split(make(0), 6), xs
    found = summing(jax.make_jaxpr(f)(*args))
    assert "exp" not in body_of(found)
    check_jaxpr(found.jaxpr)
    for x, y in zip(*in_one_program([jaxpr_as_fun(found), f], *args), strict=True):
        if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = map(jax.random.key_data, (x, y))
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_sums_of_bfloat16_are_not_exact():
    f = loop(lambda c, r, w: (c + r, jnp.sin(r)), jnp.ones(3, jnp.bfloat16))
    closed = jax.make_jaxpr(f)(xs.astype(jnp.bfloat16), w)
    assert "add" in body_of(exact(closed))
