"""Running sums, repetition, search, different values, and positions in arrays read as one row."""

import itertools

import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.tensor.extra_ops import CumOp, RavelMultiIndex, Repeat, UnravelIndex
from hypothesis import assume, given, strategies as st
from laws import (
    DTYPES,
    assert_agrees,
    assert_derivatives,
    assert_same,
    at_once,
    equations,
    failures,
    reference,
    refusal,
)
from operands import values
from profiles import examples

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import (
    LoweringError,
    RuntimeCheckWarning,
    ShapeMismatchError,
    StaticShapeError,
)

SIZES = st.sampled_from([0, 1, 2, 3])
SHAPES = st.lists(SIZES, max_size=4).map(tuple)
dtypes = st.sampled_from(DTYPES)


def tensor(dtype, shape, name="x"):
    return at.tensor(dtype, shape=[None] * len(shape), name=name)


def filled(dtype, shape, seed=0):
    """Numbers of a dtype, zeros, infinities and NaN among them, in any order."""
    pool = np.random.RandomState(seed).permutation(values(dtype))
    return np.resize(pool, shape).astype(dtype)


def assert_is(f, args, wanted):
    """A compiled function is well typed and gives these arrays."""
    check_jaxpr(f.jaxpr(*args).jaxpr)
    for found, theirs in zip(at_once(f, *args), wanted, strict=True):
        assert_same(found, theirs)


def axes_of(shape):
    return [None, *range(-len(shape), len(shape))]


# --- Running sums and products -----------------------------------------------------------


@examples(1, quick=0.5)
@given(dtypes, SHAPES, st.integers(0, 99))
def test_cumulative(dtype, shape, seed):
    """As NumPy in the declared dtype, to which Aesara's C code keeps, and its Python does not."""
    x, a = tensor(dtype, shape), filled(dtype, shape, seed)
    kinds = list(itertools.product(axes_of(shape), ("add", "mul")))
    f = jaxprgen.compile([x], [CumOp(axis, mode)(x) for axis, mode in kinds])
    functions = {"add": np.cumsum, "mul": np.cumprod}
    with np.errstate(all="ignore"):
        wanted = [functions[mode](a, axis, dtype) for axis, mode in kinds]
    assert_is(f, [a], wanted)


def test_cumulative_of_booleans_and_of_what_is_known():
    x = at.vector("x", dtype="bool")
    f = jaxprgen.compile([x], [at.cumsum(x), at.cumprod(x)])
    assert all(v.all() for v in f(np.ones(600, bool)))  # They do not wrap.
    f = assert_agrees([], [at.cumsum(at.constant(np.arange(6.0))), at.cumprod([[2, 3]])], [])
    assert equations(f) == []


# --- Repetition --------------------------------------------------------------------------


@examples(1, quick=0.5)
@given(st.data())
def test_repeat(data):
    dtype, shape = data.draw(dtypes), data.draw(SHAPES)
    axis = data.draw(st.sampled_from(axes_of(shape)))
    size = int(np.prod(shape)) if axis is None else shape[axis]
    x, a = tensor(dtype, shape), filled(dtype, shape)
    each = data.draw(st.lists(SIZES, min_size=size, max_size=size))
    counts = [np.array(data.draw(SIZES)), np.array(each, "int64"), np.array([2], "int8")]
    n = [at.tensor(c.dtype, shape=[None] * c.ndim) for c in counts]
    outputs = [Repeat(axis)(x, c) for c in [*n, *map(at.constant, counts)]]
    f = assert_agrees([x, *n], outputs, [a, *counts])
    if f.jaxpr(a, *counts).jaxpr.eqns:
        known = jaxprgen.compile([x], outputs[3:])
        assert_is(known, [a], [np.repeat(a, c, axis) for c in counts])


def test_repeat_is_computed_or_emitted_by_size():
    few, many = (Repeat(0)(at.constant([1.0, 2.0]), n) for n in (3, 5000))
    f = assert_agrees([], [few, many], [])
    assert equations(f) == ["broadcast_in_dim", "reshape"]


