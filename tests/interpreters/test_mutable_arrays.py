"""Programs with mutable arrays: the debugger, interpreters and passes run them as JAX does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprgen
from jaxprgen import Interpreter, errors

make = getattr(jax, "new_ref", None) or jax.array_ref  # The second in JAX < 0.8.
X = np.array([1.0, 2.0])


def alone(x):
    total = make(jnp.zeros(2))
    total[...] = total[...] + x
    return total[...]


def by_index(x):
    total = make(jnp.zeros(3))
    total[1] = x[0]
    total[jnp.array([0, 2])] = x
    total[1] += 2.0
    return total[...], total[0]


def in_a_call(x):
    total = make(jnp.zeros(2))

    @jax.jit
    def add():
        total[...] = total[...] + x

    add()
    return total[...]


def in_a_branch(x):
    total = make(jnp.zeros(2))
    jax.lax.cond(x.sum() > 0, lambda: total.__setitem__(0, 3.0), lambda: total.__setitem__(1, 3.0))
    return total[...]


def in_a_scan(x):
    total = make(jnp.zeros(()))

    def step(carry, row):
        total[...] += row
        return carry + row, total[...]

    return jax.lax.scan(step, 0.0, x)


def in_a_while(x):
    total = make(jnp.zeros(2))

    def step(i):
        total[...] += x
        return i + 1

    return jax.lax.while_loop(lambda i: i < 3, step, 0), total[...]


FUNCTIONS = [alone, by_index, in_a_call, in_a_branch, in_a_scan, in_a_while]
WAYS = {
    "debug": jaxprgen.debug,
    "interpreter": Interpreter("identity"),
    "compiled interpreter": lambda f: jax.jit(Interpreter("identity")(f)),
    "transform": jaxprgen.transform,
    "default passes": lambda f: jaxprgen.transform(f, *jaxprgen.passes.DEFAULT),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_are_those_of_jax(way, function):
    wanted, found = jax.jit(function)(X), WAYS[way](function)(X)
    assert jax.tree.all(jax.tree.map(np.array_equal, found, wanted))


def test_the_debugger_takes_mutable_arrays_as_arguments_and_constants():
    given, closed_over = make(jnp.zeros(2)), make(jnp.ones(2))

    def f(total, x):
        total[...] += x + closed_over[...]
        return total[...] * 2

    np.testing.assert_array_equal(jaxprgen.debug(f)(given, X), 2 * (X + 1))
    np.testing.assert_array_equal(given[...], X + 1)


def test_the_debugger_finds_what_is_written():
    def f(x):
        total = make(jnp.zeros(2))
        total[...] = jnp.log(x)
        return total[...]

    with pytest.raises(errors.NonFiniteValueError, match=r"log"):
        jaxprgen.debug(f)(-X)
