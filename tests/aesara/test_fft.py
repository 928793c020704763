"""Fourier transforms: over any number of axes, of any length."""

import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.tensor.fft import IRFFTOp, RFFTOp, irfft, rfft
from aesara.tensor.fourier import Fourier
from hypothesis import given, strategies as st
from laws import assert_agrees, assert_derivatives, assert_same, equations, reference, refusal
from profiles import examples

import jaxprgen
from jaxprgen.errors import ShapeMismatchError, StaticShapeError

# NumPy 2 deprecates lengths without axes, which is how Aesara calls it.
pytestmark = pytest.mark.filterwarnings("ignore:`axes` should not be `None`:DeprecationWarning")

LENGTHS = st.sampled_from([1, 2, 3, 4, 5])
FLOATS = ["float32", "float64"]


def tensor(dtype, rank):
    return at.tensor(dtype, shape=[None] * rank)


def numbers(dtype, shape):
    return np.random.RandomState(0).normal(size=shape).astype(dtype)


@given(st.data())
def test_transforms_of_real_arrays(data):
    """Over as many of the last axes as there are lengths; more than three are done in parts."""
    rank = data.draw(st.integers(2, 5))
    dtype = data.draw(st.sampled_from(FLOATS))
    batch = data.draw(st.sampled_from([0, 1, 2]))
    shape = (batch, *(data.draw(LENGTHS) for _ in range(rank - 1)))
    lengths = data.draw(st.lists(LENGTHS, min_size=1, max_size=rank - 1))
    x, y, s = tensor(dtype, rank), tensor(dtype, rank + 1), at.lvector("s")
    outputs = [RFFTOp()(x), RFFTOp()(x, s), RFFTOp()(x, lengths), IRFFTOp()(y, s)]
    args = [numbers(dtype, shape), numbers(dtype, (*shape, 2)), np.array(lengths)]
    assert_agrees([x, y, s], outputs, args)


def test_transforms_of_more_axes_than_xla_takes_at_once():
    x, y = tensor("float64", 6), tensor("float64", 7)
    args = [numbers("float64", (1, 2, 3, 2, 3, 4)), numbers("float64", (1, 2, 3, 2, 3, 4, 2))]
    f = assert_agrees([x, y], [RFFTOp()(x), IRFFTOp()(y), RFFTOp()(x, [2] * 6)], args)
    assert equations(f, *args).count("fft") == 6


def test_transforms_as_users_write_them():
    x, y = at.dtensor3s("x", "y")
    cases = [(x, False), (y, True)]
    norms = (None, "ortho", "no_norm")
    outputs = [irfft(rfft(v, norm), norm, odd) for v, odd in cases for norm in norms]
    outputs += [rfft(v, norm) for v, _ in cases for norm in norms]
    args = [numbers("float64", (2, 3, 4)), numbers("float64", (2, 3, 5))]
    assert_agrees([x, y], outputs, args)


def test_the_result_of_a_transform_may_be_decomposed():
    """As a matrix that LAPACK wants by columns."""
    x, y = at.dmatrix("x"), at.dtensor3("y")
    a, half = numbers("float64", (3, 3)), numbers("float64", (3, 2, 2))
    one, more = (at.eye(3) * n for n in (20, 40))
    outputs = [
        at.nlinalg.matrix_inverse(at.real(Fourier()(x, 3, 1)) + one),
        at.nlinalg.matrix_inverse(IRFFTOp()(y, [3]) + more),
        at.nlinalg.det(RFFTOp()(x)[:, :, 0].T.dot(x[:, :2]) + at.eye(2)),
    ]
    assert_agrees([x, y], outputs, [a, half])


@pytest.mark.parametrize("dtype", ["float16", "int8", "int64", "uint32"])
def test_results_have_the_dtype_of_the_operand(dtype):
    """Of integers, that cuts off fractions."""
    x = tensor(dtype, 2)
    a = np.array([[1, 5, 3, 7], [2, 2, 0, 1]], dtype)
    f = assert_agrees([x], RFFTOp()(x) if dtype != "uint32" else RFFTOp()(x)[:, :1], [a])
    assert f(a).dtype == dtype


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_parts_of_a_spectrum_may_be_complex(dtype):
    x = tensor(dtype, 3)
    a = (numbers("float64", (2, 3, 2)) + 1j * numbers("float64", (2, 3, 2))[::-1]).astype(dtype)
    out = IRFFTOp()(x, [4])
    ours, (theirs,) = jaxprgen.compile([x], out)(a), reference([x], [out], [a])
    assert_same(ours, theirs.astype(dtype))


@examples(0.6)
@given(st.data())
def test_the_transform_along_one_axis(data):
    dtype = data.draw(st.sampled_from(["int8", "float32", "float64", "complex64", "complex128"]))
    shape = data.draw(st.lists(LENGTHS, min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(shape) - 1))
    x, n, d = tensor(dtype, len(shape)), at.lscalar("n"), at.lscalar("d")
    outputs = [Fourier()(x, None, axis), Fourier()(x, n, d), Fourier()(x, 3, axis)]
    a = (numbers("float64", shape) * 3 + 1j * numbers("float64", shape)).real.astype(dtype)
    f = jaxprgen.compile([x, n, d], outputs)
    length = data.draw(LENGTHS)
    # What is declared is complex128; of single precision NumPy 2 makes complex64.
    wide = a.astype("complex128")
    for ours, m in zip(f(a, length, axis), (None, length, 3), strict=True):
        assert_same(ours, np.fft.fft(wide, m, axis))


def test_lengths_must_fit_and_be_known():
    x, s = at.dmatrix("x"), at.lvector("s")
    f = jaxprgen.compile([x, s], RFFTOp()(x, s))
    for lengths, message in [
        ([0], "A Fourier transform needs lengths >= 1, got [0]."),
        ([2, 2, 2], "Cannot transform 2 axes to lengths [2, 2, 2]."),
    ]:
        assert refusal(ShapeMismatchError, f, np.ones((2, 2)), np.array(lengths))[0] == message
    with pytest.raises(StaticShapeError, match="'s'"):
        jax.jit(f)(np.ones((2, 2)), np.array([2]))


@pytest.mark.parametrize("length", [4, 5])
def test_gradients_are_those_of_aesara(length):
    x, y, half = at.dmatrix("x"), at.dtensor3("y"), length // 2 + 1
    weights = np.arange(1.0, length + 1)
    costs = [
        at.sum(at.sin(rfft(x, "ortho")) * weights[:half, None]) + 0 * y.sum(),
        at.sum(at.sin(irfft(y, "ortho", is_odd=length % 2 == 1)) * weights) + 0 * x.sum(),
    ]
    args = [numbers("float64", (2, length)), numbers("float64", (2, half, 2))]
    assert_derivatives([x, y], costs, args)