def test_repeat_of_what_does_not_fit():
    x, n = at.vector("x"), at.lvector("n")
    f = jaxprgen.compile([x, n], Repeat(0)(x, n))
    for counts in ([1, 2], [1, -1, 2]):
        assert refusal(ShapeMismatchError, f, np.ones(3), np.array(counts))[0] == (
            f"Cannot repeat 3 slices {counts} times: give one count >= 0, or one for each slice."
        )
    assert refusal(StaticShapeError, jax.jit(f), np.ones(3), np.ones(3, int))[:4] == [
        "The counts of repeat decide a shape, and are known only when the program runs. Give the "
        "result a size that does not depend on them: index the slices with an array of integers "
        "that has as many elements as there can be slices.",
        "A shape depends on the value of input 'n', which is a tracer (DynamicJaxprTracer) under a "
        "JAX transformation.",
        "Pass 'n' as a concrete array: call this outside of the transformation, close over it, or "
        "give the array a size that does not depend on it.",
        "  in Repeat{axis=0}(x, n)",
    ]


def test_repetitions_that_add_up_to_the_same_have_one_program():
    """Of as many counts as there are rows, however many that are, and of one for all of them."""
    x, n = at.matrix("x"), at.lvector("n")
    f = jaxprgen.compile([x, n], Repeat(0)(x, n))
    a = np.arange(200.0).reshape(100, 2)
    counts = [*np.random.default_rng(1).permuted([np.resize([0, 1, 3], 100)] * 3, axis=1)]
    for each in (*counts, np.ones(100, int), np.array([1]), np.array([0]), np.zeros(100, int)):
        np.testing.assert_array_equal(f(a, each), np.repeat(a, each, 0))
    assert f.cache_info().misses == 5  # Of 0, 100 and 132 rows; of 0 and 100 by one count.
    gradient = jax.grad(lambda a: (f(a, counts[0]) ** 2).sum())(a)
    assert_same(gradient, 2 * a * counts[0][:, None])
    assert jaxprgen.check([x, n], Repeat(0)(x, n)).static == ("n",)


# --- Different values --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique_of_what_is_known(dtype):
    """As NumPy, whose inverse is declared a vector, and has the operand's shape in NumPy 2."""
    options = {f"return_{what}": True for what in ("index", "inverse", "counts")}
    for a, axis in itertools.product([values(dtype)[:12].reshape(3, 2, 2)], axes_of((3, 2, 2))):
        outputs = [at.unique(a), *at.unique(a, axis=axis, **options)]
        outputs += [at.unique(a, False, True, False, axis)[1]]
        f = jaxprgen.compile([], outputs)
        assert equations(f) == []
        wanted = [np.unique(a), *np.unique(a, axis=axis, **options)]
        wanted = [*wanted[:3], wanted[3].reshape(-1), wanted[4]]
        for ours, theirs in zip(f(), [*wanted, wanted[3]], strict=True):
            assert_same(ours, theirs)


def test_unique_of_a_shape_and_of_nothing():
    x = at.matrix("x")
    f = jaxprgen.compile([x], at.unique(at.stack([x.shape[0], x.shape[1]])))
    assert f(np.ones((3, 3))).tolist() == [3]
    assert jaxprgen.compile([], at.unique(np.zeros((0, 2))))().shape == (0,)


@examples(1, quick=0.5)
@given(st.data())
def test_unique_of_arguments(data):
    dtype, shape = data.draw(dtypes), data.draw(SHAPES)
    axis = data.draw(st.sampled_from(axes_of(shape)))
    x = tensor(dtype, shape)
    a = np.resize(data.draw(st.permutations(list(values(dtype)))), shape).astype(dtype)
    assume(axis is None or a.size or not shape[axis])  # NumPy 1 fails there.
    out = [at.unique(x, axis=axis), *at.unique(x, True, True, True, axis)]
    f = jaxprgen.compile([x], out)
    theirs = reference([x], out, [a])
    theirs[3] = theirs[3].reshape(-1)  # In NumPy 2 the inverse has x's shape.
    for mine, yours in zip(at_once(f, a), theirs, strict=True):
        assert_same(mine, yours, rtol=0)


