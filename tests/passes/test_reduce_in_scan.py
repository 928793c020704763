"""`ReduceInScan`: stacked results that are only reduced, in any JAX program."""

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from jax import lax
from laws import all_equations, assert_close, assert_computes, in_one_program, total
from loop_bodies import grown, only_body, printing, scans, w
from profiles import examples, sample

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.api import jaxpr_as_fun
from jaxprgen.passes import ReduceInScan

N = 101
xs = np.random.default_rng(0).normal(size=(N, 3))
exact = ReduceInScan()
free = ReduceInScan(reassociate=True)


def states(x, w, **options):
    """Return the stacked states of a recurrence."""
    return lax.scan(lambda c, r: (jnp.tanh(c @ w + r),) * 2, jnp.ones(3), x, **options)[1]


def stacked(closed):
    """Return the types of all intermediate values with one row per step."""
    results = set(map(id, closed.jaxpr.outvars))
    found = (v for e in all_equations(closed.jaxpr) for v in e.outvars)
    return [v.aval for v in found if N in v.aval.shape and id(v) not in results]


def both(x, w):
    carry = jnp.ones(3), jnp.zeros(3)
    step = lambda c, r: ((jnp.sin(c[0] + r), c[1] + r), (c[0], 2 * c[1], r[0]))  # noqa: E731
    first, second, third = lax.scan(step, carry, x)[1]
    return (first * second - x).sum(0), (second[:, 0] * third).sum(), third.max()


def by_maximum(h, axis):
    top = h.max(axis, keepdims=True)
    return jnp.log(jnp.exp(h - top).sum(axis)) + jnp.squeeze(top)


PUSHED = {
    "sum": lambda h, x, w: h.sum(),
    "mean of squares": lambda h, x, w: ((h - x) ** 2).mean(),
    "squares of one row": lambda h, x, w: jnp.square(h - w[0]).sum(0),
    "weights": lambda h, x, w: (h * jnp.exp(x)).sum(1).sum(),
    "sums of sums": lambda h, x, w: (h.sum(1, keepdims=True) * h).sum(0),
    "extrema": lambda h, x, w: (h.max(), h.min(0), (h * x).max(1).min()),
    "product": lambda h, x, w: (h.prod(0), (1 + h).prod()),
    "bits": lambda h, x, w: ((h > 0).any(), (h > x).all(0), (h > x).sum()),
    "transposed": lambda h, x, w: (h.T * x.T).sum(1),
    "reshaped": lambda h, x, w: (h.reshape(N, 1, 3) * w).sum((0, 2)),
    "rows of squares": lambda h, x, w: (h[:, :, None] * h[:, None]).sum(0),
    "slices": lambda h, x, w: (h[:, 1:] * x[:, :2]).sum(),
    "backwards along a row": lambda h, x, w: (h[:, ::-1] - x).max(0),
    "select": lambda h, x, w: jnp.where(x > 0, h, w[1]).sum(0),
    "clamp": lambda h, x, w: jnp.clip(h, -0.5, 0.25).sum(),
    "pad": lambda h, x, w: jnp.pad(h, ((0, 0), (1, 0))).sum(0),
    "concatenate": lambda h, x, w: jnp.concatenate([h, 2 * x], 1).sum(0),
    "product of matrices": lambda h, x, w: (h.T @ x, jnp.einsum("ti,tj->ji", x, jnp.sin(h))),
    "of narrow numbers": lambda h, x, w: h.astype(np.float32).max(0),
    "of a program that is called": lambda h, x, w: jax.jit(lambda v: jnp.abs(v - x).sum())(h),
    "log-sum-exp": lambda h, x, w: (
        jax.nn.logsumexp(h, 0),
        jax.nn.logsumexp(3 * h + x),
        jax.nn.logsumexp(h, (0, 1), keepdims=True),
    ),
    "log-sum-exp by hand": lambda h, x, w: (by_maximum(h, 0), by_maximum(h * x, (0, 1))),
}


def of_states(name, **options):
    return lambda x, w: PUSHED[name](states(x, w, **options), x, w)


