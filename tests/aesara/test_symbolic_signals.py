"""One exported program of images and signals serves every size, and refuses those of Aesara."""

import warnings
from typing import Any, NamedTuple

import aesara
import aesara.tensor as at
import jax
import jax.export
import numpy as np
import pytest
from aesara.tensor import fft
from aesara.tensor.fourier import Fourier
from catalogue.sizes import exported
from laws import assert_same, reference
from profiles import sample

import jaxprgen
from jaxprgen.emit.windows import Window
from jaxprgen.errors import SymbolicSizeError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # These modules are deprecated.
    from aesara.tensor.nnet import conv2d
    from aesara.tensor.nnet.abstract_conv import AbstractConv2d
    from aesara.tensor.nnet.basic import (
        CrossentropyCategorical1Hot,
        crossentropy_softmax_argmax_1hot_with_bias,
    )
    from aesara.tensor.nnet.batchnorm import batch_normalization_test, batch_normalization_train
    from aesara.tensor.nnet.blocksparse import sparse_block_gemv
    from aesara.tensor.nnet.neighbours import images2neibs
    from aesara.tensor.signal.pool import pool_2d

pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")

images, filters = at.dtensor4("images"), at.dtensor4("filters")
unshared = at.TensorType("float64", (None,) * 6)("unshared")
x, y = at.dvectors("x", "y")


class Case(NamedTuple):
    """A graph with sizes by name: "b,3,h,w" is the shape of a batch of images.

    Attributes
    ----------
    inputs, outputs
        The graph.
    shapes
        The symbolic shape of each input.
    calls
        Sizes with which to call the program.
    fails
        Sizes for which Aesara, or the program, says that they do not fit.
    constraints
        What the program may take for granted.
    """

    inputs: list[Any]
    outputs: list[Any]
    shapes: list[str]
    calls: list[dict[str, int]]
    fails: tuple[dict[str, int], ...] = ()
    constraints: tuple[str, ...] = ()


def export(case):
    return exported(case.inputs, case.outputs, case.shapes, case.constraints)


def operands(case, sizes):
    rng = np.random.default_rng(0)
    for v, text in zip(case.inputs, case.shapes, strict=True):
        shape = [int(n) if n.isdigit() else sizes[n] for n in text.split(",") if n]
        if np.dtype(v.dtype).kind == "i":
            yield rng.integers(0, min([3, *sizes.values()]), shape).astype(v.dtype)
        else:
            yield rng.normal(size=shape).astype(v.dtype)


def assert_serves(case):
    """The program has Aesara's values at all sizes, and says which sizes do not fit."""
    program = export(case)
    for sizes in sample(case.calls, 2):
        args = [*operands(case, sizes)]
        theirs = reference(case.inputs, case.outputs, args)
        for mine, yours in zip(program.call(*args), theirs, strict=True):
            assert_same(np.asarray(mine), yours, 1e-9, where=str(sizes))
    for sizes in case.fails:
        with pytest.raises(ValueError, match="refining shapes") as caught:
            program.call(*operands(case, sizes))
        assert "The sizes do not fit the exported program" in str(caught.value.__cause__)


# --- Convolutions -------------------------------------------------------------------------

IMAGES = [{"b": 2, "h": 7, "w": 6}, {"b": 1, "h": 8, "w": 9}, {"b": 3, "h": 3, "w": 2}]
NO_WINDOWS = {"b": 1, "h": 2, "w": 3}


def convolved(*, image="b,3,h,w", filter="4,3,3,2", calls=(), fails=(), **options):
    out = conv2d(images, filters, **options)
    gradients = aesara.grad(at.square(out).sum(), [images, filters])
    calls = calls or [*IMAGES, NO_WINDOWS]
    return Case([images, filters], [out, *gradients], [image, filter], calls, fails)


