"""How a key becomes the streams of a graph's generators, and what shapes draws have."""

from __future__ import annotations

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.graph.fg import FunctionGraph
from aesara.tensor.random.op import RandomVariable, default_rng
from catalogue.draws import generator
from equal import Equal
from hypothesis import given, strategies as st
from laws import refusal
from profiles import examples

import jaxprgen
from jaxprgen.errors import (
    ArgumentCountError,
    ArgumentTypeError,
    DuplicateRuleError,
    ShapeMismatchError,
    StaticShapeError,
    UnsupportedOpError,
)

KEY = jax.random.key(0)


def own_key(root, draw):
    """As documented."""
    return jax.random.fold_in(jax.random.fold_in(KEY, root), draw)


def test_generators_are_numbered_as_they_come():
    a, b = (at.random.normal(size=(3,), rng=generator()) for _ in range(2))
    f = jaxprgen.compile([], [b, a])
    np.testing.assert_array_equal(f(KEY)[0], jax.random.normal(own_key(0, 0), (3,)))
    np.testing.assert_array_equal(f(KEY)[1], jax.random.normal(own_key(1, 0), (3,)))


def test_one_state_gives_one_draw_and_the_next_state_another():
    rng = generator()
    behind, a = at.random.normal(size=(3,), rng=rng).owner.outputs
    b = at.random.normal(size=(3,), rng=rng)
    c = at.random.normal(size=(3,), rng=behind)
    a, b, c = jaxprgen.compile([], [a, b, c])(KEY)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(a, jax.random.normal(own_key(0, 0), (3,)))
    np.testing.assert_array_equal(c, jax.random.normal(own_key(0, 1), (3,)))


def test_states_among_the_inputs_are_no_arguments():
    rng = at.random.type.random_generator_type("rng")
    x = at.vector("x")
    fgraph = FunctionGraph([rng, x], [at.random.normal(x, rng=rng)], clone=False)
    f = jaxprgen.compile(fgraph)
    assert [i.name for i in f.inputs] == ["key", "x"]
    assert f(KEY, np.zeros(3)).shape == (3,)


def test_legacy_keys_are_the_same_keys():
    f = jaxprgen.compile([], at.random.normal(size=(3,), rng=generator()))
    np.testing.assert_array_equal(f(KEY), f(jax.random.PRNGKey(0)))
    np.testing.assert_array_equal(f(KEY), f(np.asarray(jax.random.PRNGKey(0))))
    np.testing.assert_array_equal(f(KEY), jax.jit(f)(KEY))


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_other_generators(impl):
    key = jax.random.key(0, impl=impl)
    drawn = jaxprgen.compile([], at.random.normal(size=(3,), rng=generator()))(key)
    own = jax.random.fold_in(jax.random.fold_in(key, 0), 0)
    np.testing.assert_array_equal(drawn, jax.random.normal(own, (3,)))


def test_a_generator_made_of_a_seed_needs_no_key():
    x = at.random.normal(size=(3,), rng=default_rng(5))
    drawn = jaxprgen.compile([], x)()
    key = jax.random.fold_in(jax.random.key(5), 0)
    np.testing.assert_array_equal(drawn, jax.random.normal(key, (3,)))
    with pytest.raises(UnsupportedOpError, match="takes a key"):
        jaxprgen.compile([], at.random.normal(rng=default_rng()))()


# --- Shapes -------------------------------------------------------------------------------

SIZES = st.sampled_from([None, (), (2,), (1, 3), (0,)])


@examples(1, quick=0.4)
@given(st.sampled_from([(), (3,), (2, 1)]), st.sampled_from([(), (3,), (1,)]), st.booleans())
def test_parameters_broadcast(left, right, wants_size):
    a, b = (at.tensor("float64", shape=(None,) * len(s)) for s in (left, right))
    batch = np.broadcast_shapes(left, right)
    size = (2, *batch) if wants_size and len(batch) < 2 else None
    f = jaxprgen.compile([a, b], at.random.normal(a, b, size=size))
    loc, scale = np.arange(np.prod(left)).reshape(left) * 100.0, np.ones(right)
    drawn = f(KEY, loc, scale)
    assert drawn.shape == (size or batch)
    assert abs(np.asarray(drawn) - np.broadcast_to(loc, drawn.shape)).max() < 10


