"""Basic indexing: reading and writing by integers and slices, known or not."""

import warnings

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.tensor.subtensor import inc_subtensor, set_subtensor
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jax.experimental import checkify
from laws import assert_agrees, assert_same, equations, reference

import jaxprgen
from jaxprgen.errors import IndexOutOfBoundsError, RuntimeCheckWarning, ShapeMismatchError

bounds = st.none() | st.integers(-7, 7)
slices = st.builds(slice, bounds, bounds, st.none() | st.integers(1, 3) | st.integers(-3, -1))
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@st.composite
def arrays_and_indices(draw):
    """An array, and an index of some of its axes whose integers are inside."""
    shape = tuple(draw(st.lists(st.integers(0, 5), min_size=1, max_size=3)))
    index = []
    for n in shape[: draw(st.integers(1, len(shape)))]:
        inside = st.integers(-n, n - 1) if n else st.nothing()
        index.append(draw(slices | inside))
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape), tuple(index)


def variable(array):
    return at.tensor(array.dtype.name, shape=(None,) * array.ndim)


@given(arrays_and_indices())
def test_reading(case):
    array, index = case
    x = variable(array)
    assert_agrees([x], [x[index], x[index] * 2.0], [array])


@given(arrays_and_indices(), st.booleans(), st.data())
def test_writing(case, into_zeros, data):
    """Replacing and increasing, by a value that may have to be repeated to fit."""
    array, index = case
    region = array[index].shape
    own = data.draw(st.sampled_from([region, region[1:], (), (1,) * len(region)]))
    assume(len(own) <= array.ndim)
    value = -np.arange(1.0, 1 + np.prod(own)).reshape(own)
    x, y = variable(array), variable(value)
    base = at.zeros_like(x) if into_zeros else x
    outputs = [set_subtensor(base[index], y), inc_subtensor(base[index], y)]
    assert_agrees([x, y], outputs, [array, value])


@settings(max_examples=30)
@given(st.data())
def test_run_time_integers(data):
    """Integers that are arguments, of every dtype, counted from either end."""
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=3)))
    array = np.arange(np.prod(shape, dtype=float)).reshape(shape)
    inputs, args, index = [variable(array)], [array], []
    for n in shape[:-1]:
        if data.draw(st.booleans()):
            dtype = data.draw(st.sampled_from(INTEGERS))
            inputs.append(at.scalar(dtype=dtype))
            low = 0 if dtype.startswith("u") else -n
            args.append(np.asarray(data.draw(st.integers(low, n - 1)), dtype))
            index.append(inputs[-1])
        else:
            index.append(data.draw(slices))
    index = tuple(index)
    x = inputs[0]
    outputs = [x[index], set_subtensor(x[index], -1.0), inc_subtensor(x[index], 5.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeCheckWarning)
        assert_agrees(inputs, outputs, args)


def test_writing_into_known_values():
    """Evaluated while emitting, by Aesara's own ``perform``: its scalars are NumPy's."""
    base = at.ones((1, 2, 1))
    outputs = [inc_subtensor(base[0], 1.0), set_subtensor(base[0, 1], 5.0), base[0, 0] + 1.0]
    assert_agrees([], outputs, [])


def test_what_the_common_forms_cost():
    x, i = at.dmatrix("x"), at.iscalar("i")
    value = np.arange(12.0).reshape(4, 3)
    read = jaxprgen.compile([x], [x[1:3], x[:, ::-1], x[0], x[::2, 1]])
    assert equations(read, value) == ["slice", "rev", "slice", "squeeze", "slice", "squeeze"]
    # The gradient of a slice writes into zeros, which never become an array.
    gradient = aesara.grad(at.sum(x[1:3] ** 2), x)
    assert equations(jaxprgen.compile([x], gradient), value)[-1] == "pad"
    with pytest.warns(RuntimeCheckWarning):
        dynamic = equations(jaxprgen.compile([x, i], x[i]), value, 1)
    assert dynamic == ["lt", "add", "select_n", "dynamic_slice", "squeeze"]


@pytest.mark.parametrize("index", [4, -5])
def test_a_known_index_out_of_bounds_is_an_index_error_that_tells_the_line(index):
    x = at.dvector("x")
    f = jaxprgen.compile([x], x[index] + 1.0)
    assert f(np.ones(6)) == 2.0
    with pytest.raises(IndexOutOfBoundsError) as raised:
        f(np.ones(4))
    text = str(raised.value)
    assert f"Index {index} is out of bounds for axis 0 of size 4." in text
    assert "x: float64[4]" in text
    assert "test_subtensor.py" in text


def test_a_run_time_index_is_announced_once_and_checked_on_request():
    x, i = at.dvector("x"), at.lscalar("i")
    value = np.arange(4.0)
    f = jaxprgen.compile([x, i], x[i])
    with pytest.warns(RuntimeCheckWarning, match="Subtensor.*out of bounds") as caught:
        assert [float(f(value, n)) for n in (0, 3, -1, -4)] == [0, 3, 3, 0]
    assert len(caught) == 1

    checked = checkify.checkify(jaxprgen.compile([x, i], x[i], checks=True))
    for n in (0, 3, -1, -4):
        assert checked(value, n)[0].get() is None
    for n in (4, -5):
        assert "out of bounds for axis 0 of size 4" in checked(value, n)[0].get()


def test_a_value_that_does_not_fit_is_an_error():
    x, y = at.dvector("x"), at.dvector("y")
    f = jaxprgen.compile([x, y], set_subtensor(x[1:3], y))
    with pytest.raises(ShapeMismatchError, match="does not broadcast|do not broadcast"):
        f(np.ones(4), np.ones(3))


def test_gradients_by_aesara_and_by_jax_agree():
    x, i = at.dmatrix("x"), at.lscalar("i")
    cost = at.sum(x[i] ** 2) + at.sum(x[1:, ::-2] ** 3) + x[-1, 0]
    value = np.arange(12.0).reshape(4, 3)
    f = jaxprgen.compile([x, i], cost)
    gradient = jaxprgen.compile([x, i], aesara.grad(cost, x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeCheckWarning)
        assert_same(jax.grad(f)(value, 2), gradient(value, 2))
        assert_same(gradient(value, 2), reference([x, i], [aesara.grad(cost, x)], [value, 2])[0])


def test_slices_by_arguments_make_one_program_each():
    x, n = at.dvector("x"), at.lscalar("n")
    f = jaxprgen.compile([x, n], x[:n])
    assert f(np.arange(5.0), 2).shape == (2,)
    assert f(np.arange(5.0), -1).shape == (4,)
    assert f.cache_info().currsize == 2
