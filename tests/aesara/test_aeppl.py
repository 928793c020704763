"""Ops that aeppl adds to Aesara, and draws of the processes that it builds of them."""

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aeppl.abstract import valued_variable
from aeppl.dists import dirac_delta, discrete_markov_chain, switching_process
from aeppl.transforms import transformed_variable
from aesara.tensor.random.utils import RandomStream
from laws import assert_same

import jaxprgen

x, y = at.dvectors("x", "y")
ARRAY = np.arange(3.0)
MARKS = {
    "DiracDelta": dirac_delta(x),
    "ValuedVariable": valued_variable(x, y),
    "TransformedVariable": transformed_variable(x, y),
}


@pytest.mark.parametrize("marked", MARKS.values(), ids=MARKS)
def test_marked_variables_are_as_without_the_mark(marked):
    f = jaxprgen.compile([x, y], marked * 2)
    assert_same(f(ARRAY, ARRAY + 5), ARRAY * 2)
    gradients = jax.grad(lambda v, w: f(v, w).sum(), (0, 1))(ARRAY, ARRAY)
    np.testing.assert_array_equal(gradients, [np.full(3, 2.0), np.zeros(3)])


def test_marked_constants_are_known():
    assert_same(jaxprgen.compile([], at.arange(dirac_delta(3)))(), np.arange(3))


# The draws of these are certain.


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")  # Of categories.
def test_draws_of_a_markov_chain():
    around = np.broadcast_to(np.roll(np.eye(3), 1, axis=1), (7, 3, 3))
    states, updates = discrete_markov_chain(
        at.as_tensor(around), at.as_tensor([0.0, 1, 0]), size=(2,), srng=RandomStream(1)
    )
    f = aesara.function([], states, updates=updates, mode="JAXPR")
    for _ in range(2):
        assert_same(f(), np.tile((np.arange(7) + 2) % 3, (2, 1)))


def test_draws_of_a_switching_process():
    stream = RandomStream(1)
    process = switching_process([stream.normal(0.0, 0.0, size=4), dirac_delta(5.0)], [1, 0, 0, 1])
    assert_same(aesara.function([], process, mode="JAXPR")(), np.array([5.0, 0, 0, 5]))


def test_draws_of_a_zero_inflated_process():
    stream = RandomStream(1)
    counts = stream.binomial(7, 1.0, size=4)
    inflated = at.switch(stream.bernoulli([0.0, 1, 1, 0]), counts, dirac_delta(np.int64(0)))
    assert_same(aesara.function([], inflated, mode="JAXPR")(), np.array([0, 7, 7, 0]))
