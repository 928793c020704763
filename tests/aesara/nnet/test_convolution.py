"""Convolutions: of images and volumes by filters, their gradients, and those of vectors."""

import warnings

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.graph.basic import Apply
from aesara.tensor.math import Convolve
from hypothesis import given, strategies as st
from laws import (
    DTYPES,
    assert_agrees,
    assert_derivatives,
    assert_same,
    equations,
    reference,
    refusal,
)
from profiles import examples, sample

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import ShapeMismatchError, StaticShapeError, UnsupportedOpError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # Of the package as a whole.
    from aesara.tensor.nnet import abstract_conv as ac, conv, corr, corr3d
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

    def matrix_products(self, x, w, y):
        """Outputs of Ops of matrix products; sizes that are not given follow from the others."""
        attributes = {k: v for k, v in self.attributes.items() if k != "filter_flip"}
        forward, to_filters, to_images = (op(**attributes) for op in MATRIX_OPS[self.rank])
        image, filters = (a.shape[-self.rank :] for a in self.arrays[:2])
        # Aesara 2.9's `make_node` of `CorrMM` raises a TypeError.
        found = [Apply(forward, [x, w], [x.type()]).outputs[0]]
        found += [to_filters(x, y, filters), to_images(w, y, image)]
        if set(attributes["subsample"]) == {1} and attributes["border_mode"] != "half":
            found += [to_filters(x, y), to_images(w, y)]
        return found


@st.composite
def cases(draw, rank):
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
    attributes["filter_flip"] = draw(st.booleans())
    if rank == 2:
        attributes["unshared"] = draw(st.booleans())
    inner, batch = draw(few), draw(st.sampled_from([1, 2, 2, 0]))
    return Case((batch, groups * inner, *image), (groups * draw(few), inner, *sizes), attributes)


def convolutions(case, ops, **attributes):
    """The inputs of a graph of what comes out and both gradients, and those outputs."""
    x, w, y = (tensor(a) for a in case.arrays)
    forward, to_filters, to_images = (op(**{**case.attributes, **attributes}) for op in ops)
    image, filters = (a.shape[-case.rank :] for a in case.arrays[:2])
    out = forward(x, w)
    return [x, w, y], [out, to_filters(x, y, filters), to_images(w, y, image)]


def assert_all_same(ours, theirs, rtol=None):
    for mine, yours in zip(ours, theirs, strict=True):
        assert_same(mine, yours, rtol)


@pytest.mark.parametrize("rank", [2, 3])
def test_convolutions_and_gradients(rank):
    """As Aesara has them; gradients are those that JAX finds of what comes out.

    Ops of matrix products, which Aesara has in C only, compute the same without flipping filters.
    """

    @examples(0.6 if rank == 2 else 0.3)
    @given(cases(rank), st.booleans())
    def law(case, told):
        shapes = {}
        if told:
            shapes = {"imshp": case.arrays[0].shape, "kshp": case.arrays[1].shape}
        inputs, outputs = convolutions(case, OPS[rank], **shapes)
        matrix = case.matrix_products(*inputs)
        f = jaxprgen.compile(inputs, [*outputs, *matrix])
        check_jaxpr(f.jaxpr(*case.arrays).jaxpr)

        def both(x, w, y):
            _, transposed = jax.vjp(lambda x, w: f(x, w, y)[0], x, w)
            return f(x, w, y), transposed(y)

        ours, (to_images, to_filters) = jax.jit(both)(*case.arrays)
        theirs = reference(inputs, outputs, case.arrays)
        assert_all_same(ours[:3], theirs)
        assert_all_same((to_filters, to_images), ours[1:3])
        wanted = reference(*convolutions(case, OPS[rank], filter_flip=False), case.arrays)
        assert_all_same(ours[3:], (wanted + wanted[1:])[: len(matrix)])

    law()


# XLA exchanges the operands of some convolutions and then aborts; it does so for derivatives of
# these convolutions in `jax.lax`. In each case, a filter is larger than its image along one axis,
# and another axis looks like groups.
ABORTING = [
    Case(
        (2, 3, 7, 3, 4),
        (3, 1, 3, 2, 2),
        {
            "border_mode": 1,
            "subsample": (3, 2, 2),
            "filter_dilation": (2, 1, 1),
            "num_groups": 3,
        },
    ),
    Case((1, 1, 4, 6), (1, 1, 2, 5), {"border_mode": (1, 0), "subsample": (2, 1)}),
    Case((1, 1, 2, 6), (1, 1, 4, 5), {"border_mode": (3, 0), "subsample": (2, 1)}),
    Case((1, 1, 2, 6), (1, 1, 3, 5), {"border_mode": (3, 0), "filter_dilation": (2, 1)}),
]


