"""The interpreter finds the first non-finite number, on the line that `jaxprgen.debug` finds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from nonfinite import finite

import jaxprgen
from jaxprgen.errors import NonFiniteValueError


def in_loop(x):
    def step(c, row):
        y = jnp.log(row)
        return c + y, y

    return lax.scan(step, 0.0, x)


def in_counted_loop(x):
    return lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] / (2.0 - s[0])), (0, x))


FUNCTIONS = {
    "division": lambda x: 1 / x + 1,
    "where": lambda x: jnp.where(x > 0, jnp.log(x), 0.0),
    "gradient": jax.grad(lambda x: jnp.sqrt(x).sum()),
    "loop": in_loop,
    "while": in_counted_loop,
    "infinity": lambda x: jnp.exp(1000 * x),
}
x = np.array([1.0, 2.0, 0.0, 1.0])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_first_equation_is_found(name):
    f = FUNCTIONS[name]
    with pytest.raises(NonFiniteValueError) as ours:
        finite(f)(x)
    debug = jaxprgen.debug(f, stop=False)
    debug(x)
    first = debug.findings[0]
    text = str(ours.value).splitlines()
    assert text[0].startswith(f"{first.op} returned ")
    assert text[-1] == f"  {first.frame.built}"
    for loop, i in first.iterations:
        assert f"  in iteration {i} of {loop}" in text


def test_finite_results_and_non_finite_arguments_are_accepted():
    for f in (jnp.sin, in_loop, lambda x: x.astype(int), lambda x: jnp.maximum(x, -jnp.inf)):
        for got, wanted in zip(*map(jax.tree.leaves, (finite(f)(x + 1), f(x + 1))), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-14)
    assert np.isnan(finite(lambda x: x + 1)(np.nan))