def assert_same(found, wanted, rtol=1e-12):
    assert_close(found, wanted, rtol, rtol)


@pytest.mark.parametrize("name", [*PUSHED, "two arrays of one loop"])
def test_reductions_leave_nothing_stacked(name):
    f = of_states(name) if name in PUSHED else both
    closed = jax.make_jaxpr(f)(xs, w)
    found = free(closed)
    assert stacked(closed) and not stacked(found)
    check_jaxpr(found.jaxpr)
    assert free(found) is found


def everything(x, w, **options):
    h = states(x, w, **options)
    return [f(h, x, w) for f in sample(PUSHED.values(), 9)]


@pytest.mark.parametrize("options", [{}, {"reverse": True, "unroll": 2}])
def test_values_agree(options):
    """Many reductions together, in one loop that runs in the same direction as before."""

    def f(x, w):
        return everything(x, w, **options)

    found = free(jax.make_jaxpr(f)(xs, w))
    assert not stacked(found)
    (eqn,) = scans(found)
    assert {k: eqn.params[k] for k in options} == options
    assert_computes(found, f, xs, w, atol=1e-12)


def test_derivatives_agree():
    names = ["mean of squares", "select", "extrema", "product of matrices", "log-sum-exp by hand"]

    def f(x, w):
        h = states(x, w)
        return total([PUSHED[name](h, x, w) for name in sample(names, 3)])

    slopes, outside = (jax.grad(g, (0, 1)) for g in (f, jaxprgen.transform(f, free)))
    wanted, *ours = in_one_program([slopes, outside, jaxprgen.transform(slopes, free)], xs, w)
    for found in ours:
        assert_same(found, wanted, 1e-10)


def test_batches_agree():
    """Batched arrays keep the steps along their first axis."""
    batches = np.stack([xs, 2 * xs, -xs], 1)

    def f(x):
        return [of_states(name)(x, w) for name in ("mean of squares", "log-sum-exp", "extrema")]

    mapped, outside = (jax.vmap(g, 1) for g in (f, jaxprgen.transform(f, free)))
    found = free(jax.make_jaxpr(mapped)(batches))
    assert not stacked(found)
    wanted, *ours = in_one_program([mapped, outside, jaxpr_as_fun(found)], batches)
    for each in ours:
        assert_same(each, wanted)


def squares(x1, x2, y):
    """Return the mean of squares of the residuals of products with each row."""
    rows = lax.scan(lambda c, row: (c, jnp.einsum("ijk,lm->lm", x1, row)), 0.0, x2)[1]
    return jnp.square(y - rows).mean()


@pytest.mark.parametrize("f", [squares, jax.grad(squares)], ids=["value", "gradient"])
def test_mean_of_squares(f):
    generator = np.random.default_rng(2)
    args = [generator.normal(size=s) for s in [(10, 5, 8), (30, 15, 12), (30, 15, 12)]]
    found = free(jax.make_jaxpr(f)(*args))
    shapes = [v.aval.shape for e in all_equations(found.jaxpr) for v in e.outvars]
    assert not [shape for shape in shapes if shape[:1] == (30,)]
    assert_computes(found, f, *args, atol=1e-12)


@pytest.mark.parametrize("of", [lambda f: f, jax.grad])
def test_compiled_memory(of):
    """XLA allocates one row instead of all, and half as much for the gradient."""

    def f(x1, x2, y):
        rows = lax.scan(lambda c, s: (0.9 * c + s, (0.9 * c + s) * x1), jnp.float32(0), x2)[1]
        return jnp.square(y - rows).mean()

    args = [jnp.ones(s, np.float32) for s in [(512,), (200,), (200, 512)]]
    before, after = (
        jax.jit(g).lower(*args).compile().memory_analysis().temp_size_in_bytes
        for g in (of(f), jaxprgen.transform(of(f), free))
    )
    assert before / after > (1.9 if of is jax.grad else 100)


