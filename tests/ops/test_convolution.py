"""Convolutions: of images and volumes by filters, their gradients, and those of vectors."""

import warnings

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.graph.basic import Apply
from aesara.tensor.math import Convolve
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import DTYPES, assert_agrees, assert_same, equations, reference

import jaxprgen
from jaxprgen.errors import ShapeMismatchError, StaticShapeError, UnsupportedOpError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # Of the package as a whole.
    from aesara.tensor.nnet import abstract_conv as ac
    from aesara.tensor.nnet import conv, corr, corr3d
    from aesara.tensor.signal.conv import conv2d as signal_conv2d

OPS = {
    2: (ac.AbstractConv2d, ac.AbstractConv2d_gradWeights, ac.AbstractConv2d_gradInputs),
    3: (ac.AbstractConv3d, ac.AbstractConv3d_gradWeights, ac.AbstractConv3d_gradInputs),
}
MATRIX_OPS = {
    2: (corr.CorrMM, corr.CorrMM_gradWeights, corr.CorrMM_gradInputs),
    3: (corr3d.Corr3dMM, corr3d.Corr3dMMGradWeights, corr3d.Corr3dMMGradInputs),
}


def numbers(shape, dtype="float64", seed=0):
    """Small integers, of which even sums of products in single precision are exact."""
    rng = np.random.default_rng([seed, *shape])
    real = rng.integers(0 if np.dtype(dtype).kind in "bu" else -4, 5, shape)
    return (real + 1j * rng.integers(-4, 5, shape) if dtype[0] == "c" else real).astype(dtype)


def tensor(value):
    return at.tensor(value.dtype.name, shape=[None] * value.ndim)


class Case:
    """An image, filters, the gradient of what comes out, and the attributes of the Ops."""

    def __init__(self, image, filters, attributes):
        rank = len(image) - 2
        border = attributes["border_mode"]
        unshared = attributes.pop("unshared", False)
        out = ac.get_conv_output_shape(
            image,
            filters,
            border if isinstance(border, (str, tuple)) else (border,) * rank,
            attributes.get("subsample", (1,) * rank),
            attributes.get("filter_dilation"),
        )
        if unshared:
            filters = (filters[0], *out[2:], *filters[1:])
            attributes["unshared"] = True
        self.rank, self.attributes = rank, attributes
        self.arrays = [numbers(s, seed=i) for i, s in enumerate((image, filters, out))]

    def __repr__(self):
        return f"{[a.shape for a in self.arrays]}, {self.attributes}"


@st.composite
def cases(draw, rank, plain=False):
    """Without gradients that Aesara's own refuse: a filter lies on the image everywhere."""
    few, groups = st.integers(1, 2), draw(st.sampled_from([1, 1, 2, 3]))
    dilation = tuple(draw(st.integers(1, 3 if rank == 2 else 2)) for _ in range(rank))
    sizes = [draw(st.integers(1, 3)) for _ in range(rank)]
    spans = [(k - 1) * d + 1 for k, d in zip(sizes, dilation, strict=True)]
    pad = st.integers(0, 2)
    pads = st.tuples(*[pad] * rank)
    if rank == 2:
        pads |= st.tuples(pad, st.tuples(pad, pad)) | st.tuples(*[st.tuples(pad, pad)] * 2)
    border = draw(st.sampled_from(["valid", "full", "half"]) | pad | pads)
    image = [n + draw(st.integers(0, 3)) for n in spans]
    attributes = {
        "border_mode": border,
        "subsample": tuple(draw(st.integers(1, 3)) for _ in range(rank)),
        "filter_dilation": dilation,
        "num_groups": groups,
    }
    if not plain:
        attributes["filter_flip"] = draw(st.booleans())
    if rank == 2:
        attributes["unshared"] = draw(st.booleans())
    inner, batch = draw(few), draw(st.sampled_from([1, 2, 2, 0]))
    return Case(
        (batch, groups * inner, *image), (groups * draw(few), inner, *sizes), attributes
    )


def convolutions(case, ops, **attributes):
    """The inputs of a graph of what comes out and both gradients, and those outputs."""
    x, w, y = (tensor(a) for a in case.arrays)
    forward, to_filters, to_images = (op(**case.attributes, **attributes) for op in ops)
    image, filters = (a.shape[-case.rank :] for a in case.arrays[:2])
    out = forward(x, w)
    return [x, w, y], [out, to_filters(x, y, filters), to_images(w, y, image)]


@pytest.mark.parametrize("rank", [2, 3])
def test_convolutions_and_gradients(rank):
    """As Aesara has them; and gradients are those that JAX finds of what comes out."""

    @settings(max_examples=40 if rank == 2 else 20)
    @given(cases(rank), st.booleans())
    def law(case, told):
        shapes = {}
        if told:
            shapes = {"imshp": case.arrays[0].shape, "kshp": case.arrays[1].shape}
        inputs, outputs = convolutions(case, OPS[rank], **shapes)
        f = assert_agrees(inputs, outputs, case.arrays)
        x, w, y = case.arrays
        program = jax.jit(lambda x, w, y: jax.vjp(lambda x, w: f(x, w, y)[0], x, w)[1](y))
        _, to_filters, to_images = f(*case.arrays)
        for ours, theirs in zip((to_images, to_filters), program(x, w, y), strict=True):
            assert_same(ours, theirs)

    law()
