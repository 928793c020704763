"""The constructors of `jaxprgen.ir.primitives.random` make the equations of `jax.random`."""

from __future__ import annotations

import inspect

import jax
import numpy as np
import pytest
from laws import all_equations

from jaxprgen import _jax
from jaxprgen._jax import check_jaxpr
from jaxprgen.ir import Builder, primitives
from jaxprgen.ir.primitives import random

KEY, LEGACY = jax.random.key(0), jax.random.PRNGKey(0)
IMPL = _jax.default_prng_impl()
UINT = np.uint32(3)

# JAX's function, its operands, and the constructor's options for the same call.
ROWS = {
    "random_wrap": (jax.random.wrap_key_data, (LEGACY,), {"impl": IMPL}),
    "random_seed": (jax.random.key, (np.int64(3),), {"impl": IMPL}),
    "random_fold_in": (jax.random.fold_in, (KEY, UINT), {}),
    "random_split": (lambda key: jax.random.split(key, (3,)), (KEY,), {"shape": (3,)}),
    "random_bits": (
        lambda key: jax.random.bits(key, (2, 3), "uint16"),
        (KEY,),
        {"bit_width": 16, "shape": (2, 3)},
    ),
    "random_gamma": (
        lambda key, a: jax.random.loggamma(key, a, dtype="float32"),
        (KEY, np.ones(3, "float32")),
        {"log_space": True},
    ),
}


def test_every_constructor_has_a_row():
    assert sorted(ROWS) == sorted(
        n
        for n, f in vars(random).items()
        if inspect.isfunction(f) and f.__module__ == random.__name__
    )


@pytest.mark.parametrize("name", ROWS)
def test_equations_and_types_are_those_of_jax(name):
    function, operands, options = ROWS[name]
    theirs = jax.make_jaxpr(function)(*operands).jaxpr
    (wanted,) = (eqn for eqn in all_equations(theirs) if eqn.primitive.name == name)
    b = Builder([_jax.type_of(x) for x in operands])
    closed = b.build([getattr(primitives, name)(b, *b.inputs, **options)])
    check_jaxpr(closed.jaxpr)
    (ours,) = closed.jaxpr.eqns
    assert ours.primitive is wanted.primitive
    assert ours.params == wanted.params
    assert [v.aval for v in ours.outvars] == [v.aval for v in wanted.outvars]
