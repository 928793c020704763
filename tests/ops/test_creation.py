"""Arrays made of numbers, joined and split."""

import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.tensor.basic import AllocEmpty, Split
from hypothesis import assume, given
from hypothesis import strategies as st
from laws import DTYPES, assert_agrees, equations

import jaxprgen
from jaxprgen.errors import ShapeMismatchError, StaticShapeError

sizes = st.integers(0, 4)
NUMBERS = [d for d in DTYPES if d != "bool"]
REAL = [d for d in NUMBERS if not d.startswith("complex")]


def constant_bytes(f, *args):
    return sum(np.asarray(c).nbytes for c in f.jaxpr(*args).consts)


@given(sizes, sizes)
def test_filled_arrays(m, n):
    x, v = at.dscalar("x"), at.dvector("v")
    outputs = [
        at.alloc(x, m, n),
        at.alloc(v, m, n) + 1.0,
        at.alloc(1.5, m, n),
        at.zeros((m, n)),
        at.ones((m,), dtype="int8"),
        at.full((n, m), 3),
        at.second(at.alloc(x, m, n), v),
    ]
    assert_agrees([x, v], outputs, [2.0, np.arange(float(n))])


def test_empty_allocation_has_its_shape_and_dtype():
    f = jaxprgen.compile([], AllocEmpty("float32")(2, 3))
    assert f().shape == (2, 3)
    assert f().dtype == "float32"


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("bounds", [(5,), (2, 9), (9, 2, -2), (1, 1), (0, 10, 3), (3, 0)], ids=str)
def test_ranges(dtype, bounds):
    assume_signed = any(b < 0 for b in bounds) and dtype.startswith("u")
    outputs = [] if assume_signed else [at.arange(*bounds, dtype=dtype)]
    outputs += [at.arange(*(b * 0.5 for b in bounds))]
    assert_agrees([], outputs, [])


@given(st.floats(-3, 3), st.floats(-3, 3), st.sampled_from([0.1, -0.1, 0.25, 1.0, -2.0]))
def test_ranges_of_floats(start, stop, step):
    # Beyond the limit up to which a range is a constant, it is counted on the device.
    assume(abs(stop - start) < 3)
    assert_agrees([], [at.arange(start, stop, step), at.arange(0, 2000 * step, step)], [])


@pytest.mark.parametrize("dtype", REAL)
def test_large_ranges_are_counted_not_stored(dtype):
    x = at.dscalar("x")
    output = at.cast(at.arange(2000, dtype=dtype), "float64") * x
    if np.dtype(dtype).itemsize > 1:
        f = assert_agrees([x], [output], [2.0])
    else:  # NumPy refuses numbers that do not fit.
        f = jaxprgen.compile([x], output)
    assert constant_bytes(f, 2.0) == 0
    assert "iota" in equations(f, 2.0)


def test_ranges_by_arguments_make_one_program_each():
    n = at.lscalar("n")
    f = assert_agrees([n], [at.arange(n) * 2], [3])
    assert f(5).shape == (5,)
    assert f.cache_info().currsize == 2
    with pytest.raises(StaticShapeError, match="'n'"):
        jax.jit(f)(3)


@given(sizes, sizes, st.integers(-4, 4), st.sampled_from(DTYPES))
def test_identity_matrices(n, m, k, dtype):
    diagonal = at.lscalar("k")
    outputs = [at.eye(n, m, k, dtype=dtype), at.eye(n, m, diagonal, dtype=dtype)]
    assert_agrees([diagonal], outputs, [k])


def test_a_large_identity_matrix_is_compared_not_stored():
    x = at.dscalar("x")
    f = assert_agrees([x], [at.eye(100, 90, 1) * x], [2.0])
    assert constant_bytes(f, 2.0) == 0


@pytest.mark.parametrize("count", [1, 2, 5])
def test_vectors_of_scalars(count):
    scalars = [at.scalar(dtype=d) for d in NUMBERS[:count]]
    args = [np.asarray(i, d) for i, d in enumerate(NUMBERS[:count])]
    assert_agrees(scalars, [at.stack(scalars), at.stack([*scalars, 3.5])], args)


@given(st.data())
def test_joins(data):
    """Any axis from either end, any mix of dtypes, empty pieces, known ones and run-time ones."""
    rank = data.draw(st.integers(1, 3))
    axis = data.draw(st.integers(-rank, rank - 1))
    shape = [data.draw(sizes) for _ in range(rank)]
    inputs, args, joined = [], [], []
    for _ in range(data.draw(st.integers(1, 4))):
        shape[axis] = data.draw(sizes)
        array = np.ones(shape, data.draw(st.sampled_from(["int8", "float32", "float64", "bool"])))
        if data.draw(st.booleans()):
            joined.append(at.constant(array))
        else:
            inputs.append(at.tensor(array.dtype.name, shape=(None,) * rank))
            args.append(array)
            joined.append(inputs[-1])
    assert_agrees(inputs, [at.join(axis, *joined)], args)


@given(st.lists(sizes, min_size=1, max_size=4), st.integers(0, 2))
def test_splits(pieces, axis):
    shape = [2, 3, 2]
    shape[axis] = sum(pieces)
    array = np.arange(float(np.prod(shape))).reshape(shape)
    x, where = at.dtensor3("x"), at.lscalar("axis")
    splits = at.split(x, pieces, len(pieces), axis=axis)
    splits = splits if isinstance(splits, list) else [splits]
    assert_agrees([x], splits, [array])
    decided = Split(len(pieces))(x, where, np.array(pieces))
    assert_agrees([x, where], decided if isinstance(decided, list) else [decided], [array, axis])


def test_pieces_that_do_not_add_up_are_an_error():
    x = at.dvector("x")
    f = jaxprgen.compile([x], at.split(x, [2, 2], 2))
    with pytest.raises(ShapeMismatchError, match=r"Cannot split axis 0 of shape \(5,\)"):
        f(np.ones(5))


def test_scalars_and_tensors_convert_freely():
    x = at.lscalar("x")
    y = at.tensor_from_scalar(at.scalar_from_tensor(x) + at.scalar_from_tensor(x))
    f = assert_agrees([x], [y], [3])
    assert equations(f, 3) == ["add"]
