"""Ops of `aesara.sandbox` that are neither random nor sparse."""

import warnings

import aesara.tensor as at
import jax
import numpy as np
import pytest
from laws import assert_same, refusal

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
    wide = a.astype("complex128")
    outputs = [fourier.fft(x, n, axis), fourier.ifft(x, 4, axis)]
    wanted = [np.fft.fft(wide, 7, axis), np.fft.ifft(wide, 4, axis)]
    if dtype != "complex128":
        half = fourier.half_fft
        outputs += [half(x, 4, axis), fourier.half_ifft(x, 4, axis), half(at.constant(a), 4, axis)]
        wanted += [np.fft.fft(wide, 4, axis).take(range(2), axis)]
        wanted += [np.fft.ifft(wide, 4, axis).take(range(2), axis), wanted[2]]
    ours = jax.jit(jaxprgen.compile([x, n], outputs), static_argnums=1)(a, 7)
    jax.tree.map(assert_same, list(ours), wanted)


def test_what_has_no_half_and_what_is_not_there():
    x = at.dmatrix("x")
    assert (
        refusal(
            ShapeMismatchError, jaxprgen.compile([x], fourier.half_fft(x, 3, 1)), np.ones((2, 3))
        )[0]
        == "Half a spectrum needs an even number of frequencies, got 3."
    )
    with pytest.raises(UnsupportedOpError, match="GradTodo"):
        jaxprgen.compile([x], fourier.grad_todo(x))
