"""Sorting and the largest elements: NaN last, and in the order of NumPy for every dtype."""

import itertools

import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.tensor.sort import ArgSortOp, SortOp, TopKOp, argsort, sort, topk, topk_and_argtopk
from hypothesis import assume, given, strategies as st
from laws import (
    DTYPES,
    assert_agrees,
    assert_derivatives,
    assert_same,
    at_once,
    equations,
    refusal,
)
from operands import values
from profiles import examples

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import ShapeMismatchError, StaticShapeError

SIZES = st.sampled_from([0, 1, 2, 3, 5])
SHAPES = st.lists(SIZES, min_size=1, max_size=4).map(tuple)
dtypes = st.sampled_from(DTYPES)
NEGATIVE_NAN = np.copysign(np.nan, -1)


def tensor(dtype, shape):
    return at.tensor(dtype, shape=[None] * len(shape), name="x")


def filled(dtype, shape, seed):
    """Numbers of a dtype in any order, some of them equal, and of floats NaN of both signs."""
    pool = values(dtype, limits=True)
    if pool.dtype.kind in "fc":
        pool = np.concatenate([pool, np.array([NEGATIVE_NAN, np.nan, 1], dtype)])
    if pool.dtype.kind == "c":
        pool[-2:] = complex(1, np.nan), complex(np.nan, 0)
    return np.random.RandomState(seed).choice(pool, shape).astype(dtype)


# --- Sorting -----------------------------------------------------------------------------


@examples(1, quick=0.6)
@given(dtypes, SHAPES, st.integers(0, 999))
def test_sort_and_argsort(dtype, shape, seed):
    """The order of equal elements is NumPy's stable one, whatever kind is asked for."""
    x, a = tensor(dtype, shape), filled(dtype, shape, seed)
    axes = range(-len(shape), len(shape))
    outputs = [op("stable")(x, axis) for op in (SortOp, ArgSortOp) for axis in axes]
    f = jaxprgen.compile([x], outputs)
    check_jaxpr(f.jaxpr(a).jaxpr)
    wanted = [np.sort(a, axis, "stable") for axis in axes]
    wanted += [np.argsort(a, axis, "stable").astype("int64") for axis in axes]
    for ours, theirs in zip(at_once(f, a), wanted, strict=True):
        assert_same(ours, theirs)


def test_sort_as_users_write_it():
    x, n = at.dmatrix("x"), at.lscalar("n")
    a = np.array([[3.0, np.nan, -np.inf, -0.0], [1, np.inf, 2, -1]])
    outputs = [sort(x, n), argsort(x, n), sort(x, None), argsort(x, None), x.sort(), x.argsort(0)]
    for axis in (0, 1, -1):
        f = assert_agrees([x, n], outputs, [a, axis])
    assert equations(f, a, 1).count("sort") == 6
    known = [sort(at.constant([3, 1, 2])), argsort(at.constant([3.0, 1.0]))]
    assert equations(assert_agrees([], known, [])) == []


def test_the_axis_must_exist_and_be_known():
    x, n = at.vector("x"), at.lscalar("n")
    f = jaxprgen.compile([x, n], sort(x, n))
    assert (
        refusal(ShapeMismatchError, f, np.ones(2), 1)[0]
        == "Axis 1 is out of bounds for 1 dimensions."
    )
    with pytest.raises(StaticShapeError, match="'n'"):
        jax.jit(f)(np.ones(2), 0)


# --- The largest elements ----------------------------------------------------------------


def in_order(a, axis):
    """Sorted, with every NaN the same: what is left open is the order, and that."""
    missing = np.isnan(a) if a.dtype.kind in "fc" else np.zeros(a.shape, bool)
    return np.sort(np.where(missing, np.array(np.nan, a.dtype), a) if missing.any() else a, axis)


