"""`SinkZeros`: a zero that a choice put wins over whatever it multiplies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.passes import SinkZeros

X = jnp.array([-1.0, 0.0, 4.0])

# A function of X with NaN or infinity beside zeros of a choice, and its value.
SUNK = {
    "quotient": (lambda x: jnp.where(x > 0, 1.0, 0.0) / x, (0, 0, 0.25)),
    "product": (lambda x: jnp.where(x > 0, x, 0.0) * jnp.log(x), (0, 0, 4 * np.log(4))),
    "chain": (lambda x: -(jnp.where(x > 0, 1.0, 0.0) * jnp.log(x)) / x, (0, 0, -np.log(4) / 4)),
    "sum of two": (
        lambda x: (jnp.where(x > 0, 1.0, 0.0) + jnp.where(x > 0, x, 0.0)) / x,
        (0, 0, 1.25),
    ),
    "two choices": (
        lambda x: jnp.where(x > 0, jnp.where(x > 5, 1.0, 0.0), 0.0) / (x - 4),
        (0, 0, 0),
    ),
    "literal": (lambda x: 0.0 * jnp.log(x), (0, 0, 0)),
    "negative literal": (lambda x: -0.0 / (x * x), (0, 0, 0)),
    "loop": (lambda x: lax.map(lambda row: jnp.where(row > 0, 1.0, 0.0) / row, x), (0, 0, 0.25)),
}


@pytest.mark.parametrize("name", SUNK)
def test_zeros_of_choices_stay_zero(name):
    f, value = SUNK[name]
    np.testing.assert_allclose(jaxprgen.transform(f, SinkZeros())(X), value)


KEPT = {
    "no zero": lambda x: jnp.where(x > 0, 1.0, 2.0) / x,
    "a divisor": lambda x: x / jnp.where(x > 0, x, 0.0),
    "negative zero": lambda x: jnp.where(x > 0, 1.0, -0.0) * jnp.log(x),
    "a sum with others": lambda x: (jnp.where(x > 0, 1.0, 0.0) + x) / x,
    "a quotient of equals": lambda x: x / x,
    "shifted": lambda x: lax.pad(jnp.where(x > 0, 1.0, 0.0), 0.0, [(1, -1, 0)]) * x[::-1],
    "effect": lambda x: (jax.debug.callback(lambda _: None, x), x * jnp.sin(x))[1],
}


@pytest.mark.parametrize("name", KEPT)
def test_other_values_stay(name):
    closed = jax.make_jaxpr(KEPT[name])(X)
    found = SinkZeros()(closed)
    check_jaxpr(found.jaxpr)
    before, after = (jax.core.eval_jaxpr(c.jaxpr, c.consts, X) for c in (closed, found))
    np.testing.assert_array_equal(after, before)
