"""`explain_guards`: values that branches read, predicates, and lines."""

import aesara.tensor as at
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxprgen
from jaxprgen.errors import ArgumentTypeError
from jaxprgen.inspect import explain_guards
from jaxprgen.passes import DEFAULT

x = at.dvector("x")
POINT = np.array([-1.0, 4.0])


def test_guards_of_a_graph():
    both = at.and_(x > 0, x < 9)
    f = jaxprgen.compile([x], at.switch(both, at.sqrt(x), 0.0).sum())
    (guard,) = explain_guards(f, POINT)
    assert (guard.variable, guard.predicate) == ("x", "(x > 0.0) and (x < 9.0)")
    assert __file__ in guard.line and "at.switch(both, at.sqrt(x), 0.0)" in guard.line
    assert str(guard) == f"x where (x > 0.0) and (x < 9.0), {guard.line}"


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: jaxprgen.transform(f, *DEFAULT)])
def test_guards_of_a_function(wrap):
    (guard,) = explain_guards(wrap(lambda x: jnp.where(x <= 0, 0.0, jnp.log(x)).sum()), POINT)
    assert guard.predicate.startswith("not (") and guard.predicate.endswith(" <= 0.0)")
    assert __file__ in guard.line


def test_guards_in_loops():
    def step(total, row):
        return total + jnp.where(row > 0, jnp.log(row), 0.0), None

    assert len(explain_guards(lambda x: lax.scan(step, 0.0, x)[0], POINT)) == 1


def test_a_program_without_choices_has_none():
    assert explain_guards(lambda x: jnp.log(x).sum(), POINT) == []
    with pytest.raises(ArgumentTypeError):
        explain_guards(3)
