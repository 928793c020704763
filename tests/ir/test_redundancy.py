"""Repeated equations are merged, and equations that only look alike are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxprgen._jax import check_jaxpr, closed_jaxpr
from jaxprgen.api import jaxpr_as_fun
from jaxprgen.ir.redundancy import Identities, merged

x, y = np.array([2.0, 0.5, 1.0]), np.array([1.0, 3.0, 2.0])
low, high = np.float32(0), np.float32(1)


def cleaned(closed):
    """Return a program without repeated equations."""
    jaxpr, same = closed.jaxpr, {}
    equations = merged(jaxpr.eqns, same, Identities())
    outputs = [same.get(v, v) for v in jaxpr.outvars]
    return closed_jaxpr(jaxpr.invars, outputs, equations)


TWICE = {  # A function, and how many of how many equations are left.
    "a function": (lambda x, y: [jnp.exp(x), jnp.exp(x)], 1, 2),
    "and what follows": (lambda x, y: [jnp.sin(jnp.exp(x)), jnp.sin(jnp.exp(x))], 2, 4),
    "of other operands": (lambda x, y: [x - y, y - x], 2, 2),
    "of other parameters": (lambda x, y: [lax.rev(x, (0,)), x[:2], x[1:]], 3, 3),
    "zeros of both signs": (lambda x, y: [x * 0.0, x * -0.0, x * 0.0], 2, 3),
    "several results": (lambda x, y: [*lax.sort((x, y)), *lax.sort((x, y))], 1, 2),
    "draws from a state of the device": (
        lambda x, y: [lax.rng_uniform(low, high, (2,)), lax.rng_uniform(low, high, (2,))],
        2,
        2,
    ),
    "effects": (lambda x, y: [jax.debug.print("{}", x), jax.debug.print("{}", x)], 2, 2),
}


@pytest.mark.parametrize("name", TWICE)
def test_repeated_equations_are_merged(name):
    f, left, before = TWICE[name]
    closed = jax.make_jaxpr(f)(x, y)
    found = cleaned(closed)
    check_jaxpr(found.jaxpr)
    assert (len(found.jaxpr.eqns), len(closed.jaxpr.eqns)) == (left, before)
    if "draws" not in name and name != "effects":
        for ours, wanted in zip(jaxpr_as_fun(found)(x, y), f(x, y), strict=True):
            np.testing.assert_array_equal(ours, wanted)
            np.testing.assert_array_equal(np.signbit(ours), np.signbit(wanted))


def test_the_merged_equation_binds_the_results_of_both():
    """The first of two equal equations has no variable for one result, which the second reads."""
    closed = jax.make_jaxpr(lambda x, y: [lax.sort((x, y))[0], lax.sort((x, y))[1]])(x, y)
    found = cleaned(closed)
    check_jaxpr(found.jaxpr)
    for ours, wanted in zip(jaxpr_as_fun(found)(x, y), lax.sort((x, y)), strict=True):
        np.testing.assert_array_equal(ours, wanted)