def convolved_apart(**options):
    out = AbstractConv2d(unshared=True, **options)(images, unshared)
    gradients = aesara.grad(at.square(out).sum(), [images, unshared])
    shapes = ["b,3,h,w", "4,p,q,3,3,3"]
    calls = [dict(sizes, p=(sizes["h"] + 1) // 2, q=sizes["w"]) for sizes in IMAGES[:2]]
    return Case([images, unshared], [out, *gradients], shapes, calls)


TOO_SMALL = ({"b": 1, "h": 1, "w": 3},)
ALL = [dict(IMAGES[i], c=c, f=f, k=k, m=m) for i, c, f, k, m in ((0, 2, 3, 2, 3), (1, 4, 1, 3, 1))]
CONVOLUTIONS = {
    "valid": convolved(fails=TOO_SMALL),
    "strides": convolved(border_mode="half", subsample=(2, 3)),
    "dilation": convolved(border_mode=((1, 2), (0, 1)), filter_dilation=(2, 1), subsample=(1, 2)),
    "batch of images": convolved(image="b,3,6,5", calls=[{"b": 1}, {"b": 4}], border_mode="full"),
    "groups": convolved(image="b,4,h,w", filter="6,2,2,2", num_groups=2, calls=IMAGES),
    "everything": convolved(image="b,c,h,w", filter="f,c,k,m", border_mode="half", calls=ALL),
    "unshared": convolved_apart(border_mode="half", subsample=(2, 1)),
    "vectors": Case(
        [x, y],
        [at.math.Convolve("full")(x, y)],
        ["m", "n"],
        [{"m": 3, "n": 5}, {"m": 5, "n": 2}, {"m": 1, "n": 1}],
    ),
    "longer vector": Case(
        [x, y],
        [at.math.Convolve("same")(x, y)],
        ["m", "n"],
        [{"m": 5, "n": 4}, {"m": 2, "n": 2}],
        constraints=("m >= n",),
    ),
}


def test_a_convolution_that_depends_on_which_vector_is_longer():
    case = CONVOLUTIONS["longer vector"]
    with pytest.raises(SymbolicSizeError, match=r'constraints=\["m >= n"\]'):
        export(case._replace(constraints=()))


@pytest.mark.parametrize(
    "output",
    [
        conv2d(images, filters, subsample=(2, 1)),
        pool_2d(images, (3, 2), ignore_border=True, stride=(2, 2), pad=(1, 0)) * filters.sum(),
    ],
    ids=["convolution", "pool"],
)
def test_jax_differentiates_with_symbolic_sizes(output):
    """JAX's rules for the derivative need to know the padding, which must not be symbolic."""
    f = jaxprgen.compile([images, filters], output)
    gradient = jax.grad(lambda *args: (f(*args) ** 2).sum(), argnums=(0, 1))
    case = convolved()
    specs = [
        jax.ShapeDtypeStruct(shape, np.dtype("float64"))
        for shape in (jax.export.symbolic_shape("b,3,h,w"), (4, 3, 3, 2))
    ]
    program = jax.export.export(jax.jit(gradient))(*specs)
    for sizes in (IMAGES[0], NO_WINDOWS):
        args = [*operands(case, sizes)]
        for mine, theirs in zip(program.call(*args), gradient(*args), strict=True):
            assert_same(np.asarray(mine), np.asarray(theirs), 1e-9)


def test_convolutions_of_symbolic_sizes_are_none_on_which_xla_aborts():
    """Their windows cover the image exactly, so that no size needs zeros in place of padding."""
    for stride in (1, 2, 3):
        for dilation in (1, 2, 3):
            for size in (1, 2, 3, 4):
                for number in (1, 2, 3, 4):
                    extent = (size - 1) * dilation + 1
                    image = (number - 1) * stride + extent
                    window = Window(image, size, stride, 1, dilation, 0, 0)
                    assert not window.zeros_in_place_of_padding()


# --- Pooling ------------------------------------------------------------------------------


def pooled(*args, calls=(*IMAGES, NO_WINDOWS, {"b": 1, "h": 1, "w": 1}), shape="b,3,h,w", **kwargs):
    out = pool_2d(images, *args, **kwargs)
    gradient = aesara.grad(at.square(out).sum(), images)
    return Case([images], [out, gradient], [shape], list(calls))


def neighbours(*args, fails=(), calls=IMAGES, **options):
    return Case([images], [images2neibs(images, *args, **options)], ["b,3,h,w"], calls, fails)


POOLS = {
    "max": pooled((2, 2), ignore_border=True),
    "max with border": pooled((3, 2), ignore_border=False, stride=(2, 3)),
    "sum": pooled((3, 3), ignore_border=True, stride=(2, 2), pad=(1, 1), mode="sum"),
    "average": pooled((2, 2), ignore_border=True, mode="average_exc_pad"),
    "average with border": pooled((3, 2), ignore_border=False, mode="average_exc_pad"),
    "average with padding": pooled(
        (3, 3), ignore_border=True, stride=(2, 2), pad=(1, 1), mode="average_inc_pad"
    ),
    "batch to pool": pooled(
        (2, 2), ignore_border=True, shape="b,3,5,4", calls=[{"b": 1}, {"b": 3}]
    ),
    "whole images": Case(
        [images], [pool_2d(images, images.shape[2:], ignore_border=True)], ["b,3,h,w"], IMAGES
    ),
    "neighbours": neighbours(
        (3, 1), (2, 1), calls=[{"b": 2, "h": 7, "w": 6}], fails=({"b": 1, "h": 4, "w": 4},)
    ),
    "partial neighbours": neighbours((2, 3), (2, 2), mode="ignore_borders", calls=IMAGES[:2]),
    "wrapped neighbours": neighbours((3, 1), mode="wrap_centered", fails=(NO_WINDOWS,)),
}


# --- Softmax and losses -------------------------------------------------------------------

scores = at.dmatrix("scores")
targets = at.lvector("targets")
ROWS = [{"b": 2, "c": 3}, {"b": 5, "c": 4}, {"b": 1, "c": 1}]


def classified(shapes, calls=ROWS):
    loss, softmax, largest = crossentropy_softmax_argmax_1hot_with_bias(scores, x, targets)
    gradients = aesara.grad(at.square(loss).sum(), [scores, x])
    return Case([scores, x, targets], [loss, softmax, largest, *gradients], shapes, calls)


negative_log = CrossentropyCategorical1Hot()(at.abs(scores) + 1, targets)
LOSSES = {
    "softmax": Case([scores], [at.special.softmax(scores, 0)], ["b,c"], ROWS),
    "softmax loss": classified(["b,c", "c", "b"]),
    "sizes of their own": classified(
        ["b,c", "d", "e"], [dict(n, d=n["c"], e=n["b"]) for n in ROWS]
    ),
    "batch of scores": classified(["b,3", "3", "b"], [{"b": 1}, {"b": 3}]),
    "negative logarithm": Case(
        [scores, targets],
        [negative_log, aesara.grad(at.square(negative_log).sum(), scores)],
        ["b,c", "b"],
        ROWS,
    ),
}


# --- Normalization and blocks -------------------------------------------------------------

scale, bias = (at.TensorType("float64", (1, None, 1, 1))(name) for name in ("scale", "bias"))
blocks, factors, added = at.dtensor4("blocks"), at.dtensor3("factors"), at.dtensor3("added")
rows, columns = at.lmatrices("rows", "columns")


def normalized(image, features, calls, fails=()):
    train = [*batch_normalization_train(images, scale, bias, "spatial", 1e-4, 0.1, bias, scale**2)]
    gradients = aesara.grad((train[0] ** 3).sum(), [images, scale, bias])
    test = batch_normalization_test(images, scale, bias, bias, scale**2, "spatial")
    shapes = [image, *[f"1,{features},1,1"] * 2]
    return Case([images, scale, bias], [*train, *gradients, test], shapes, calls, fails)


def multiplied(*shapes, calls):
    out = sparse_block_gemv(added, blocks, factors, rows, columns)
    gradients = aesara.grad(at.square(out).sum(), [added, blocks, factors])
    inputs = [added, blocks, factors, rows, columns]
    return Case(inputs, [out, *gradients], [*shapes], calls)


BLOCKS = {
    "everything normalized": normalized(
        "b,c,h,w",
        "c",
        [{"b": 2, "c": 3, "h": 4, "w": 5}, {"b": 1, "c": 2, "h": 3, "w": 1}],
        ({"b": 1, "c": 2, "h": 1, "w": 1},),
    ),
    "batch to normalize": normalized("b,3,2,2", "3", [{"b": 1}, {"b": 3}]),
    "blocks": multiplied(
        "b,m,h",
        "p,q,w,h",
        "b,n,w",
        "b,n",
        "b,m",
        calls=[dict(zip("bnmpqhw", sizes, strict=True)) for sizes in ((2, 2, 3, 2, 4, 2, 3),)],
    ),
    "batch of blocks": multiplied(
        "b,3,2", "4,5,3,2", "b,2,3", "b,2", "b,3", calls=[{"b": 1}, {"b": 3}]
    ),
}


# --- Fourier transforms -------------------------------------------------------------------

spectra = at.dtensor3("spectra")
LENGTHS = [{"b": 1, "n": 4}, {"b": 3, "n": 9}, {"b": 2, "n": 6}]
TRANSFORMS = {
    "batch of signals": Case(
        [scores],
        [fft.rfft(scores), aesara.grad((fft.rfft(scores) ** 2).sum(), scores)],
        ["b,6"],
        [{"b": 1}, {"b": 3}],
    ),
    "fixed length": Case([scores], [fft.RFFTOp()(scores, [6])], ["b,n"], LENGTHS),
    "inverse": Case([spectra], [fft.irfft(spectra)], ["b,4,2"], [{"b": 1}, {"b": 3}]),
    "inverse of fixed length": Case([spectra], [fft.IRFFTOp()(spectra, [6])], ["b,n,2"], LENGTHS),
    "complex": Case([scores], [Fourier()(scores, 5, 1)], ["b,n"], LENGTHS),
}


CASES = CONVOLUTIONS | POOLS | LOSSES | BLOCKS | TRANSFORMS


@pytest.mark.parametrize("name", CASES)
def test_one_program_serves_every_size(name):
    assert_serves(CASES[name])


@pytest.mark.parametrize(
    ("inputs", "output", "shape", "length"),
    [([scores], fft.rfft(scores), "b,n", "n"), ([spectra], fft.irfft(spectra), "b,n,2", "2.n - 2")],
)
def test_a_transform_of_symbolic_length_is_refused(inputs, output, shape, length):
    """XLA has none; the length of an inverse transform is written into a copy of the shape."""
    message = rf"known length only, not of \({length},\)"
    with pytest.raises(SymbolicSizeError, match=message) as caught:
        export(Case(inputs, [output], [shape], []))
    assert "FFTOp" in str(caught.value)
    assert "built at" in str(caught.value)