LEFT = {
    "read as it is": lambda h, x, w: (h.sum(), h),
    "read otherwise": lambda h, x, w: h.sum() + jnp.cumsum(h, 0)[2, 0],
    "after the last step": lambda h, x, w: (h * h[-1]).sum(),
    "by its mean": lambda h, x, w: ((h - h.mean(0)) ** 2).sum(),
    "running sums": lambda h, x, w: jnp.cumsum(h, 0).sum(),
    "places": lambda h, x, w: jnp.argmax(h, 0),
    "some steps": lambda h, x, w: h[1:].sum(),
    "steps in another order": lambda h, x, w: (h[::-1] * x).sum(),
    "rows of which some go together": lambda h, x, w: h.reshape(3 * N)[:N].sum(),
    "steps along another axis": lambda h, x, w: (h[:3] * w).sum(),
    "steps that a fusion would transpose": lambda h, x, w: (h.T * jnp.asarray(xs.T)).sum(),
    "results that are larger": lambda h, x, w: (h[:, :, None] * jnp.ones(N)).sum(0),
    "16 bits": lambda h, x, w: lax.reduce(h.astype(np.float16), np.float16(0), lax.add, (0,)),
    "a shape that comes first": lambda h, x, w: (h @ h.T).sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_loops_that_stay(name):
    closed = jax.make_jaxpr(lambda x, w: LEFT[name](states(x, w), x, w))(xs, w)
    assert free(closed) is closed


@pytest.mark.parametrize(
    "f",
    [
        lambda x: states(x[:0], w).sum(0),
        lambda x: states(x[:1], w).sum(0),
        lambda x: lax.scan(lambda c, r: printing(c, r, w), 0.0, x[:, 0])[1].sum(),
    ],
    ids=["no step", "one step", "an effect"],
)
def test_loops_that_are_no_loops_or_have_effects_stay(f):
    closed = jax.make_jaxpr(f)(xs)
    assert free(closed) is closed


def test_only_exact_reductions_without_reassociation():
    """Exact reductions (integers, extrema, bits) are fused; floating-point sums are not."""

    def integers(x):
        h, k = lax.scan(lambda c, r: (c * 3 + 1, (c, jnp.sin(r))), np.int32(1), x)[1]
        return h.sum(), (h * 5).prod(), k.max(), k.min(0), (h & 6).max(), (k > 0).all(0)

    closed = jax.make_jaxpr(integers)(xs)
    found = exact(closed)
    assert stacked(closed) and not stacked(found)
    assert_close(jaxpr_as_fun(found)(xs), integers(xs), rtol=0)
    for name in ("sum", "product", "log-sum-exp", "product of matrices", "sums of sums"):
        closed = jax.make_jaxpr(of_states(name))(xs, w)
        assert exact(closed) is closed


INF, NAN = np.inf, np.nan
ROWS = {
    "finite": [1.0, -700.0, 800.0, 3.0],
    "none": [-INF, -INF, -INF, -INF],
    "none first": [-INF, -INF, 5.0, -INF],
    "small behind none": [-INF, -800.0, -801.0, -INF],
    "infinite": [0.0, INF, 1.0, -INF],
    "infinite twice": [INF, -INF, INF, 2.0],
    "not a number": [1.0, NAN, 2.0, -INF],
    "not a number first": [NAN, -INF, INF, 2.0],
}


def test_log_sum_exp_of_infinities():
    """Both JAX's function and one written by hand, which gives NaN without a finite value."""
    x = np.array(list(ROWS.values())).T

    def f(x):
        h, k = lax.scan(lambda c, r: (c, (r + c, 2 * r)), 0.0, x)[1]
        return jax.nn.logsumexp(h, 0), by_maximum(k, 0), h.max(0), k.min(0), h.sum(0)

    found = free(jax.make_jaxpr(f)(x))
    assert not [v for e in all_equations(found.jaxpr) for v in e.outvars if v.aval.shape == x.shape]
    assert_same(jaxpr_as_fun(found)(x), jax.jit(f)(x))

    def slopes(g):
        return jax.jit(jax.grad(lambda x: g(x)[0].sum()))(x)

    finite = np.isfinite(slopes(f))
    assert finite[:, [0, 2, 3]].all()
    got = slopes(lambda x: jaxpr_as_fun(found)(x))
    np.testing.assert_allclose(got[finite], slopes(f)[finite], rtol=1e-12)


@pytest.mark.parametrize("around", ["jit", "jit of the loop", "cond", "scan"])
def test_loops_in_inner_programs(around):
    def inner(x):
        return jnp.square(states(x, w) - 1).mean()

    wraps = {
        "jit": jax.jit(inner),
        "jit of the loop": lambda x: jax.jit(states)(x, w).sum(0),
        "cond": lambda x: lax.cond(x[0, 0] > 0, inner, lambda x: x[0, 0], x),
        "scan": lambda x: lax.scan(lambda c, _: (jnp.sin(inner(c * x)), None), 1.0, None, 3)[0],
    }
    found = free(jax.make_jaxpr(wraps[around])(xs))
    assert not [t for t in stacked(found) if around != "scan" or t.shape[0] != N]
    assert_computes(found, wraps[around], xs, atol=1e-12)


def test_producers_of_sequences():
    """They move into the loop if nothing else reads them; a reshape alone stays."""

    def f(x, y):
        product = x * y
        rows = jnp.exp(product) + product[:, ::-1] * w[0]
        return lax.scan(lambda c, r: (jnp.tanh(c + r[0] + r[1]), None), jnp.ones(3), (rows, 2 * y))[
            0
        ]

    found = free(jax.make_jaxpr(f)(xs, 2 * xs))
    assert {"exp", "rev"} <= {*only_body(found)} and not stacked(found)
    assert_computes(found, f, xs, 2 * xs, atol=1e-12)

    def shared(x):
        rows = jnp.exp(x)
        return lax.scan(lambda c, r: (jnp.tanh(c + r), None), jnp.ones(3), rows)[0], rows

    def flat(x):
        return lax.scan(lambda c, r: (jnp.tanh(c + r), None), jnp.ones(3), x.reshape(N, 3))[0]

    for g, x in ((shared, xs), (flat, xs.reshape(N, 1, 3))):
        closed = jax.make_jaxpr(g)(x)
        assert free(closed) is closed


def test_loops_without_carries_are_fused_with_their_reader():
    def f(x, y, a):
        sine, cosine, _ = lax.map(lambda r: (jnp.sin(a * r), jnp.cos(r), r), x)
        halves = lax.scan(lambda c, r: (c, r / 2), 0.0, cosine - y, reverse=True)[1]
        return lax.scan(lambda c, r: (c * r[0].sum() + 1, r[0] * r[1] * c), 1.0, (sine, halves))

    args = xs, 2 * xs, jnp.arange(3.0)
    found = free(jax.make_jaxpr(f)(*args))
    assert len(scans(found)) == 1 and not stacked(found)
    assert_computes(found, f, *args, atol=1e-12, slopes=(0, 1, 2))


def states_then_maps(x):
    """Return the results of a loop with a carry, and of a loop without carries after it."""
    h = lax.scan(lambda c, r: (jnp.tanh(c + r), c * r), x[0], x)[1]
    return lax.map(lambda r: (jnp.sin(r), jnp.cos(r), r * r.sum()), h)


def test_loops_without_carries_are_fused_with_the_loop_they_read():
    def f(x):
        a, b, _ = states_then_maps(x)
        return a.sum(0), jnp.square(b - x).mean()

    found = free(jax.make_jaxpr(f)(xs))
    assert len(scans(found)) == 1 and not stacked(found)
    assert_computes(found, f, xs, atol=1e-12)

    def g(x):
        a, b, c = states_then_maps(x)
        return a.sum(), b.max(0), c[::-1]

    assert_computes(free(jax.make_jaxpr(g)(xs)), g, xs, atol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (lax.map(jnp.sin, x), lax.map(jnp.cos, lax.map(jnp.sin, x)[::-1])),
        lambda x: (lambda s: (s, lax.map(jnp.cos, s)))(lax.map(jnp.sin, x)),
        lambda x: lax.map(lambda r: r + lax.map(jnp.sin, x).sum(), lax.map(jnp.sin, x)),
        lambda x: lax.map(jnp.cos, lax.scan(lambda c, r: (c + r, c * r), x[0], x)[1]),
    ],
    ids=["in another order", "read otherwise", "read as a whole", "with a state"],
)
def test_loops_over_other_rows_stay(f):
    found = free(jax.make_jaxpr(f)(xs))
    assert_computes(found, f, xs, atol=1e-12)
    assert len(scans(found)) > 1


