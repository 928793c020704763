"""Neighbourhoods in images, in every mode, and images made of them."""

import warnings

import aesara.tensor as at
import jax
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from laws import DTYPES, assert_agrees, assert_derivatives, assert_same, equations, refusal
from profiles import examples

import jaxprgen
from jaxprgen.errors import ShapeMismatchError, StaticShapeError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # `aesara.tensor.nnet` is deprecated.
    from aesara.tensor.nnet.neighbours import Images2Neibs, images2neibs, neibs2images

MODES = ["valid", "half", "full", "wrap_centered", "ignore_borders"]
PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


def fitting(mode, size, step, count):
    """The length of an axis that this many neighbourhoods fill."""
    margin = {"half": size // 2, "full": size - 1}.get(mode, 0)
    return (count - 1) * step + size - 2 * margin


@examples(0.6)
@given(st.sampled_from(MODES), PAIRS, PAIRS, PAIRS, st.sampled_from(DTYPES), st.integers(0, 2))
def test_neighbourhoods(mode, sizes, steps, counts, dtype, batch):
    if mode == "wrap_centered":
        sizes = tuple(n - (n + 1) % 2 for n in sizes)
    lengths = [fitting(mode, *each) for each in zip(sizes, steps, counts, strict=True)]
    if mode in ("wrap_centered", "ignore_borders"):
        lengths = [n + 1 for n in lengths]
    assume(all(n >= size for n, size in zip(lengths, sizes, strict=True)))
    x, size, step = at.tensor(dtype, shape=[None] * 4), at.lvector("size"), at.lvector("step")
    shape = (batch, 2, *lengths)
    a = np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(dtype)
    args = [a, np.array(sizes), np.array(steps)]
    assert_agrees([x, size, step], [Images2Neibs(mode)(x, size, step)], args)


def test_too_few_to_fill_a_neighbourhood():
    x = at.dtensor4()
    assert_agrees([x], [images2neibs(x, (3, 1), mode="ignore_borders")], [np.ones((1, 1, 2, 3))])


@pytest.mark.parametrize("mode", ["valid", "ignore_borders"])
def test_gradients_and_inverses_are_those_of_aesara(mode):
    x = at.dtensor4("x")
    a = np.random.default_rng(0).normal(size=(2, 1, 4 + (mode != "valid"), 6))
    neighbours = images2neibs(x, (2, 3), mode=mode)
    loss = at.sum(at.sin(neighbours) * np.arange(6.0))
    assert_derivatives([x], loss, [a])
    assert_agrees([x], [neibs2images(neighbours, (2, 3), x.shape, mode)], [a])


@pytest.mark.parametrize("mode", ["valid", "half", "full", "wrap_centered"])
def test_gradients_of_overlapping_neighbourhoods(mode):
    """Of which Aesara has none, or one that loops: sums over those that an element is in."""
    x = at.dtensor4("x")
    f = jaxprgen.compile([x], at.sum(Images2Neibs(mode)(x, (3, 3), (1, 1)) * np.arange(9.0)))
    a = np.zeros((1, 1, 4, 4))
    unit = np.eye(16).reshape(16, 1, 1, 4, 4)
    assert_same(jax.jit(jax.grad(f))(a).ravel(), jax.jit(jax.vmap(f))(unit))


def test_apart_they_are_reshapes():
    x = at.dtensor4("x")
    f = jaxprgen.compile([x], images2neibs(x, (2, 3)))
    names = equations(f, np.ones((1, 1, 4, 6)))
    assert set(names) == {"reshape", "transpose"}


def test_sizes_must_be_known_and_fit():
    x, size = at.dtensor4("x"), at.lvector("size")
    a = np.ones((1, 1, 4, 5))
    with pytest.raises(StaticShapeError, match="'size'"):
        jax.jit(jaxprgen.compile([x, size], images2neibs(x, size)))(a, np.array([2, 2]))
    refused = {
        "Neighbourhoods of size 2 with step 2 and margin 0 do not fill an axis of size 5.": (2, 2),
        "wrap_centered: the size of neighbourhoods must be odd and at most that of the axis, "
        "got 2 for an axis of size 4.": (2, 3),
        "Neighbourhoods need two sizes and two steps, each at least 1, got sizes [2, 0] and "
        "steps [2, 0].": (2, 0),
    }
    for message, sizes in refused.items():
        mode = "wrap_centered" if message.startswith("wrap") else "valid"
        f = jaxprgen.compile([x, size], images2neibs(x, size, mode=mode))
        assert refusal(ShapeMismatchError, f, a, np.array(sizes))[0] == message
