"""Estimated costs of equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxprgen.tools.page.cost import flops, program_flops, result_bytes

MATRIX = np.ones((5, 6))
VECTOR = np.ones(6)
BATCH = np.ones((4, 5, 6))


def equation(f, *args):
    """The last equation of a function's program."""
    return jax.make_jaxpr(f)(*args).jaxpr.eqns[-1]


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lax.add, (MATRIX, MATRIX)),
        (lax.mul, (VECTOR, VECTOR)),
        (lax.max, (VECTOR, VECTOR)),
        (lax.neg, (MATRIX,)),
        (jnp.matmul, (MATRIX, MATRIX.T)),
        (jnp.matmul, (MATRIX, VECTOR)),
        (jnp.matmul, (BATCH, np.ones((4, 6, 7)))),
        (jnp.sum, (VECTOR,)),
        (jnp.sum, (MATRIX,)),
        (lambda x: jnp.sum(x, axis=1), (BATCH,)),
    ],
)
def test_estimates_equal_the_cost_analysis_of_xla(f, args):
    said = jax.jit(f).lower(*args).compile().cost_analysis()
    assert flops(equation(f, *args)) == said["flops"] > 0


@pytest.mark.parametrize("f", [lax.exp, lax.tanh, lax.log, lax.logistic, lax.erf, lax.sqrt])
def test_a_transcendental_operation_counts_as_one(f):
    assert flops(equation(f, MATRIX)) == 30


@pytest.mark.parametrize(
    "f",
    [
        lambda x: lax.slice(x, (0, 0), (2, 2)),
        lambda x: lax.reshape(x, (30,)),
        lambda x: lax.transpose(x, (1, 0)),
        lambda x: lax.broadcast_in_dim(x, (2, 5, 6), (1, 2)),
        lambda x: lax.convert_element_type(x, np.float32),
        lambda x: lax.rev(x, (0,)),
    ],
)
def test_moving_data_is_free(f):
    assert flops(equation(f, MATRIX)) == 0


def test_cumulative_operations_and_comparisons_count_per_element():
    assert flops(equation(lax.cumsum, VECTOR)) == 6
    assert flops(equation(lambda x: lax.argmax(x, 0, np.int32), VECTOR)) == 5


def test_inner_programs_are_included():
    def steps(x):
        return lax.scan(lambda c, _: (c * c + c, None), x, length=10)

    dear, cheap = (lambda x: x * x * x), (lambda x: x)
    assert flops(equation(jax.jit(lambda x: x * x + x), VECTOR)) == 12
    assert flops(equation(steps, VECTOR)) == 120
    assert flops(equation(lambda p, x: lax.cond(p, cheap, dear, x), True, VECTOR)) == 12
    assert flops(equation(lambda p, x: lax.cond(p, cheap, lax.sort, x), True, VECTOR)) is None
    assert flops(equation(jax.checkpoint(lambda x: x * x), VECTOR)) == 6
    assert flops(equation(jax.nn.relu, VECTOR)) == flops(equation(jax.jit(jax.nn.relu), VECTOR)) > 0


def test_the_cost_of_a_while_loop_is_unknown():
    def loop(x):
        return lax.while_loop(lambda c: c[0] < 3.0, lambda c: c * c, x)

    assert flops(equation(loop, VECTOR)) is None
    assert flops(equation(jax.jit(loop), VECTOR)) is None
    assert program_flops(jax.make_jaxpr(lambda x: loop(x) * x)(VECTOR).jaxpr) is None


def test_the_cost_of_other_primitives_is_unknown():
    assert flops(equation(lax.sort, VECTOR)) is None


def test_bytes_include_all_results():
    assert result_bytes(equation(lambda x: lax.top_k(x, 2), VECTOR)) == 2 * 8 + 2 * 4
    assert result_bytes(equation(lambda x: lax.lt(x, x), MATRIX)) == 30