def test_as_many_different_ones_have_one_program():
    x, y = at.vectors("x", "y")
    f = jaxprgen.compile([x, y], at.unique(x) * y)
    for numbers in ([1, 2, 2, 1], [3, 3, 3, 1], [1, 2, 3, 3], [np.nan, 2, np.nan, 2]):
        a = np.array(numbers, float)
        number = len(np.unique(a))
        np.testing.assert_array_equal(f(a, 2 * np.ones(number)), 2 * np.unique(a))
    assert f.cache_info().misses == 2
    gradient = jax.grad(lambda b: f(np.array([3.0, 1, 3]), b).sum())(np.ones(2))
    assert gradient.tolist() == [1, 3]


def test_unique_of_tracers_is_an_error():
    x = at.vector("x")
    f = jaxprgen.compile([x], at.unique(x))
    first, value, remedy, node, *_, line = refusal(StaticShapeError, jax.jit(f), np.ones(2))
    assert value.startswith("A shape depends on the value of input 'x', which is a tracer")
    assert remedy.startswith("Pass 'x' as a concrete array: call this outside of the")
    assert first == (
        "The number of distinct values decides the shape of the result, and the values are known "
        "only when the program runs. Compute the distinct values outside of the graph and pass "
        "them as an input; or keep the shape: sort, and mark the elements that differ from their "
        "predecessor. "
        "Or give the result a size: jaxprgen.compile(..., sizes={variable: n})."
    )
    assert node.startswith("  in Unique")
    assert line == "  built at LINE: f = jaxprgen.compile([x], at.unique(x))"


# --- Search ------------------------------------------------------------------------------


@examples(1, quick=0.5)
@given(dtypes, dtypes, SIZES | st.integers(4, 20), SHAPES, st.integers(0, 99))
def test_searchsorted(xs, vs, size, shape, seed):
    x, v, s = at.vector(dtype=xs), tensor(vs, shape), at.ivector()
    a, w = np.sort(filled(xs, size, seed)), filled(vs, shape, seed)
    order = np.random.RandomState(seed).permutation(size).astype("int32")
    mixed = at.vector(dtype=xs)
    shuffled = np.empty_like(a)
    shuffled[order] = a
    sides = ("left", "right")
    outputs = [at.searchsorted(x, v, side) for side in sides]
    outputs += [at.searchsorted(mixed, v, side, s) for side in sides]
    f = jaxprgen.compile([x, v, mixed, s], outputs)
    wanted = [np.searchsorted(a, w, side).astype("int64") for side in sides]
    assert_is(f, [a, w, shuffled, order], [np.asarray(n) for n in wanted * 2])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_searchsorted_among_complex_numbers_that_miss_parts(dtype):
    parts = [0.0, 1.0, np.nan, np.inf, -np.inf]
    every = np.array([complex(*p) for p in itertools.product(parts, parts)], dtype)
    x, v = at.vector(dtype=dtype), at.vector(dtype=dtype)
    outputs = [at.searchsorted(x, v, side) for side in ("left", "right")]
    assert_agrees([x, v], outputs, [np.sort(every), every])


def test_derivatives_pass_by_a_search():
    x, v = at.dvector("x"), at.dvector("v")
    f = jaxprgen.compile([x, v], at.sum(at.searchsorted(x, v) * v))
    args = [np.array([0.0, 1.0]), np.array([0.5, -1.0, 2.0])]
    for derivative in (jax.grad, jax.jacfwd):
        by_x, by_v = jax.jit(derivative(f, argnums=(0, 1)))(*args)
        assert_same(by_x, np.zeros(2))
        assert_same(by_v, np.array([1.0, 0.0, 2.0]))


def test_a_sorter_of_another_size():
    x, s = at.dvector("x"), at.lvector("s")
    with pytest.raises(ShapeMismatchError, match="2 positions does not fit 3 elements"):
        jaxprgen.compile([x, s], at.searchsorted(x, x, sorter=s))(np.ones(3), np.arange(2))


# --- Positions ---------------------------------------------------------------------------

