"""`ReverseScan`: loops over reversed sequences, in JAX programs and Aesara graphs."""

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from jax import lax
from laws import assert_agrees, assert_computes, primitives
from loop_bodies import printing, scans, xs
from profiles import examples

from jaxprgen.passes import ReverseScan

rewrite = ReverseScan()


def step(c, r):
    return jnp.tanh(c) + r, c * r


def run(x, start=0.5, **options):
    return lax.scan(step, jnp.full(x.shape[1:], start), x, **options)


def directions(closed):
    return [e.params["reverse"] for e in scans(closed)]


def nested(x):
    return lax.scan(lambda c, r: (run((x + c)[::-1])[0], r.sum()), jnp.zeros(3), x)


def repeated(x):
    both = x[::-1], jnp.broadcast_to(x[0], x.shape), jnp.broadcast_to(x[:1], x.shape)
    return lax.scan(lambda c, r: (jnp.sin(c) * r[0] + r[1] - r[2], None), x[0], both)


def most(x):
    rows = x[::-1], x[::-1][:, :1], x
    return lax.scan(lambda c, r: (c * r[0] + r[1] - r[2], None), x[0], rows)


REVERSED = {  # The number of arrays that are still reversed, and the directions of the loops.
    "what is left": (lambda x: run(x[::-1])[0], 0, [True]),
    "from the last one on": (lambda x: run(x[::-1], reverse=True)[0], 0, [False]),
    "what is read backwards": (lambda x: run(x[::-1])[1][::-1], 0, [True]),
    "what is read by another one": (lambda x: run(run(x[::-1])[1][::-1])[1], 0, [True, False]),
    "a part": (lambda x: run(x[::-1][1:4])[0], 0, [True]),
    "a part of a part": (lambda x: run(x[::-1][1:, 1:][:3])[0], 0, [True]),
    "repeated rows beside": (repeated, 0, [True]),
    "a loop in a loop": (nested, 0, [True, False]),
    "most rows": (most, 1, [True]),
    "no step": (lambda x: run(x[:0][::-1])[0], 0, [True]),
    "one step": (lambda x: run(x[:1][::-1])[1][::-1], 0, [True]),
    "a branch": (
        lambda x: lax.cond(x[0, 0] > 0, lambda v: run(v[::-1])[0], lambda v: v[0], x),
        0,
        [True],
    ),
}


@pytest.mark.parametrize("name", REVERSED)
def test_loops_are_reversed(name):
    f, reversals, ways = REVERSED[name]
    closed = jax.make_jaxpr(f)(xs)
    found = rewrite(closed)
    assert primitives(found).count("rev") == reversals < primitives(closed).count("rev")
    assert sorted(directions(found)) == sorted(ways)
    assert rewrite(found) is found
    assert_computes(found, f, xs, slopes=[0])


STAYS = {
    "rows in order": lambda x: run(x)[0],
    "what is read forwards": lambda x: run(x[::-1])[1],
    "what is read both ways": lambda x: (lambda y: (y, y[::-1]))(run(x[::-1])[1]),
    "reversed rows that are read elsewhere": lambda x: (lambda y: (run(y)[0], y + 1))(x[::-1]),
    "as many in order": lambda x: lax.scan(
        lambda c, r: (c * r[0] + r[1], None), x[0], (x[::-1], x)
    ),
    "columns reversed as well": lambda x: run(lax.rev(x, (0, 1)))[0],
    "columns reversed": lambda x: run(x[:, ::-1])[0],
    "every other one": lambda x: run(lax.slice(lax.rev(x, (0,)), (0, 0), (6, 3), (2, 1)))[0],
    "an effect": lambda x: lax.scan(lambda c, r: printing(c, r, None), x[0], x[::-1])[0],
    "no rows": lambda x: lax.scan(lambda c, _: (jnp.sin(c), c), x[::-1][0], None, 3)[1][::-1],
}


@pytest.mark.parametrize("name", STAYS)
def test_loops_that_stay(name):
    closed = jax.make_jaxpr(STAYS[name])(xs)
    assert rewrite(closed) is closed


def test_unrolling_is_kept():
    found = rewrite(jax.make_jaxpr(lambda x: run(x[::-1], unroll=3)[0])(xs))
    (loop,) = scans(found)
    assert loop.params["unroll"] == 3 and loop.params["reverse"]


KINDS = {
    "float32": lambda n: np.linspace(-1, 1, n, dtype="float32"),
    "int8": lambda n: np.arange(n, dtype="int8"),
    "bool": lambda n: np.arange(n) % 2 == 0,
    "key": lambda n: jax.random.split(jax.random.key(0), n),
}


@examples(0.6)
@given(
    kinds=st.lists(st.tuples(st.sampled_from([*KINDS]), st.booleans()), min_size=1, max_size=3),
    n=st.integers(0, 3),
    back=st.booleans(),
    flips=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_random_loops(kinds, n, back, flips):
    """Results agree, and no more arrays are reversed than before, for any sequences."""
    arrays = [KINDS[kind](n) for kind, _ in kinds]

    def count(c, rows):
        return (c[1], c[0] + 1), (c[0], *rows)

    def f(*arrays):
        rows = [x[::-1] if flipped else x for x, (_, flipped) in zip(arrays, kinds, strict=True)]
        last, stacked = lax.scan(count, (0, 1), rows, n, reverse=back)
        return last, [y[::-1] if flip else y for y, flip in zip(stacked, flips, strict=False)]

    closed = jax.make_jaxpr(f)(*arrays)
    found = rewrite(closed)
    assert primitives(found).count("rev") <= primitives(closed).count("rev")
    assert_computes(found, f, *arrays)


def test_aesara_graphs():
    """Neither a loop with ``go_backwards`` nor that of its gradient reads a reversed array."""
    x, k = at.dvector("x"), at.dscalar("k")
    trace = aesara.scan(lambda v, c, k: at.tanh(c * k) + v, x, k, [k], go_backwards=True)[0]
    outputs = [trace[-1], *aesara.grad(trace[-1], [x, k])]
    args = np.linspace(-1, 1, 5), 0.5
    closed = assert_agrees([x, k], outputs, args).jaxpr(*args)
    assert directions(closed) == [True, False]
    reversals = {e.outvars[0] for e in closed.jaxpr.eqns if e.primitive.name == "rev"}
    assert not any(x is v for e in scans(closed) for x in e.invars for v in reversals)
