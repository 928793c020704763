"""What source lines cost, and which read which."""

import aesara
import aesara.tensor as at
import jax
import numpy as np
from jax import lax
from pages import ONES, chain, power

import jaxprgen
from jaxprgen.ir.programs import count_equations
from jaxprgen.tools.page.lines import Lines


def by_text(lines):
    return {cost.frame.text: (i, cost) for i, cost in enumerate(lines.costs)}


def test_every_equation_counts_for_one_line():
    for f, *args in ((chain(40), ONES, ONES), power()):
        program = f.jaxpr(*args)
        costs = Lines(program.jaxpr).costs
        assert sum(cost.equations for cost in costs) == count_equations(program)
        assert sum(sum(cost.primitives.values()) for cost in costs) == count_equations(program)


def test_lines_of_steps_are_lines_of_their_own():
    x, y = at.dvectors("x", "y")

    def step(x_i, total):
        bent = at.sin(total) * x_i
        return total + bent

    totals, _ = aesara.scan(step, x * 2.0, [at.as_tensor(np.float64(0.0))])
    result = totals - y
    jaxpr = jaxprgen.compile([x, y], result).jaxpr(ONES, ONES).jaxpr
    lines = Lines(jaxpr)
    found = by_text(lines)
    bent, cost = found["bent = at.sin(total) * x_i"]
    assert cost.primitives == {"sin": 1, "mul": 1}
    assert (cost.nbytes, cost.operations) == (16, 2)
    scaled = found["totals, _ = aesara.scan(step, x * 2.0, [at.as_tensor(np.float64(0.0))])"][0]
    after, last = found["return total + bent"][0], found["result = totals - y"][0]
    inputs = dict(enumerate("xy", len(lines.costs)))
    flow = {(inputs.get(a, a), inputs.get(b, b)) for a, b in lines.flow}
    assert {("x", scaled), (scaled, bent), (bent, after), (after, last), ("y", last)} <= flow
    assert lines.reads == [last]


def test_an_output_that_is_an_input_is_computed_on_no_line():
    jaxpr = jax.make_jaxpr(lambda x: (x, lax.sin(x), 1.0))(1.0).jaxpr
    assert Lines(jaxpr).reads == [None, 0, None]
