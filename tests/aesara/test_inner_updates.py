"""Shared variables that an `OpFromGraph` updates advance as in Aesara's Python mode."""

import pickle
from functools import partial

import aesara
import aesara.tensor as at
import numpy as np
import pytest
from aesara.compile.builders import OpFromGraph
from hypothesis import given, strategies as st
from laws import refusal
from profiles import examples

import jaxprgen
from jaxprgen.errors import InvalidGraphError, UnsupportedOpError

PYTHON = aesara.compile.mode.Mode("py", None)
MAKERS = {"function": jaxprgen.function, "mode": partial(aesara.function, mode="JAXPR")}
x = at.dscalar("x")


def counter(value=1.0):
    count = aesara.shared(value, name="count")
    count.default_update = 2 * count + 1
    return count


def values(f, *shared, calls=3):
    found = [np.asarray(f(2.0), float).tolist() for _ in range(calls)]
    return found, [float(v.get_value()) for v in shared]


@examples(3, quick=1)
@given(st.lists(st.integers(0, 1), min_size=1, max_size=5), st.sampled_from(sorted(MAKERS)))
def test_counters_advance_as_in_python_mode(applied, maker):
    """Ops of one and of two counters, applied in any order, each to the result of the last.

    No two applications are to the same input: Python mode does not merge them.
    """

    def results(make):
        first, second, third = counts = [counter(1.0), counter(-3.0), counter(0.5)]
        ops = OpFromGraph([x], [x * first]), OpFromGraph([x], [x - second * third, x + third])
        found = []
        for k in applied:
            made = ops[k](found[-1] if found else x)
            found += made if isinstance(made, list) else [made]
        return values(make([x], found), *counts)

    def python(inputs, outputs):
        return aesara.function(inputs, outputs, mode=PYTHON)

    assert results(MAKERS[maker]) == results(python)


@pytest.mark.parametrize("maker", MAKERS)
def test_draws_differ_between_calls_and_applications(maker):
    stream = at.random.RandomStream(3)
    op = OpFromGraph([x], [x + stream.normal()], name="noisy")
    f = MAKERS[maker]([x], [op(x), op(-x), op(x), op(0 + x)])
    drawn = [[float(value) for value in f(0.0)] for _ in range(3)]
    # Aesara's default modes merge equal applications.
    assert all(first == third for first, _, third, _ in drawn)
    assert (
        len({value for first, second, _, other in drawn for value in (first, second, other)}) == 9
    )


@pytest.mark.parametrize("maker", MAKERS)
def test_updates_advance_in_ops_inside_of_ops(maker):
    count = counter()
    inner = OpFromGraph([x], [x * count])
    outer = OpFromGraph([x], [inner(x) + inner(2 - x + 2)])
    f = MAKERS[maker]([x], [outer(x), outer(4 - x)])
    # 1, 3, 7, 15, ...: the counter, which Aesara itself cannot advance there.
    assert values(f, count, calls=2) == ([[8.0, 44.0], [188.0, 764.0]], [511.0])


def test_pure_state_and_copies_advance():
    stream, count = at.random.RandomStream(3), counter()
    f = jaxprgen.function([x], OpFromGraph([x], [x + stream.normal() + count])(x))
    state, twin = f.state(), pickle.loads(pickle.dumps(f))
    drawn = []
    for _ in range(3):
        out, state = f.pure(state, 0.0)
        drawn.append(float(out))
    assert drawn == [float(f(0.0)) for _ in range(3)] == [float(twin(0.0)) for _ in range(3)]
    assert len(set(drawn)) == 3


def test_the_gradient_belongs_to_the_draw():
    stream = at.random.RandomStream(3)
    y = OpFromGraph([x], [x * stream.normal()])(x)
    f = jaxprgen.function([x], [y, aesara.grad(y, x)])
    for _ in range(3):
        value, slope = f(1.0)
        assert value == slope


@pytest.mark.parametrize("maker", MAKERS)
def test_a_variable_is_updated_once(maker):
    count = counter()
    with pytest.raises(InvalidGraphError) as error:
        MAKERS[maker]([x], OpFromGraph([x], [x * count])(x), updates={count: count * 10})
    text = str(error.value)
    assert "count is updated twice: by the function, and inside of an OpFromGraph." in text
    assert "Leave out one of the two." in text


def test_a_loop_around_updates_is_refused():
    stream, v = at.random.RandomStream(3), at.dvector("v")
    op = OpFromGraph([x], [x + stream.normal()], name="noisy")
    rows, updates = aesara.scan(op, sequences=[v])
    text = "\n".join(
        refusal(UnsupportedOpError, jaxprgen.function([v], rows, updates=updates), np.zeros(3))
    )
    assert "updates a shared variable inside of a loop or branch" in text
    assert "Return the new value as one more output of the OpFromGraph" in text
    assert "built at LINE: " in text


def test_derivatives_of_its_own_are_refused():
    count = counter()
    op = OpFromGraph([x], [x * count], lop_overrides=lambda inputs, outputs, gradients: gradients)
    with pytest.raises(InvalidGraphError, match="has derivatives of its own"):
        jaxprgen.function([x], op(x))