@pytest.mark.parametrize("case", ABORTING, ids=range(len(ABORTING)))
def test_derivatives_on_which_xla_could_abort(case):
    """Aesara's gradients, JAX's gradients of the convolution, and those of all these again."""
    inputs, outputs = convolutions(case, OPS[case.rank])
    f = assert_agrees(inputs, outputs, case.arrays)

    def gradients(*arrays):
        out, transposed = jax.vjp(f, *arrays)
        return transposed(out)

    @jax.jit
    def program(x, w, y):
        _, transposed = jax.vjp(lambda x, w: f(x, w, y)[0], x, w)
        out, again = jax.vjp(gradients, x, w, y)
        return transposed(y)[::-1], again(out)

    once, twice = program(*case.arrays)
    assert_all_same(once, f(*case.arrays)[1:])
    assert [each.shape for each in twice] == [a.shape for a in case.arrays]


# --- The old Op ---------------------------------------------------------------------------


@st.composite
def spread(draw, n, longest):
    """A logical size, to which so many elements are spread."""
    step = draw(st.integers(1, longest))
    return (n - 1) * step + 1 + draw(st.integers(0, step - 1))


@examples(0.6)
@given(st.data())
def test_the_old_op(data):
    few, size = st.integers(1, 2), st.integers(1, 3)
    batch, stack, count = data.draw(few), data.draw(few), data.draw(few)
    filters = [data.draw(size) for _ in range(2)]
    logical_filters = [data.draw(spread(k, 2)) for k in filters]
    image = [k + data.draw(size) for k in logical_filters]
    logical = [data.draw(spread(n, 3)) for n in image]
    given_shapes = data.draw(st.booleans())
    mode = data.draw(st.sampled_from(["valid", "full"]))
    op = conv.ConvOp(
        imshp=(stack, *image) if given_shapes else None,
        kshp=filters if given_shapes else None,
        nkern=count if given_shapes else None,
        bsize=batch if given_shapes else None,
        dx=data.draw(size),
        dy=data.draw(size),
        output_mode=mode,
        imshp_logical=(stack, *logical),
        kshp_logical=logical_filters,
        kshp_logical_top_aligned=data.draw(st.booleans()),
    )
    arrays = [numbers((batch, stack, *image)), numbers((count, stack, *filters))]
    x, w = map(tensor, arrays)
    assert_agrees([x, w], [op(x, w)], arrays)


def test_gradients_of_the_old_op():
    arrays = [numbers((2, 2, 5, 4)), numbers((3, 2, 2, 3))]
    x, w = map(tensor, arrays)
    ops = [
        conv.ConvOp(),
        conv.ConvOp(output_mode="full"),
        conv.ConvOp((2, 5, 4), (2, 3), 3, 2, 2, 2, "full"),
    ]
    assert_derivatives([x, w], [(op(x, w) ** 2).sum() for op in ops], arrays)


def test_convolutions_of_signals_and_sizes_of_matrix_products():
    """Sizes that are not given follow from the others; products convert to one dtype."""
    shapes = [(3, 5, 6), (2, 2, 3), (5, 6), (2, 3)]
    arrays = [numbers(shape) for shape in shapes]
    images, filters, image, filter_ = map(tensor, arrays)
    outputs = [
        signal_conv2d(images, filters),
        signal_conv2d(image, filters, border_mode="full"),
        signal_conv2d(images, filter_, subsample=(2, 1)),
        signal_conv2d(image, filter_, (5, 6), (2, 3)),
    ]
    assert_agrees([images, filters, image, filter_], outputs, arrays)
    inputs, ours, theirs, args = [], [], [], []
    for border in ["valid", "full", 1, (2, 0), ((0, 2), 1), ((1, 0), (2, 1))]:
        attributes = {"border_mode": border, "filter_dilation": (3, 1)}
        case = Case((1, 1, 7, 6), (1, 1, 2, 3), attributes)
        args += [case.arrays[0].astype("float32"), *case.arrays[1:]]
        x, w, y = map(tensor, args[-3:])
        inputs += x, w, y
        to_filters, to_images = (op(**attributes) for op in MATRIX_OPS[2][1:])
        ours += [to_filters(x, y), to_images(w, y)]
        _, by_filters, by_images = (op(filter_flip=False, **attributes) for op in OPS[2])
        theirs += [by_filters(x.astype("float64"), y, (2, 3)), by_images(w, y, (7, 6))]
    assert_all_same(jaxprgen.compile(inputs, ours)(*args), reference(inputs, theirs, args))


