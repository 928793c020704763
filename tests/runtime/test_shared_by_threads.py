"""Functions of one shared variable, in several threads, lose no update and see no half of one."""

import copy
import pickle
import sys

import aesara
import aesara.sparse
import aesara.tensor as at
import numpy as np
import pytest
import scipy.sparse
from profiles import amount
from transactions import assert_calls_are_one_after_the_other, at_once

import jaxprgen

CALLS = amount(quick=150, deep=3000)
x = at.dscalar("x")


@pytest.fixture(autouse=True)
def _threads_take_turns_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def many(f, *args, times=CALLS):
    return lambda: [f(*args) for _ in range(times)][-1]


def by_function(updates, outputs=None):
    return jaxprgen.function([x], outputs, updates=updates)


def by_mode(updates, outputs=None):
    return aesara.function([x], outputs, updates=updates, mode="JAXPR")


MAKERS = {"function": by_function, "mode": by_mode}


@pytest.mark.parametrize("second", MAKERS)
@pytest.mark.parametrize("first", MAKERS)
def test_two_functions_that_update_one_variable_lose_nothing(first, second):
    total = aesara.shared(np.zeros(3), name="total")
    f, g = MAKERS[first]({total: total + x}), MAKERS[second]({total: total + 2 * x})
    at_once(many(f, 1.0), many(g, 1.0))
    np.testing.assert_array_equal(total.get_value(), np.full(3, 3.0 * CALLS))


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_reader_sees_whole_updates(size):
    """All elements, and both variables, change at once; large arrays lie in memory of the host."""
    a, b = (aesara.shared(np.zeros(size), name=name) for name in "ab")
    update = by_function({a: a + x, b: b + x})
    read = jaxprgen.compile([], [a.min(), a.max(), b.min(), b.max()])
    update(0.0)

    def reader():
        for _ in range(CALLS):
            assert len({float(value) for value in read()}) == 1

    at_once(many(update, 1.0), *[reader] * (10 if size == 1 else 2))
    assert float(read()[0]) == CALLS


def test_functions_take_locks_in_one_order():
    """They update the same variables in opposite orders; nobody waits for ever."""
    variables = [aesara.shared(0.0, name=name) for name in "abc"]
    turned = dict(zip(variables, [*variables[1:], variables[0]], strict=True))
    f = by_function({v: v + x for v in variables})
    g = by_function({v: v + x for v in reversed(variables)})
    h = by_function(turned)
    at_once(many(f, 1.0), many(g, 1.0), many(h, 1.0))
    assert [v.get_value() for v in variables] == [2.0 * CALLS] * 3


def test_set_value_is_before_or_after_an_update():
    total = aesara.shared(0.0, name="total")
    update = by_function({total: total + x})
    update(0.0)

    def setter():
        for i in range(CALLS):
            total.set_value(1e6 * i)
            assert total.get_value() >= 1e6 * i  # Updates only add.

    at_once(many(update, 1.0), setter)


def test_state_is_that_of_one_moment():
    a, b = (aesara.shared(0.0, name=name) for name in "ab")
    update = by_function({a: a + x, b: b - x})
    update(0.0)

    def reader():
        for _ in range(CALLS):
            assert sum(map(float, update.state().values())) == 0

    at_once(many(update, 1.0), reader)


@pytest.mark.parametrize("seed", range(amount(quick=2, deep=40)))
def test_random_functions_in_threads_run_one_after_the_other(seed):
    """Each call returns what it returns in a row of all calls, and so are the last values."""
    assert_calls_are_one_after_the_other(aesara, seed, threads=4, calls=amount(quick=40, deep=400))


@pytest.mark.parametrize("argument", [1.0, np.float64(1)], ids=["a number", "an array"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_threads_of_one_function_lose_nothing(make, argument):
    total = aesara.shared(np.zeros(3), name="total")
    update = make({total: total + x}, [total])
    found = at_once(*[lambda: [float(update(argument)[0][0]) for _ in range(CALLS)]] * 4)
    assert sorted(value for some in found for value in some) == list(range(4 * CALLS))


def test_sparse_matrices_lose_nothing():
    matrix = aesara.shared(scipy.sparse.csr_matrix(np.eye(3)), name="matrix")
    count = aesara.shared(0, name="count")
    more = aesara.sparse.add(matrix, aesara.sparse.csr_from_dense(at.eye(3) * x))
    makers = [*MAKERS.values()] * 2
    updates = [make({matrix: more, count: count + 1}) for make in makers]
    read = aesara.function([], [aesara.sparse.sp_sum(matrix), count], mode="JAXPR")

    def reader():
        for _ in range(CALLS):
            total, calls = read()
            assert total == 3 * (1 + calls)

    at_once(*(many(update, 1.0) for update in updates), reader)
    assert matrix.get_value().sum() == 3 * (1 + 4 * CALLS)


COPIES = {
    "copies": copy.deepcopy,
    "pickles": lambda shared: pickle.loads(pickle.dumps(shared)),
    "text": lambda shared: str(shared.container) and shared,
}


@pytest.mark.parametrize("get", COPIES.values(), ids=COPIES)
def test_copies_in_the_middle_of_updates_have_a_value_of_one_moment(get):
    total = aesara.shared(np.zeros(1000), name="total")
    update = by_function({total: total + x})
    update(1.0)

    def copier():
        for _ in range(CALLS):
            assert len({*get(total).get_value().tolist()}) == 1

    at_once(many(update, 1.0), copier)


def test_draws_never_come_twice():
    draw = at.random.RandomStream(seed=1).uniform()
    draws = [jaxprgen.function([], draw), aesara.function([], draw, mode="JAXPR")]
    found = at_once(*[lambda f=f: [float(f()) for _ in range(CALLS)] for f in [*draws, *draws]])
    assert len({value for some in found for value in some}) == 4 * CALLS