DIMS = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
@examples(0.6, quick=0.3)
@given(DIMS, SHAPES, st.sampled_from(["int8", "int16", "int32", "int64"]))
def test_unravel_and_ravel(dims, shape, dtype):
    p, d = tensor(dtype, shape, "p"), at.lvector("d")
    last = min(int(np.prod(dims)), np.iinfo(dtype).max)
    position = np.random.RandomState(0).randint(0, last, shape).astype(dtype)
    stacked = at.stack([d[i] for i in range(len(dims))])
    outputs = []
    for order, given_dims in itertools.product("CF", (at.constant(dims), stacked)):
        index = UnravelIndex(order)(p, given_dims, return_list=True)
        outputs += [*index, RavelMultiIndex("raise", order)(*index, given_dims)]
    f = assert_agrees([p, d], outputs, [position, np.array(dims)])
    assert_same(jax.jit(f)(position, np.array(dims))[-1], position.astype("int64"))


@pytest.mark.parametrize("mode", ["wrap", "clip"])
@examples(0.6, quick=0.3)
@given(data=st.data())
def test_ravel_of_indices_outside(mode, data):
    dims, dtype = data.draw(DIMS), data.draw(st.sampled_from(["int8", "int64"]))
    rows = st.lists(st.integers(-9, 9), min_size=3, max_size=3)
    index = [np.array(data.draw(rows), dtype) for _ in dims]
    index[-1] = index[-1][:1] if len(dims) > 1 else index[-1]  # It broadcasts.
    inputs, d = [at.vector(dtype=dtype) for _ in dims], at.lvector("d")
    kinds = itertools.product("CF", (at.constant(dims), d))
    outputs = [RavelMultiIndex(mode, order)(*inputs, sizes) for order, sizes in kinds]
    assert_agrees([*inputs, d], outputs, [*index, np.array(dims)])


def test_positions_that_are_known_are_folded():
    index = at.unravel_index(np.array([3, 5]), (2, 3))
    f = assert_agrees([], [*index, at.ravel_multi_index(index, (2, 3))], [])
    assert equations(f) == []
    with pytest.raises(LoweringError, match="ValueError: index 6 is out of bounds"):
        jaxprgen.compile([], at.unravel_index(np.array([6]), (2, 3)))()


def test_positions_outside_are_announced_or_checked():
    p = at.lvector("p")
    row, _ = at.unravel_index(p, (2, 3))
    cases = [
        (row, "whether positions are within bounds", [6, -1]),
        (at.ravel_multi_index((p, p), (2, 3)), "every index is within axis 0", [2, -1]),
    ]
    for output, message, outside in cases:
        with pytest.warns(RuntimeCheckWarning, match=message):
            jaxprgen.compile([p], output)(np.ones(1, int))
        right, *wrong = failures([p], output, *([np.array([1, n])] for n in (0, *outside)))
        assert right is None and all(wrong)


# --- A window ----------------------------------------------------------------------------


def test_bartlett():
    n = at.lscalar("n")
    f = jaxprgen.compile([n], at.bartlett(n))
    lengths = [-3, 0, 1, 2, 3, 10, 11, 3000, 3001]
    assert_agrees([], [at.bartlett(at.constant(length)) for length in lengths], [])
    for length in lengths:
        assert_same(f(length), *reference([n], [at.bartlett(n)], [np.int64(length)]))
        assert bool(equations(f, length)) == (length > 1024)
    with pytest.raises(StaticShapeError, match="'n'"):
        jax.jit(f)(3)


# --- Gradients ---------------------------------------------------------------------------


def test_gradients_are_those_of_aesara():
    x = at.dmatrix("x")
    a = np.linspace(0.3, 2, 6).reshape(2, 3)
    cumulated = [at.cumsum(x, 1), at.cumsum(x), at.cumprod(x, 0), at.cumprod(x)]
    costs = [
        at.sum(at.sin(made * at.arange(made.shape[-1])))
        for made in [*cumulated, Repeat(1)(x, 3), at.repeat(x, 2)]
    ]
    assert_derivatives([x], costs, [a])
    varied = jaxprgen.compile([x], at.sum(Repeat(1)(x, at.constant([2, 0, 3])) ** 2))
    assert_same(jax.grad(varied)(a), 2 * a * [2, 0, 3])