def test_the_old_op_asks_for_the_sizes_it_was_made_for():
    x, w = at.tensor4("x"), at.tensor4("w")
    f = jaxprgen.compile([x, w], conv.ConvOp((1, 4, 4), (2, 2), 1, 1)(x, w))
    for image, filters, message in [
        ((1, 1, 5, 4), (1, 1, 2, 2), "(1, 1, 4, 4), got (1, 1, 5, 4)."),
        ((1, 1, 4, 4), (1, 1, 3, 2), "(1, 2, 2), got (1, 3, 2)."),
        ((1, 1, 4, 4), (2, 1, 2, 2), "(1, 2, 2), got (2, 2, 2)."),
    ]:
        first = refusal(ShapeMismatchError, f, np.ones(image), np.ones(filters))[0]
        assert first == f"The Op was built for sizes {message}"


# --- What is built upon them --------------------------------------------------------------


def test_functions_of_aesara():
    shapes = [(2, 4, 6, 5), (4, 1, 2, 2), (3, 4, 1, 1), (2, 4, 5, 3, 4), (4, 1, 2, 2, 2)]
    arrays = [numbers(shape) for shape in (*shapes, (3, 4, 1, 1, 1), (2, 4, 9), (3, 4, 2))]
    inputs = [tensor(a) for a in arrays]
    x, depthwise, pointwise, volume, depthwise3, pointwise3, line, filters = inputs
    outputs = [
        ac.separable_conv2d(x, depthwise, pointwise, 4, border_mode="half"),
        ac.separable_conv3d(volume, depthwise3, pointwise3, 4, subsample=(2, 1, 1)),
        ac.causal_conv1d(line, filters, (3, 4, 2), filter_dilation=3),
        ac.conv2d_transpose(x, depthwise, (2, 1, 13, 10), input_dilation=(2, 2)),
        ac.bilinear_upsampling(x, 2),
        ac.bilinear_upsampling(x, frac_ratio=(3, 2), use_1D_kernel=False),
        ac.bilinear_upsampling(x, 3, use_1D_kernel=False),
    ]
    outputs = sample(outputs, 4)
    theirs = reference(inputs, outputs, arrays)
    assert_all_same(jaxprgen.compile(inputs, outputs)(*arrays), theirs)
    weighted = zip(outputs, theirs, strict=True)
    cost = sum((out * numbers(y.shape, seed=7)).sum() for out, y in weighted)
    assert_derivatives(inputs, cost, arrays)


def test_sizes_may_be_arguments():
    y, w, n = at.tensor4("y"), at.tensor4("w"), at.lscalar("n")
    op = ac.AbstractConv2d_gradInputs(subsample=(2, 2))
    arrays = [numbers((1, 1, 3, 3)), numbers((1, 1, 2, 2))]
    f = assert_agrees([y, w, n], op(w, y, [n, 7]), [*arrays, np.int64(6)])
    assert f(*arrays, 7).shape == (1, 1, 7, 7)
    with pytest.raises(StaticShapeError, match="'n'"):
        jax.jit(f)(*arrays, 6)


# --- Dtypes, sizes and numbers ------------------------------------------------------------

PAIRS = [
    *((d, d) for d in DTYPES if d not in ("bool", "float16")),
    ("float32", "float64"),
    ("float64", "float32"),
    ("float32", "int64"),
    ("int8", "int32"),
    ("float32", "bool"),
    ("complex64", "float64"),
]


def test_known_operands():
    """Both may be known: Ops without code in Python are not asked for what comes out."""
    x, w = at.constant(np.ones((1, 1, 3, 3, 3))), at.constant(np.ones((1, 1, 2, 2, 2)))
    f = jaxprgen.compile([], corr3d.Corr3dMM()(x, w))
    np.testing.assert_array_equal(f(), np.full((1, 1, 2, 2, 2), 8.0))