def test_sizes_that_the_parameters_do_not_have():
    x = at.vector("x")
    f = jaxprgen.compile([x], at.random.normal(x, size=(2,)))
    text = "\n".join(refusal(ShapeMismatchError, f, KEY, np.zeros(3)))
    assert "size (2,) does not fit parameters of shapes (3,), ()" in text
    assert "at.random.normal(x, size=(2,))" in text
    f = jaxprgen.compile([x], at.random.choice(x, size=(4,), replace=False))
    with pytest.raises(ShapeMismatchError, match="4 of 3 rows without replacement"):
        f(KEY, np.zeros(3))


def test_single_precision():
    with aesara.config.change_flags(floatX="float32"):
        x = at.random.normal(size=(2,), rng=generator())
    drawn = jaxprgen.compile([], x)(KEY)
    assert drawn.dtype == "float32"
    np.testing.assert_array_equal(drawn, jax.random.normal(own_key(0, 0), (2,), "float32"))


# --- Errors -------------------------------------------------------------------------------

X = at.vector("x")


def test_a_missing_key():
    f = jaxprgen.compile([X], at.random.normal(X), name="prior")
    assert refusal(ArgumentCountError, f, np.zeros(3)) == [
        "prior(key, x) takes 2 arguments, but 1 was given.",
        "It draws random numbers: the first argument is a key, jax.random.key(seed).",
    ]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (0, "an int"),
        (np.zeros(3), "float64[3]"),
        (jax.random.split(KEY), "key<fry>[2]"),
        (np.zeros(4, np.uint32), "uint32[4]"),
    ],
    ids=str,
)
def test_a_wrong_key(key, kind):
    f = jaxprgen.compile([X], at.random.normal(X))
    assert refusal(ArgumentTypeError, f, key, np.zeros(3)) == [
        f"This function draws random numbers, and takes one PRNG key first; it got {kind}.",
        "Make a key with jax.random.key(seed); for several at once, jax.vmap over them.",
    ]


def test_a_key_too_many():
    with pytest.raises(ArgumentCountError, match="It draws no random numbers, and takes no key"):
        jaxprgen.compile([X], X + 1)(KEY, np.zeros(3))


def test_a_shape_that_is_drawn():
    f = jaxprgen.compile([], at.zeros((at.random.poisson(3.0),)))
    text = "\n".join(refusal(StaticShapeError, f, KEY))
    assert "A shape depends on a random draw" in text
    assert "in Alloc" in text


# --- Registration -------------------------------------------------------------------------


class LogitNormalRV(RandomVariable):
    name = "logitnormal"
    ndim_supp = 0
    ndims_params = (0, 0)
    dtype = "floatX"


def test_samples():
    logit_normal = LogitNormalRV()
    x = logit_normal(0.0, 2.0, size=(3,), rng=generator())
    with pytest.raises(UnsupportedOpError, match=r"jaxprgen\.samples"):
        jaxprgen.compile([], x)

    @jaxprgen.samples(LogitNormalRV)
    def draw(key, mu, sigma, *, shape, dtype):
        return jax.nn.sigmoid(mu + sigma * jax.random.normal(key, shape, dtype))

    f = jaxprgen.compile([], x)
    expected = draw(own_key(0, 0), 0.0, 2.0, shape=(3,), dtype="float64")
    np.testing.assert_allclose(f(KEY), expected, rtol=1e-14)
    assert "staged" in str(f.report(KEY))
    with pytest.raises(DuplicateRuleError, match="LogitNormalRV already has a sampler"):
        jaxprgen.samples(LogitNormalRV)(draw)


class Scaled(Equal):
    """A sampler that compares equal to all of its class."""

    def __call__(self, key, mu, sigma, *, shape, dtype):
        return self.factor * jax.random.normal(key, shape, dtype)


@pytest.mark.parametrize("changed", ["the function", "what it holds"])
def test_samplers_that_compare_equal_are_not_exchanged(changed):
    class OwnRV(LogitNormalRV):
        pass

    x = OwnRV()(0.0, 2.0, size=(3,), rng=generator())
    draw = jaxprgen.samples(OwnRV)(Scaled(2.0))
    twice = jaxprgen.compile([], x)(KEY)
    if changed == "the function":
        jaxprgen.samples(OwnRV, override=True)(Scaled(3.0))
    else:
        draw.factor = 3.0
    np.testing.assert_allclose(jaxprgen.compile([], x)(KEY), 1.5 * twice, rtol=1e-14)