def test_the_gradient_of_a_mean_of_squares_is_one_loop():
    """Nothing else is stacked in the program of https://github.com/jax-ml/jax/issues/4968."""

    def f(x, y):
        rows = lax.scan(lambda c, r: (jnp.sin(c), jnp.cos(r)), jnp.ones((2, 2)), x)[1]
        return jnp.square(y - rows).mean()

    found = free(jax.make_jaxpr(jax.grad(f))(xs, 2 * xs))
    assert len(scans(found)) == 1 and not stacked(found)
    assert_computes(found, jax.grad(f), xs, 2 * xs, atol=1e-12)


def test_aesara_graphs():
    """A loop of Aesara's, followed by a mean of squares."""
    rows, seen = at.dmatrix("rows"), at.dmatrix("seen")
    h, _ = aesara.scan(lambda r, h: at.tanh(r + h), rows, at.zeros(3))
    error = ((h - seen) ** 2).mean()
    before, after = (jaxprgen.compile([rows, seen], error, passes=p) for p in ((), (free,)))
    assert_same(after(xs, 2 * xs), before(xs, 2 * xs))
    assert stacked(before.jaxpr(xs, xs)) and not stacked(after.jaxpr(xs, xs))


def test_random_keys():
    def f(x):
        def step(c, r):
            key, own = jax.random.split(c)
            return key, (own, r * jax.random.normal(own))

        keys, h = lax.scan(step, jax.random.key(0), x)[1]
        return h.sum(), jax.random.key_data(keys).max()

    assert_computes(free(jax.make_jaxpr(f)(xs)), f, xs, atol=1e-12)