def test_dtypes():
    """What comes out has the dtype of images, whatever it was computed in."""
    inputs, outputs, args = [], [], []
    for left, right in sample(PAIRS, len(PAIRS) // 2):
        arrays = [numbers((1, 2, 3, 3), left), numbers((1, 2, 2, 2), right, 1)]
        x, w = map(tensor, arrays)
        inputs += [x, w]
        args += arrays
        outputs += [ac.AbstractConv2d(border_mode=1)(x, w)]
        if left == right and left in ("int8", "uint16", "float32", "complex64"):
            outputs += [
                ac.AbstractConv2d_gradWeights()(x, w[:, :1], (2, 2)),
                ac.AbstractConv2d_gradInputs()(w, x[:, :1], (4, 4)),
            ]
    assert_agrees(inputs, outputs, args)


def test_half_precision():
    """Which SciPy, and so Aesara's own, has not."""
    arrays = [np.random.RandomState(i).normal(size=(2, 2, 5, 5)).astype("float16") for i in (0, 1)]
    op = ac.AbstractConv2d(border_mode="half")
    wanted = reference(*pair(op), [a.astype("float64") for a in arrays])[0]
    (found,) = jaxprgen.compile(*pair(op, "float16"))(*arrays)
    assert_same(found, wanted.astype("float16"))


def pair(op, dtype="float64"):
    x, w = at.tensor4("x", dtype), at.tensor4("w", dtype)
    return [x, w], [op(x, w)]


@pytest.mark.parametrize(
    ("op", "left", "right"),
    [
        (ac.AbstractConv2d(), "bool", "bool"),
        (ac.AbstractConv2d(), "int32", "float32"),
        (conv.ConvOp(), "bool", "bool"),
        (corr.CorrMM_gradWeights(), "bool", "bool"),
        (corr.CorrMM_gradInputs(), "bool", "bool"),
    ],
)
def test_dtypes_that_aesara_does_not_take(op, left, right):
    arrays = np.ones((1, 1, 2, 2), left), np.ones((1, 1, 2, 2), right)
    x, w = map(tensor, arrays)
    assert refusal(UnsupportedOpError, jaxprgen.compile([x, w], op(x, w)), *arrays)[0] == (
        f"Aesara has no {left} convolution of {left} and {right}; convert both to one dtype of "
        "numbers."
    )


EMPTY = [
    ((0, 1, 3, 3), (2, 1, 2, 2)),
    ((2, 0, 3, 3), (2, 0, 2, 2)),
    ((2, 1, 3, 3), (0, 1, 2, 2)),
    ((2, 1, 3, 3), (1, 1, 4, 1)),
    ((2, 1, 3, 3), (1, 1, 0, 2)),
]


def test_nothing_to_sum_up():
    """Images of one element too few have nothing come out, and that is no error."""
    inputs, outputs, args = [], [], []
    for image, filters in EMPTY:
        x, w = at.tensor4(), at.tensor4()
        inputs += [x, w]
        args += [np.ones(image), np.ones(filters)]
        out = ac.AbstractConv2d()(x, w)
        outputs.append(out)
        if 0 not in filters[2:] and 4 not in filters:
            outputs += aesara.grad(out.sum(), [x, w])
    f = assert_agrees(inputs, outputs, args)
    assert "conv_general_dilated" not in equations(f, *args)


def test_infinite_numbers_and_nan():
    arrays = [np.ones((1, 1, 7, 7)), np.ones((2, 1, 2, 2))]
    arrays[0][0, 0, 1, 2], arrays[0][0, 0, 5, 0] = np.inf, np.nan
    arrays[1][0, 0, 0, 1] = -1
    arrays[0][0, 0, 4, 5:] = np.inf
    x, w = map(tensor, arrays)
    alone, strided = ac.AbstractConv2d(), ac.AbstractConv2d(subsample=(2, 2))
    padded = ac.AbstractConv2d(border_mode=((0, 1), 1))
    assert_agrees([x, w], [op(x, w) for op in (alone, strided, padded)], arrays)
    # Those of filters, at the border: there is none where each place has a filter of its own.
    own = np.broadcast_to(arrays[1][:, None, None], (2, 8, 8, 1, 2, 2)).copy()
    own[0, 0, 0, 0, 0, 0] = own[1, 3, 3, 0, 1, 1] = np.inf
    w = tensor(own)
    padded = ac.AbstractConv2d(border_mode=1, unshared=True)
    assert_agrees([x, w], [padded(x, w)], [arrays[0], own])


# --- Programs -----------------------------------------------------------------------------


def test_equations():
    """As few reversals as there can be."""
    case = Case((2, 4, 7, 6), (6, 2, 3, 2), {"border_mode": "half", "num_groups": 2})
    inputs, outputs = convolutions(case, OPS[2])
    one = ["conv_general_dilated"]
    for out, expected in zip(
        outputs,
        [["rev", *one], [*one, "rev"], ["reshape", "transpose", "reshape", *one]],
        strict=True,
    ):
        f = jaxprgen.compile(inputs, out)
        assert equations(f, *case.arrays) == expected


# --- Errors -------------------------------------------------------------------------------

CONV, TO_FILTERS, TO_IMAGES = OPS[2]
FIT = "A filter of size {} with dilation {} does not fit an image of size 3 with padding {}."
CHANNELS = "Images of 4 channels do not fit 3 filters of 2 channels in {} groups."
GIVE = (
    "Filters of (1, 1, 2, 2) and images of (1, 1, {}) give a result of (1, 1, {}), not (1, 1, {})."
)
LINE, NONE = (1, 1, 3, 5), (1, 1, 0, 5)
REFUSED = [
    (FIT.format(5, 1, (0, 0)), CONV(), LINE, (1, 1, 5, 5)),
    (FIT.format(3, 3, (1, 1)), CONV(border_mode=(1, 0), filter_dilation=(3, 1)), LINE, LINE),
    (FIT.format(0, 1, (-1, -1)), CONV(border_mode="full"), LINE, NONE),
    (FIT.format(0, 3, (0, 0)), CONV(filter_dilation=(3, 1)), LINE, NONE),
    (CHANNELS.format(2), CONV(num_groups=2), (1, 4, 3, 3), (3, 2, 1, 1)),
    (CHANNELS.format(1), CONV(), (1, 4, 3, 3), (3, 2, 1, 1)),
    (
        "Unshared filters for output sizes (3, 3) do not fit (2, 2).",
        *(CONV(unshared=True), (1, 1, 3, 3), (1, 3, 3, 1, 2, 2)),
    ),
    (
        GIVE.format("4, 4", "3, 3", "2, 2"),
        *(lambda x, y: TO_FILTERS()(x, y, (2, 2)), (1, 1, 4, 4), (1, 1, 2, 2)),
    ),
    (
        GIVE.format("5, 4", "4, 3", "3, 3"),
        *(lambda w, y: TO_IMAGES()(w, y, (5, 4)), (1, 1, 2, 2), (1, 1, 3, 3)),
    ),
]


@pytest.mark.parametrize(("message", "op", "left", "right"), REFUSED)
def test_what_does_not_fit_is_an_error_that_says_where(message, op, left, right):
    arrays = [np.ones(left), np.ones(right)]
    x, y = map(tensor, arrays)
    first, second, *_ = refusal(ShapeMismatchError, jaxprgen.compile([x, y], op(x, y)), *arrays)
    assert first == message
    assert "AbstractConv2d" in second


# --- Vectors ------------------------------------------------------------------------------

lengths = st.integers(1, 6)


@examples(0.6)
@given(lengths, lengths)
def test_convolutions_of_vectors(m, n):
    arrays = [numbers((m,)), numbers((n,), seed=1)]
    x, y = map(tensor, arrays)
    assert_agrees([x, y], [Convolve(mode)(x, y) for mode in ("full", "same", "valid")], arrays)


def test_convolutions_of_vectors_of_every_dtype():
    """Pairs of all dtypes with these three, and with themselves."""
    inputs, outputs, args = [], [], []
    for left in DTYPES:
        for right in ("bool", "int32", "float32", left):
            arrays = [numbers((4,), left), numbers((3,), right, 1)]
            x, y = map(tensor, arrays)
            inputs += [x, y]
            args += arrays
            outputs.append(Convolve("same")(x, y))
    assert_agrees(inputs, outputs, args, rtol=4e-3)


def test_vectors_without_elements_have_no_convolution():
    x, y = at.vectors("x", "y")
    f = jaxprgen.compile([x, y], Convolve()(x, y))
    with pytest.raises(ShapeMismatchError, match="Cannot convolve empty vectors"):
        f(np.ones(3), np.ones(0))