@given(st.data())
def test_top_k(data):
    """As Aesara's Python mode, which leaves the order open: values as sets, and where they are."""
    dtype, shape = data.draw(dtypes), data.draw(SHAPES)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[axis]
    assume(size)
    k = data.draw(st.integers(1, size)) * data.draw(st.sampled_from([1, -1]))
    index = data.draw(st.sampled_from(["int64", "int32", "uint8"]))
    x, a = tensor(dtype, shape), filled(dtype, shape, data.draw(st.integers(0, 999)))
    kinds = [(True, True), (True, False), (False, True)]
    made = [TopKOp(axis, False, index, *kind)(x, k) for kind in kinds]
    f = jaxprgen.compile([x], [*made[0], *made[1:]])
    check_jaxpr(f.jaxpr(a).jaxpr)
    found, where, again, where_again = (np.asarray(v) for v in f(a))
    assert_same(again, found)
    assert_same(where_again, where)
    assert where.dtype == index
    # The values are those at the positions, which differ, and they are the right ones.
    where = where.astype("int64")
    assert_same(np.take_along_axis(a, where, axis), found)
    assert (np.diff(np.sort(where, axis), axis=axis) > 0).all()
    part = np.sort(a, axis).take(range(size - k, size) if k > 0 else range(-k), axis)
    part = np.min(a, axis, keepdims=True) if k == -1 else part
    assert_same(in_order(found, axis), in_order(part, axis))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_nan_counts_as_largest_whatever_its_sign(dtype):
    x = at.vector(dtype=dtype)
    a = np.array([1, NEGATIVE_NAN, -np.inf, np.nan, np.inf, 2], dtype)
    largest, smallest, all_but_one = (
        jax.jit(jaxprgen.compile([x], topk(x, k, sorted=False))) for k in (3, -4, -5)
    )
    np.testing.assert_array_equal(largest(a), [np.nan, np.nan, np.inf])
    np.testing.assert_array_equal(smallest(a), [-np.inf, 1, 2, np.inf])
    np.testing.assert_array_equal(all_but_one(a), [-np.inf, 1, 2, np.inf, np.nan])
    for k in (1, -1):  # As `numpy.max` and `numpy.min`, and their positions.
        assert_agrees([x], topk_and_argtopk(x, k, sorted=False), [a])


def test_top_k_of_what_is_not_there():
    x, n = at.vector("x"), at.lscalar("n")
    f = jaxprgen.compile([x, n], topk(x, n, sorted=False))
    for k in (0, 4, -4):
        assert refusal(ShapeMismatchError, f, np.ones(3), k)[0] == (
            f"Cannot take the {k} largest elements on axis 0 of shape (3,): k must be from 1 to 3, "
            "or from -1 to -3 for the smallest."
        )
    with pytest.raises(StaticShapeError, match="'n'"):
        jax.jit(f)(np.ones(3), 2)


# --- Gradients ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
def test_gradients_are_those_of_aesara():
    x = at.dmatrix("x")
    a = np.random.RandomState(0).permutation(np.arange(12.0)).reshape(3, 4)
    weights = at.constant(np.arange(12.0).reshape(3, 4))
    # Aesara's gradients of these index by arrays.
    parts = sort(x), sort(x, 0), topk(x, 2, sorted=False), topk(x, -3, 0, sorted=False)
    costs = [at.sum(at.sin(sort(m)) * weights[: m.shape[0], : m.shape[1]]) for m in parts]
    assert_derivatives([x], costs, [a])


def test_complex_numbers_with_missing_parts_are_ordered_as_by_numpy():
    parts = [0.0, 1.0, np.nan, np.inf, -np.inf]
    every = np.array([complex(*p) for p in itertools.product(parts, parts)])
    every = np.random.RandomState(0).permutation(every)
    z = at.zvector("z")
    f = jaxprgen.compile([z], [sort(z), argsort(z)])
    ours, order = (np.asarray(v) for v in f(every))
    np.testing.assert_array_equal(ours.view("float64"), np.sort(every).view("float64"))
    assert_same(order, np.argsort(every, kind="stable"))
