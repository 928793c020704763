"""Products of vectors and matrices."""

import itertools

import aesara.tensor as at
import numpy as np
import pytest
from aesara.tensor import blas
from hypothesis import given, strategies as st
from laws import DTYPES, assert_agrees
from profiles import examples, sample

import jaxprgen
from jaxprgen.errors import ShapeMismatchError

sizes = st.integers(0, 4)


def draw(shape, dtype, seed=0):
    """Small numbers, so that products of small integers do not differ by how they overflow."""
    rng = np.random.default_rng([seed, *shape])
    dtype = np.dtype(dtype)
    low = 0 if dtype.kind in "bu" else -3
    real = rng.integers(low, 2 if dtype.kind == "b" else 4, shape).astype(dtype)
    return real + 1j * real.astype(dtype) if dtype.kind == "c" else real


def tensor(value, static=False):
    return at.tensor(value.dtype.name, shape=value.shape if static else (None,) * value.ndim)


@pytest.mark.parametrize("ranks", [(1, 1), (1, 2), (2, 1), (2, 2)], ids=str)
def test_dot_of_all_dtypes(ranks):
    shapes = (2, 3)[2 - ranks[0] :], (3, 4)[: ranks[1]]
    inputs, outputs, args = [], [], []
    for pair in sample(itertools.product(DTYPES, repeat=2), 33):
        # One XLA program for all pairs: float16 is compared loosely, it is summed in float32.
        args += [draw(shapes[i], pair[i], i) for i in (0, 1)]
        inputs += map(tensor, args[-2:])
        outputs.append(at.math._dot(*inputs[-2:]))
    assert_agrees(inputs, outputs, args, rtol=4e-3)


@examples(3, quick=1)
@given(sizes, sizes, sizes, st.sampled_from(["float64", "int32", "bool"]))
def test_dot_of_any_sizes(m, k, n, dtype):
    a, b, v = draw((m, k), dtype), draw((k, n), dtype, 1), draw((k,), dtype, 2)
    A, B, V = map(tensor, (a, b, v))
    outputs = [at.math._dot(A, B), at.math._dot(A, V), at.math._dot(V, B), at.math._dot(V, V)]
    assert_agrees([A, B, V], outputs, [a, b, v])


MATMUL_SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((0, 2, 3), (3, 4)),
    ((5, 2, 0), (0, 4)),
]


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128"])
def test_matmul_broadcasts_leading_axes(dtype):
    args = [draw(s, dtype, i) for i, pair in enumerate(MATMUL_SHAPES) for s in pair]
    inputs = [tensor(a, static=True) for a in args]  # Aesara's MatMul needs the leading sizes.
    # Without a dtype, Aesara declares float64 and its ``perform`` returns something else.
    outputs = [at.matmul(x, y, dtype=dtype) for x, y in zip(inputs[::2], inputs[1::2], strict=True)]
    assert_agrees(inputs, outputs, args)


@pytest.mark.parametrize(
    "dtypes", [("complex128",) * 2, ("bool",) * 2, ("uint8", "int8"), ("uint8",) * 2]
)
def test_matmul_without_a_dtype(dtypes):
    """NumPy's result, wrapped around and all, in the float64 that Aesara declares."""
    args = [100 * draw((2, 3), dtypes[0]), 100 * draw((3, 2), dtypes[1], 1)]
    args = [a.astype(dtype) for a, dtype in zip(args, dtypes, strict=True)]
    x, y = map(tensor, args)
    out = at.math.MatMul(None)(x, y)
    ours = jaxprgen.compile([x, y], out)(*args)
    np.testing.assert_array_equal(ours, np.matmul(*args).real)
    assert ours.dtype == out.dtype == "float64"


def test_batched_dot():
    inputs, outputs, args = [], [], []
    for left, right, batch in itertools.product((2, 3), (2, 3), (0, 1, 5)):
        args += [draw((batch, *(2, 3)[3 - left :]), "float64")]
        args += [draw((batch, *(3, 4)[: right - 1]), "int32")]
        inputs += map(tensor, args[-2:])
        outputs.append(blas.BatchedDot()(*inputs[-2:]))
    assert_agrees(inputs, outputs, args)


FACTORS = (0.0, 1.0, -1.0, 0.5)


def test_blas():
    """Scaled products; a factor may be part of the graph or an argument."""
    values = [draw(shape, "float64") for shape in ((2,), (2, 3), (3,), (3, 4), (2, 4), (4,))]
    y, A, x, B, z, w = inputs = [tensor(v) for v in values]
    outputs, factors = [blas.Dot22()(A, B)], []
    for pair in itertools.product(FACTORS, repeat=2):
        arguments = at.dscalars("alpha", "beta")
        inputs += arguments
        factors += pair
        for alpha, beta in (map(np.asarray, pair), arguments):
            for inplace in (False, True):
                outputs += [
                    blas.Gemv(inplace)(y, alpha, A, x, beta),
                    blas.Gemm(inplace)(z, alpha, A, B, beta),
                    blas.Ger(inplace)(z, alpha, y, w),
                ]
            outputs.append(blas.Dot22Scalar()(A, B, at.as_tensor_variable(alpha)))
    assert_agrees(inputs, outputs, [*values, *factors])


def test_a_zero_factor_ignores_the_addend_nan_and_all():
    """By factors that are known, and by arguments; an addend of one row is repeated."""
    y, A, x, B, z, row = at.vector(), at.matrix(), at.vector(), at.matrix(), at.matrix(), at.row()
    args = [np.array([np.nan, 1]), np.ones((2, 3)), np.ones(3), np.ones((3, 2))]
    args += [np.full((2, 2), np.nan), np.ones((1, 2))]
    inputs, outputs, two = [y, A, x, B, z, row], [], np.asarray(2.0)
    for beta in map(np.asarray, (0.0, 1.0, 0.5)):
        inputs.append(at.scalar())
        args.append(beta)
        for factor in (beta, inputs[-1]):
            outputs += [blas.gemv(y, two, A, x, factor), blas.gemm(z, two, A, B, factor)]
        outputs.append(blas.gemm(row, np.asarray(1.0), A, B, beta))
    assert_agrees(inputs, outputs, args)


def test_addends_of_other_sizes_are_errors():
    y, A, x, v = at.vector("y"), at.matrix("A"), at.vector("x"), at.vector("v")
    for out in (
        blas.gemv(y, np.asarray(1.0), A, x, np.asarray(0.0)),
        blas.ger(A, np.asarray(1.0), y, v),
    ):
        f = jaxprgen.compile([y, A, x, v], out)
        with pytest.raises(ShapeMismatchError, match="Cannot add a product of shape"):
            f(np.ones(1), np.ones((2, 3)), np.ones(3), np.ones(3))


@pytest.mark.parametrize(
    ("make", "left", "right", "message"),
    [
        (at.math._dot, (2, 3), (2, 3), "Cannot multiply"),
        (at.matmul, (2, 3), (2, 3), "Cannot multiply"),
        (blas.BatchedDot(), (5, 2, 3), (4, 3, 2), "batches of sizes 5 and 4"),
        (blas.BatchedDot(), (2, 3, 3), (1, 3, 3), "batches of sizes 2 and 1"),
    ],
)
def test_sizes_that_do_not_match_are_an_error_that_tells_them(make, left, right, message):
    args = [np.ones(left), np.ones(right)]
    inputs = [tensor(a) for a in args]
    with pytest.raises(ShapeMismatchError, match=message) as caught:
        jaxprgen.compile(inputs, make(*inputs))(*args)
    # As Aesara raises.
    assert isinstance(caught.value, TypeError if len(left) == 3 else ValueError)
