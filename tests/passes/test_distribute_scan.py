"""`DistributeScan`: work outside of recurrences, in any JAX program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from jax import lax
from laws import all_equations, assert_close, assert_computes, in_one_program, total
from loop_bodies import loop, one, only_body, scans, w, xs
from profiles import examples

from jaxprgen._jax import check_jaxpr, open_jaxpr
from jaxprgen.api import jaxpr_as_fun
from jaxprgen.passes import CostModel, DistributeScan, MapToVmap

exact = DistributeScan()
summing = DistributeScan(reassociate=True)
LOOPS = {  # The pass, the loop, and the primitives that stay in it.
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
            lambda c, r, w: ((jnp.sin(c[0]), c[1] * c[2], jnp.cos(c[0])), c[1] @ w), (one, one, one)
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
    "a sum in order": (exact, loop(lambda c, r, w: (c + jnp.sin(r), jnp.cos(c)), one), {"add"}),
}


@pytest.mark.parametrize("name", LOOPS)
def test_only_the_recurrence_stays_in_the_loop(name):
    rewrite, f, inside = LOOPS[name]
    found = rewrite(jax.make_jaxpr(f)(xs, w))
    assert set(only_body(found)) == inside
    assert rewrite(found) is found
    assert_computes(found, f, xs, w, slopes=(0, 1))


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("has_gradient", [False, True])
def test_a_symbolic_number_of_steps(name, has_gradient):
    """Costs are weighed without knowing the number of steps."""
    f = LOOPS[name][1]

    def gradient(x, w):
        return jax.grad(lambda x: sum(y.sum() for y in jax.tree.leaves(f(x, w))))(x)

    rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 3"), xs.dtype)
    closed = jax.make_jaxpr(gradient if has_gradient else f)(rows, w)
    check_jaxpr(DistributeScan(reassociate=True, cost=CostModel())(closed).jaxpr)


@pytest.mark.parametrize("name", ["both", "what is handed over behind", "a sum behind"])
def test_gradient_loops(name):
    """The gradient loops of JAX run in reverse."""
    f = LOOPS[name][1]

    def backwards(x, w):
        return jax.grad(lambda x: sum(y.sum() for y in jax.tree.leaves(f(x, w))))(x)

    closed = jax.make_jaxpr(backwards)(xs, w)
    assert any(e.params["reverse"] for e in scans(closed))
    found = summing(closed)
    assert found is not closed
    assert_computes(found, backwards, xs, w, rtol=1e-10)


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


def branching(c, r):
    return lax.cond(r[0] > 0, jnp.sin, jnp.cos, c)


def of_an_inner_loop(c, r, w):
    """One of its results is not read."""
    inner = lambda c, _: ((jnp.sin(c[0]), jnp.cos(c[1]) + c[0]), c[0])  # noqa: E731
    return lax.scan(inner, (c, r), None, 3)[0][0], jnp.exp(c) @ w


STUCK = {  # The equation without a rule that stays, and the step.
    "in the recurrence": ("cond", lambda c, r, w: (branching(c, r), jnp.exp(c) @ w)),
    "behind it": ("cond", lambda c, r, w: (jnp.sin(c), jnp.exp(branching(c, r)) @ w)),
    "without any": ("cond", lambda c, r, w: (c, jnp.exp(branching(one, r)) @ w)),
    "of what is handed over": ("cond", lambda c, r, w: (r @ w, jnp.exp(branching(c, r)) @ w)),
    "of an inner loop": ("scan", of_an_inner_loop),
}


@pytest.mark.parametrize("name", STUCK)
def test_only_the_equation_without_a_rule_stays(name):
    """An equation without a batching rule does not keep others in the loop."""
    primitive, step = STUCK[name]
    found = summing(jax.make_jaxpr(loop(step, one))(xs, w))
    assert primitive in only_body(found)
    assert not {"exp", "dot_general"}.intersection(only_body(found))
    assert_computes(found, loop(step, one), xs, w, slopes=(0, 1))


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
    assert_computes(found, f, xs, w)


def test_gradients_of_selections():
    """JAX derives ``where`` as a call with one result for each branch."""

    def loss(c, x):
        return lax.scan(lambda h, r: (jnp.where(r > 0, c, h), h * r), one, x)[1].sum()

    closed = jax.make_jaxpr(jax.grad(loss, (0, 1)))(one, xs)
    found = summing(closed)
    assert found is not closed
    assert_computes(found, jax.grad(loss, (0, 1)), one, xs)


def test_unrolling_is_kept():
    f = loop(lambda c, r, w: (jnp.sin(c), c * r), one)
    found = exact(jax.make_jaxpr(lambda x, w: f(x, w, unroll=3))(xs, w))
    assert [e.params["unroll"] for e in scans(found)] == [3]


def test_memory_limit():
    closed = jax.make_jaxpr(loop(lambda c, r, w: (c * r, jnp.sin(c)), one))(xs, w)
    needed = 2 * xs.nbytes  # Two arrays of rows.
    assert DistributeScan(memory=needed)(closed) is not closed
    assert DistributeScan(memory=needed - 1)(closed) is closed


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


@examples(1, quick=0.4)
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

    for g, tolerance in ((f, 1e-9), (jax.grad(lambda x: total(f(x))), 1e-8)):
        closed = jax.make_jaxpr(g)(x)
        found = [p(closed) for p in (exact, summing, MapToVmap(reassociate=True))]
        for program in found:
            check_jaxpr(program.jaxpr)
        wanted, *others = in_one_program([g, *map(jaxpr_as_fun, found)], x)
        for ours in others:
            assert_close(ours, wanted, tolerance, tolerance)


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
    assert "exp" not in only_body(found)
    assert_computes(found, f, *args)


def test_sums_of_bfloat16_are_not_exact():
    f = loop(lambda c, r, w: (c + r, jnp.sin(r)), jnp.ones(3, jnp.bfloat16))
    assert "add" in only_body(exact(jax.make_jaxpr(f)(xs.astype(jnp.bfloat16), w)))
