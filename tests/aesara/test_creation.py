"""Making arrays, joining and splitting them."""

import itertools

import aesara
import aesara.scalar as aes
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.tensor.basic import Join, MakeVector, Split
from hypothesis import given, strategies as st
from laws import DTYPES, assert_agrees, assert_same, equations, reference
from operands import values
from profiles import examples, sample

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import AxisOutOfBoundsError, ShapeMismatchError, StaticShapeError

INTEGERS = [d for d in DTYPES if "int" in d]
REALS = [*INTEGERS, "float16", "float32", "float64"]


# --- Filled arrays -----------------------------------------------------------------------


def test_alloc():
    x, inputs, args, outputs = at.scalar("x"), [], [], []
    for shape in [(), (0,), (1,), (3,), (2, 3), (2, 0, 1)]:
        v, n = at.vector("v"), at.lscalar("n")
        sizes = [n if i == 0 else size for i, size in enumerate(shape)]
        inputs += [v, n]
        args += [np.arange(shape[-1] if shape else 1.0), shape[0] if shape else 1]
        outputs += [at.alloc(x, *sizes), at.alloc(np.float32(2), *shape)]
        outputs += [at.alloc(np.array(True), *sizes)]
        if shape:
            outputs += [at.alloc(v, *sizes), at.alloc(v[None] * 2, 2, *shape) + 1]
    assert_agrees([x, *inputs], outputs, [np.float64(1.5), *args])


def test_alloc_of_what_does_not_fit():
    v = at.vector("v")
    with pytest.raises(ShapeMismatchError, match=r"Shapes \(2,\) and \(3, 4\) do not"):
        jaxprgen.compile([v], at.alloc(v, 3, 4))(np.ones(2))
    n = at.lscalar("n")
    with pytest.raises(ShapeMismatchError, match="Sizes must be >= 0"):
        jaxprgen.compile([n], at.alloc(0.0, n))(-1)


def test_alloc_empty_has_a_shape_and_a_dtype():
    n = at.lscalar("n")
    outputs = [at.basic.AllocEmpty(d)(n, 2) for d in DTYPES]
    f = jaxprgen.compile([n], outputs)
    check_jaxpr(f.jaxpr(3).jaxpr)
    assert [(v.shape, v.dtype.name) for v in f(3)] == [((3, 2), d) for d in DTYPES]


# --- Ranges ------------------------------------------------------------------------------

RANGES = [
    (0, 5, 1),
    (3, 9, 2),
    (0, 0, 1),
    (5, 2, 1),
    (7, 1, -2),
    (1, 2, 5),
    (-3, 4, 1),
    (2, -3, -1),
]


def test_arange():
    known, inputs, args = [], [], []
    for dtype, row in itertools.product(REALS, RANGES):
        if dtype.startswith("uint") and min(row) < 0:
            continue
        numbers = [np.array(v, dtype) for v in row]
        known.append(at.arange(*map(at.constant, numbers)))
        inputs += [at.scalar(dtype=dtype) for _ in numbers]
        args += numbers
    outputs = [at.arange(*inputs[i : i + 3]) for i in range(0, len(inputs), 3)]
    assert_agrees(inputs, known + outputs, args)


def test_arange_of_fractions_and_mixed_dtypes():
    k = at.bscalar("k")
    outputs = [
        at.arange(0, 1, 0.1),
        at.arange(0.5, -2, -0.3),
        at.arange(np.float32(0), np.float32(1), np.float32(0.1)),
        at.arange(np.float32(0.1), 2),
        at.arange(k, 2.5),
        at.arange(k, np.uint16(9), 3),
        at.arange(1e-3, 5, dtype="float32"),
    ]
    assert_agrees([k], outputs, [np.int8(-2)])


@examples(3, quick=1)
@given(st.floats(-3, 3), st.floats(-3, 3), st.sampled_from([0.1, -0.1, 0.25, 1.0, -2.0]))
def test_ranges_of_fractions(start, stop, step):
    # Above a thousand elements a range is counted by the program, not computed while emitting.
    assert_agrees(
        [], [at.arange(start, stop, step), at.arange(start, start + 1100 * step, step)], []
    )


def test_ranges_by_arguments_make_one_program_each():
    n = at.lscalar("n")
    f = assert_agrees([n], at.arange(n) * 2, [3])
    assert f(5).shape == (5,)
    assert f.cache_info().currsize == 2
    with pytest.raises(StaticShapeError, match="'n'"):
        jax.jit(f)(3)


LARGE = [
    at.arange(2000),
    at.arange(-5, 90000, 7, dtype="int32"),
    at.arange(4000, 10, -2, dtype="int16"),
    at.arange(np.uint64(2**63), np.uint64(2**63 + 2000)),
    at.arange(0.5, 700, 0.25),
    at.arange(5, -100, -0.1, dtype="float32"),
    at.arange(1500, dtype="float16"),
]


def test_large_ranges_are_not_constants():
    f = assert_agrees([], LARGE, [])
    assert sum(np.asarray(c).nbytes for c in f.jaxpr().consts) < 1024


def test_arange_without_a_step():
    n = at.lscalar("n")
    with pytest.raises(ShapeMismatchError, match="step of arange must not be zero"):
        jaxprgen.compile([n], at.arange(0, 5, n))(0)


# --- Identity matrices -------------------------------------------------------------------


