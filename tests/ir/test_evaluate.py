"""`Evaluator` on values of several kinds, and its hooks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxprgen.errors import InterpretationError
from jaxprgen.ir.evaluate import Evaluator


class Shapes(Evaluator):
    """Computes with shapes: the results of an equation have the shapes of their types."""

    def lift(self, x, aval):
        return aval.shape

    def apply(self, site, operands):
        assert [x.aval.shape for x in site.eqn.invars] == operands
        return [v.aval.shape for v in site.eqn.outvars]

    def slice(self, site, x, aval, index, iteration):
        return x[1:]

    def stack(self, site, slices, aval):
        return (len(slices), *slices[0])

    def choices(self, x):
        return (0, 1)

    def join(self, first, second):
        assert first == second
        return first


def branching(x):
    y = lax.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, x)
    carry, rows = lax.scan(lambda c, row: (c + row.sum(), row * c), 0.0, y)
    return carry, rows


def test_values_of_any_kind():
    closed = jax.make_jaxpr(branching)(np.ones((3, 2)))
    assert Shapes().run(closed, [(3, 2)]) == [(), (3, 2)]


def test_both_branches_run_if_the_choice_is_undecided():
    closed = jax.make_jaxpr(lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x))(1.0)
    seen = [done.eqn.primitive.name for done in Shapes().steps(closed, [()])]
    assert {"sin", "cos"} <= set(seen)

    class Undecided(Evaluator):
        def choices(self, x):
            return (0, 1)

    with pytest.raises(InterpretationError) as error:
        Undecided().run(closed, [1.0])
    assert str(error.value).splitlines()[1].startswith("Define join(first, second)")


@pytest.mark.parametrize("entered", [(), ("call",), ("call", "cond"), ("call", "cond", "scan")])
def test_entered_kinds_change_the_steps_but_not_the_outputs(entered):
    x = np.arange(6.0).reshape(3, 2)
    closed = jax.make_jaxpr(branching)(x)
    evaluator = Evaluator(entered)
    steps = evaluator.steps(closed, [x])
    seen, outputs = [], None
    try:
        while True:
            seen.append(next(steps))
    except StopIteration as end:
        outputs = end.value
    inside = {w.eqn.primitive.name for done in seen for w in done.within}
    assert ("cond" in inside, "scan" in inside) == ("cond" in entered, "scan" in entered)
    for ours, wanted in zip(outputs, jax.jit(branching)(x), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-14)


def test_iterations_are_numbered_in_the_order_in_which_they_run():
    def backwards(x):
        return lax.scan(lambda c, row: (c - row, c), 0.0, x, reverse=True)

    x = np.arange(4.0)
    closed = jax.make_jaxpr(backwards)(x)
    steps = list(Evaluator().steps(closed, [x]))
    iterations = [done.within[-1].iteration for done in steps if done.eqn.primitive.name == "sub"]
    assert iterations == [0, 1, 2, 3]


def test_a_loop_without_iterations_stacks_nothing():
    closed = jax.make_jaxpr(lambda x: lax.scan(lambda c, row: (c, row), 1.0, x))(np.ones((0, 2)))
    carry, rows = Evaluator().run(closed, [np.ones((0, 2))])
    assert carry == 1.0 and rows.shape == (0, 2)


def test_lanes_of_a_loop_stop_one_by_one():
    def halve(x):
        return lax.while_loop(lambda x: x > 1, lambda x: x / 2, x)

    x = np.array([1.0, 5.0, 64.0])
    closed = jax.make_jaxpr(jax.vmap(halve))(x)
    (found,) = Evaluator().run(closed, [x])
    np.testing.assert_array_equal(found, jax.vmap(halve)(x))
