"""Ops of `aesara.sandbox` that are neither random nor sparse."""

import warnings

import aesara.tensor as at
import jax
import numpy as np
import pytest
from laws import assert_same

import jaxprgen
from jaxprgen.errors import ShapeMismatchError, UnsupportedOpError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # `aesara.sandbox.fourier` is deprecated.
    from aesara.sandbox import fourier


@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
@pytest.mark.parametrize("axis", [0, 1])
def test_fourier_transforms(dtype, axis):
    """Complex numbers in double precision, as is declared, of whatever it is."""
    x, n = at.tensor(dtype, shape=[None, None]), at.lscalar("n")
    a = (np.random.default_rng(0).normal(size=(3, 5)) * 9).astype(dtype)
    outputs = [fourier.fft(x, n, axis), fourier.ifft(x, 4, axis)]
    f = jaxprgen.compile([x, n], outputs)
    wide = a.astype("complex128")
    for run, length in [(f, 4), (jax.jit(f, static_argnums=1), 7)]:
        ours = run(a, length)
        assert_same(ours[0], np.fft.fft(wide, length, axis))
        assert_same(ours[1], np.fft.ifft(wide, 4, axis))
    if dtype != "complex128":
        half, inverse = (op(x, 4, axis) for op in (fourier.half_fft, fourier.half_ifft))
        ours = jaxprgen.compile([x], [half, inverse])(a)
        for mine, whole in zip(ours, (np.fft.fft, np.fft.ifft), strict=True):
            assert_same(mine, whole(wide, 4, axis).take(range(2), axis))
        known = fourier.half_fft(at.constant(a), 4, axis)
        assert_same(jaxprgen.compile([], known)(), ours[0])


def test_what_has_no_half_and_what_is_not_there():
    x = at.dmatrix("x")
    with pytest.raises(ShapeMismatchError) as caught:
        jaxprgen.compile([x], fourier.half_fft(x, 3, 1))(np.ones((2, 3)))
    assert (
        str(caught.value).splitlines()[0]
        == "Half a spectrum needs an even number of frequencies, got 3."
    )
    with pytest.raises(UnsupportedOpError, match="GradTodo"):
        jaxprgen.compile([x], fourier.grad_todo(x))