def test_eye():
    k, n = at.lscalar("k"), at.lscalar("n")
    sizes = [(3, 3), (2, 4), (4, 2), (0, 3), (3, 0), (1, 1)]
    outputs = [at.eye(r, c, d) for (r, c), d in itertools.product(sizes, [0, 1, -2, 9])]
    outputs += [at.eye(r, c, k) for r, c in sizes] + [at.eye(n, dtype=d) for d in DTYPES]
    outputs += [at.eye(2, 3, k, dtype=d) for d in DTYPES]
    for diagonal in (-1, 2):
        assert_agrees([k, n], outputs, [diagonal, 3])
    f = jaxprgen.compile([k], at.eye(3, 4, k))  # The diagonal need not be known.
    np.testing.assert_array_equal(jax.jit(f)(1), np.eye(3, 4, 1))


def test_a_large_eye_is_no_constant():
    k = at.lscalar("k")
    f = assert_agrees([k], [at.eye(100), at.eye(100, k=-3), at.eye(100, k=k)], [-3])
    assert not f.jaxpr(-3).consts


# --- Vectors of scalars, joining, splitting ----------------------------------------------


def test_make_vector():
    y, inputs, outputs = at.scalar(dtype="bool"), [], []
    for dtype in DTYPES:
        x = at.scalar(dtype=dtype)
        inputs.append(x)
        outputs += [MakeVector(dtype)(x, y, x), MakeVector(dtype)(), MakeVector(dtype)(x)]
        outputs += [at.stack([x, y, at.constant(3, dtype="int8")])]
    assert_agrees([y, *inputs], outputs, [np.array(True), *(np.array(2, d) for d in DTYPES)])
    assert equations(assert_agrees([], [MakeVector("int64")(1, 2, 3)], [])) == []


def test_join_of_every_two_dtypes():
    """In the common dtype, along any axis; one program for all of them."""
    inputs = {d: (at.matrix(dtype=d), values(d)[:6].reshape(2, 3)) for d in DTYPES}
    pairs = sample(itertools.product(DTYPES, DTYPES), 33)
    outputs = [at.join(k, inputs[d][0], inputs[e][0]) for d, e in pairs for k in (0, -1)]
    variables, args = zip(*inputs.values(), strict=True)
    f = jaxprgen.compile(variables, outputs)
    check_jaxpr(f.jaxpr(*args).jaxpr)
    for ours, wanted in zip(f(*args), reference(variables, outputs, args), strict=True):
        assert_same(ours, wanted, rtol=0)


@examples(2, quick=1)
@given(st.data())
def test_join_and_split(data):
    rank = data.draw(st.integers(1, 3))
    axis = data.draw(st.integers(-rank, rank - 1))
    shape = [data.draw(st.sampled_from([0, 1, 2])) for _ in range(rank)]
    sizes = data.draw(st.lists(st.sampled_from([0, 1, 2, 3]), min_size=1, max_size=4))
    known = [data.draw(st.booleans()) for _ in sizes]
    shapes = [[*shape[: axis % rank], n, *shape[axis % rank + 1 :]] for n in sizes]
    arrays = [np.resize(values("float64"), s) for s in shapes]
    inputs = [at.tensor("float64", shape=[None] * rank) for _ in sizes]
    xs = [at.constant(a) if k else x for a, x, k in zip(arrays, inputs, known, strict=True)]
    a, s = at.lscalar("a"), at.lvector("s")
    joined = [at.join(axis, *xs), Join()(a, *xs)]
    outputs = [*joined, *Split(len(sizes))(joined[0], axis, sizes, return_list=True)]
    outputs += Split(len(sizes))(joined[1], a, s, return_list=True)
    assert_agrees([*inputs, a, s], outputs, [*arrays, axis, np.array(sizes)])


def test_join_and_split_that_do_not_fit():
    x, y, s, a = at.matrix("x"), at.matrix("y"), at.lvector("s"), at.lscalar("a")
    with pytest.raises(ShapeMismatchError, match="Cannot join shapes"):
        jaxprgen.compile([x, y], at.join(0, x, y))(np.ones((1, 2)), np.ones((1, 3)))
    f = jaxprgen.compile([x, s], Split(2)(x, 0, s))
    pieces = "2 pieces, but 3 sizes are given"
    for sizes, message in {(1, 2): "Cannot split", (1, 1, 1): pieces, (-1, 4): "Cannot"}.items():
        with pytest.raises(ShapeMismatchError, match=message):
            f(np.ones((4, 1)), np.array(sizes))
    f = jaxprgen.compile([a, x], Join()(a, x, x))
    for axis in (2, -3):
        with pytest.raises(AxisOutOfBoundsError, match=f"Axis {axis} is out of bounds"):
            f(axis, np.ones((1, 2)))
    assert issubclass(AxisOutOfBoundsError, IndexError)
    assert issubclass(AxisOutOfBoundsError, ValueError)


def test_gradients():
    x, y = at.matrix("x"), at.matrix("y")
    joined = at.join(1, x, y * 2)
    cost = (joined * at.arange(joined.shape[1])).sum() + sum(
        (p**2).sum() for p in at.split(x, [1, 1], 2)
    )
    args = [np.arange(4.0).reshape(2, 2), np.ones((2, 3))]
    assert_agrees([x, y], aesara.grad(cost, [x, y]), args)


def test_tensors_and_scalars():
    inputs = [at.scalar(dtype=dtype) for dtype in DTYPES]
    scalars = [at.scalar_from_tensor(x) for x in inputs]
    outputs = [at.tensor_from_scalar(aes.second(s, s)) for s in scalars]
    args = [np.array(1, dtype) for dtype in DTYPES]
    assert equations(assert_agrees(inputs, outputs, args), *args) == []