OPERATIONS = [
    *(
        lambda a, _: jnp.sin(a),
        lambda a, _: jnp.abs(a),
        lambda a, _: a[:, ::-1],
        lambda a, _: a - 1,
    ),
    *(lambda a, _: a.astype("float32") * 1.5, jnp.add, jnp.multiply, jnp.maximum),
    lambda a, b: jnp.where(a > 0, a, b),
]
REDUCTIONS = [jnp.sum, jnp.max, jnp.mean, jax.nn.logsumexp, lambda v, a: (v > 0).any(a)]


@examples(0.6, quick=0.4)
@given(data=st.data(), n=st.integers(2, 4), k=st.integers(0, 3), backwards=st.booleans())
def test_random_chains(data, n, k, backwards):
    places = st.integers(0, 9)
    choices = data.draw(st.lists(st.tuples(st.integers(0, 8), places, places), max_size=6))
    ends = data.draw(
        st.lists(st.tuples(st.integers(0, 4), places, st.sampled_from([0, (0, 1)])), min_size=1)
    )[:3]
    x = np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=(n, k))

    def f(x):
        step = lambda c, r: (jnp.sin(c) + r, (c, c * r))  # noqa: E731
        values = [x, *lax.scan(step, jnp.ones(k), x, reverse=backwards)[1]]
        values = grown(values, choices, OPERATIONS)
        if not k:
            return [values[i % len(values)].sum(0) for _, i, _ in ends]
        return [REDUCTIONS[which](values[i % len(values)], axis) for which, i, axis in ends]

    found = free(jax.make_jaxpr(f)(x))
    check_jaxpr(found.jaxpr)
    for got, wanted in zip(jaxpr_as_fun(found)(x), jax.jit(f)(x), strict=True):
        assert got.dtype == wanted.dtype
        tolerance = 1e-5 if wanted.dtype == np.float32 else 1e-11
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
