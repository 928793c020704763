"""Random draws that a program repeats are drawn at once, with the same bits."""

import aesara
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.tensor.random.utils import RandomStream
from profiles import sample

import jaxprgen
from jaxprgen.ir.programs import count_equations, verify
from jaxprgen.passes import DEFAULT, Pipeline, VmapRepeats, default

DRAWS = {
    "bits": lambda key, i: jax.random.bits(key, (3,), "uint8"),
    "integers": lambda key, i: jax.random.randint(key, (2,), 0, 17 + i),
    "uniform": lambda key, i: jax.random.uniform(key, (2,), np.float32),
    "normal": lambda key, i: jax.random.normal(key),
    "gamma": lambda key, i: jax.random.gamma(key, 0.5 + i),
    "poisson": lambda key, i: jax.random.poisson(key, 0.5 + i, (2,)),
    "permutation": lambda key, i: jax.random.permutation(key, 5),
    "key": lambda key, i: jax.random.key_data(jax.random.wrap_key_data(jax.random.key_data(key))),
    "seed": lambda key, i: jax.random.bits(jax.random.key(i)),
}


# Without optimizing, XLA of JAX 0.12 rounds `erf_inv` of a number and of an array differently, by
# one in the last bit.
NORMAL = pytest.param("normal", marks=pytest.mark.compiles)


def from_split_keys(draw, n):
    return lambda key: [draw(k, i) for i, k in enumerate(jax.random.split(key, n))]


def from_folded_keys(draw, n):
    return lambda key: [draw(jax.random.fold_in(key, i), i) for i in range(n)]


FORMS = [(from_split_keys, True), (from_folded_keys, True)]
FORMS += [(from_folded_keys, False), (from_split_keys, False)]


@pytest.mark.parametrize(("form", "partitionable"), sample(FORMS, 2))
@pytest.mark.parametrize("draw", [NORMAL, *sorted(DRAWS.keys() - {"normal"})])
def test_draws_of_jax(draw, form, partitionable):
    counts = []
    with jax.threefry_partitionable(partitionable):
        for n in (16, 12):
            function = form(DRAWS[draw], n)
            program = jax.make_jaxpr(lambda key, f=function: jnp.stack(f(key)))(jax.random.key(0))
            changed = VmapRepeats(reassociate=True)(program)
            verify(changed)
            counts.append(count_equations(changed))
        with jax.disable_jit():
            (ours,) = jaxprgen.jaxpr_as_fun(changed)(jax.random.key(7))
            (wanted,) = jaxprgen.jaxpr_as_fun(program)(jax.random.key(7))
    assert np.array_equal(ours, wanted)
    assert counts[0] == counts[1] < 300


@pytest.mark.parametrize("name", [NORMAL, "gamma", "integers"])
def test_draws_of_aesara(name):
    arguments = {"normal": (0.5, 2.0), "gamma": (2.0, 1.5), "integers": (0, 9)}

    def draws(n):
        stream = RandomStream(1)
        return aesara.tensor.stack([getattr(stream, name)(*arguments[name]) for _ in range(n)])

    counts = []
    for n in (32, 24):
        f, g = (jaxprgen.compile([], draws(n), passes=passes) for passes in ((), DEFAULT))
        key = jax.random.key(3)
        counts.append(count_equations(g.jaxpr(key)))
    assert counts[0] == counts[1]
    with jax.disable_jit():  # With many rows, functions of the bits may round differently.
        np.testing.assert_allclose(f(key), g(key), rtol=1e-14)


def typed_keys(n):
    return jax.random.key(n)


@pytest.mark.parametrize("make_key", [typed_keys, jax.random.PRNGKey], ids=["typed", "raw"])
def test_keys_made_one_from_the_other_are_a_loop_over_keys(make_key):
    def draws(key, n):
        found = []
        for i in range(n):
            key, own, other = jax.random.split(key, 3)
            found.append(jax.random.uniform(own, (2,)) * i + jax.random.bits(other))
        return jnp.stack(found)

    counts = []
    for n in (48, 32):
        program = jax.make_jaxpr(lambda key, n=n: draws(key, n))(make_key(0))
        changed = Pipeline(DEFAULT)(program)
        verify(changed)
        counts.append(count_equations(changed))
    with jax.disable_jit():
        (ours,) = jaxprgen.jaxpr_as_fun(changed)(make_key(7))
        (wanted,) = jaxprgen.jaxpr_as_fun(program)(make_key(7))
    assert np.array_equal(ours, wanted)
    assert counts[0] == counts[1] < 100


def test_a_walk_is_a_loop_over_draws():
    def walk(key, n):
        x, total = 0.0, 0.0
        for k in jax.random.split(key, n):
            x = 0.9 * x + jax.random.normal(k)
            total = total + jnp.sin(x)
        return total

    counts = []
    passes = default(calls=100)  # XLA makes one function of the walk, whose calls are as fast.
    for n in (160, 200):
        program = jax.make_jaxpr(lambda key, n=n: walk(key, n))(jax.random.key(0))
        counts.append(count_equations(Pipeline(passes)(program)))
    assert counts[0] == counts[1] < 60
    ours = jaxprgen.transform(lambda key: walk(key, 160), *passes)(jax.random.key(1))
    np.testing.assert_allclose(ours, walk(jax.random.key(1), 160), rtol=1e-12)
