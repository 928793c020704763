"""Convolutions: of images and volumes by filters, their gradients, and those of vectors."""

import warnings

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.graph.basic import Apply
from aesara.tensor.math import Convolve
from hypothesis import given
from hypothesis import strategies as st
from laws import DTYPES, assert_agrees, assert_same, equations, reference
from profiles import examples, sample

import jaxprgen
from jaxprgen._jax import check_jaxpr
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
    return Case((batch, groups * inner, *image), (groups * draw(few), inner, *sizes), attributes)


def convolutions(case, ops, **attributes):
    """The inputs of a graph of what comes out and both gradients, and those outputs."""
    x, w, y = (tensor(a) for a in case.arrays)
    forward, to_filters, to_images = (op(**case.attributes, **attributes) for op in ops)
    image, filters = (a.shape[-case.rank :] for a in case.arrays[:2])
    out = forward(x, w)
    return [x, w, y], [out, to_filters(x, y, filters), to_images(w, y, image)]


def assert_all_same(ours, theirs, rtol=None):
    for mine, yours in zip(ours, theirs, strict=True):
        assert_same(mine, yours, rtol)


@pytest.mark.parametrize("rank", [2, 3])
def test_convolutions_and_gradients(rank):
    """As Aesara has them; and gradients are those that JAX finds of what comes out."""

    @examples(0.6 if rank == 2 else 0.3)
    @given(cases(rank), st.booleans())
    def law(case, told):
        shapes = {}
        if told:
            shapes = {"imshp": case.arrays[0].shape, "kshp": case.arrays[1].shape}
        inputs, outputs = convolutions(case, OPS[rank], **shapes)
        f = jaxprgen.compile(inputs, outputs)
        check_jaxpr(f.jaxpr(*case.arrays).jaxpr)

        def both(x, w, y):
            _, transposed = jax.vjp(lambda x, w: f(x, w, y)[0], x, w)
            return f(x, w, y), transposed(y)

        ours, (to_images, to_filters) = jax.jit(both)(*case.arrays)
        assert_all_same(ours, reference(inputs, outputs, case.arrays))
        assert_all_same((to_filters, to_images), ours[1:])

    law()


@pytest.mark.parametrize("rank", [2, 3])
def test_products_of_matrices(rank):
    """Ops that Aesara has in C only compute the same as those above, without flipping filters."""

    @examples(0.3)
    @given(cases(rank, plain=True))
    def law(case):
        forward, to_filters, to_images = (op(**case.attributes) for op in MATRIX_OPS[rank])
        x, w, y = (tensor(a) for a in case.arrays)
        image, filters = (a.shape[-rank:] for a in case.arrays[:2])
        # Aesara 2.9's `make_node` of `CorrMM` raises a TypeError.
        ours = [
            Apply(forward, [x, w], [x.type()]).outputs[0],
            to_filters(x, y, filters),
            to_images(w, y, image),
        ]
        theirs = convolutions(case, OPS[rank], filter_flip=False)
        if set(case.attributes["subsample"]) == {1} and case.attributes["border_mode"] != "half":
            ours += [to_filters(x, y), to_images(w, y)]
        wanted = reference(*theirs, case.arrays)
        f = jaxprgen.compile([x, w, y], ours)
        check_jaxpr(f.jaxpr(*case.arrays).jaxpr)
        assert_all_same(f(*case.arrays), (wanted + wanted[1:])[: len(ours)])

    law()


BORDERS = ["valid", "full", "half", 1, (2, 0), ((0, 2), 1), ((1, 0), (2, 1))]


def test_every_border():
    """For filters of odd and even extents; sizes that are not given follow from the others."""
    inputs, ours, theirs, args = [], [], [], []
    for border in BORDERS:
        attributes = {"border_mode": border, "filter_dilation": (3, 1)}
        case = Case((1, 1, 7, 6), (1, 1, 2, 3), attributes)
        (x, w, y), outputs = convolutions(case, OPS[2], filter_flip=False)
        inputs += x, w, y
        args += case.arrays
        ours += outputs
        theirs += outputs
        if border != "half":
            to_filters, to_images = (op(**attributes) for op in MATRIX_OPS[2][1:])
            ours += [to_filters(x, y), to_images(w, y)]
            theirs += outputs[1:]
    assert_all_same(jaxprgen.compile(inputs, ours)(*args), reference(inputs, theirs, args))


def test_matrix_products_convert_to_one_dtype():
    x, w = at.tensor4("x", "float32"), at.tensor4("w", "float64")
    a, b = numbers((1, 1, 4, 4), "float32"), numbers((1, 1, 2, 2))
    f = jaxprgen.compile([x, w], corr.CorrMM_gradWeights()(x, w))
    assert_same(
        f(a, b),
        reference(
            [x, w],
            [ac.AbstractConv2d_gradWeights(filter_flip=False)(x.astype("float64"), w, (3, 3))],
            [a, b],
        )[0],
    )


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

    @jax.jit
    def derivatives(*arrays):
        def gradients(*arrays):
            out, transposed = jax.vjp(f, *arrays)
            return transposed(out)

        out, transposed = jax.vjp(gradients, *arrays)
        return transposed(out)

    x, w, y = case.arrays
    _, transposed = jax.vjp(lambda x, w: f(x, w, y)[0], x, w)
    to_images, to_filters = jax.jit(transposed)(y)
    assert_all_same((to_filters, to_images), f(*case.arrays)[1:])
    for ours, array in zip(derivatives(*case.arrays), case.arrays, strict=True):
        assert ours.shape == array.shape


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
    costs = [(op(x, w) ** 2).sum() for op in ops]
    gradients = [g for cost in costs for g in aesara.grad(cost, [x, w])]
    f = jaxprgen.compile([x, w], costs)
    _, transposed = jax.vjp(f, *arrays)
    theirs = [g for seed in np.eye(3) for g in transposed(list(seed))]
    assert_all_same(assert_agrees([x, w], gradients, arrays)(*arrays), theirs)


def test_convolutions_of_signals():
    arrays = [numbers((3, 5, 6)), numbers((2, 2, 3)), numbers((5, 6)), numbers((2, 3))]
    images, filters, image, filter_ = map(tensor, arrays)
    outputs = [
        signal_conv2d(images, filters),
        signal_conv2d(image, filters, border_mode="full"),
        signal_conv2d(images, filter_, subsample=(2, 1)),
        signal_conv2d(image, filter_, (5, 6), (2, 3)),
    ]
    assert_agrees([images, filters, image, filter_], outputs, arrays)


def test_the_old_op_asks_for_the_sizes_it_was_made_for():
    x, w = at.tensor4("x"), at.tensor4("w")
    f = jaxprgen.compile([x, w], conv.ConvOp((1, 4, 4), (2, 2), 1, 1)(x, w))
    for image, filters, message in [
        ((1, 1, 5, 4), (1, 1, 2, 2), "(1, 1, 4, 4), got (1, 1, 5, 4)."),
        ((1, 1, 4, 4), (1, 1, 3, 2), "(1, 2, 2), got (1, 3, 2)."),
        ((1, 1, 4, 4), (2, 1, 2, 2), "(1, 2, 2), got (2, 2, 2)."),
    ]:
        with pytest.raises(ShapeMismatchError) as caught:
            f(np.ones(image), np.ones(filters))
        first = str(caught.value).splitlines()[0]
        assert first == f"The Op was built for sizes {message}"


# --- What is built upon them --------------------------------------------------------------


def test_functions_of_aesara():
    arrays = [
        numbers((2, 4, 6, 5)),
        numbers((4, 1, 2, 2)),
        numbers((3, 4, 1, 1)),
        numbers((2, 4, 5, 3, 4)),
        numbers((4, 1, 2, 2, 2)),
        numbers((3, 4, 1, 1, 1)),
        numbers((2, 4, 9)),
        numbers((3, 4, 2)),
    ]
    x, depthwise, pointwise, volume, depthwise3, pointwise3, line, filters = inputs = [
        tensor(a) for a in arrays
    ]
    outputs = [
        ac.separable_conv2d(x, depthwise, pointwise, 4, border_mode="half"),
        ac.separable_conv3d(volume, depthwise3, pointwise3, 4, subsample=(2, 1, 1)),
        ac.causal_conv1d(line, filters, (3, 4, 2), filter_dilation=3),
        ac.conv2d_transpose(x, depthwise, (2, 1, 13, 10), input_dilation=(2, 2)),
        ac.bilinear_upsampling(x, 2),
        ac.bilinear_upsampling(x, frac_ratio=(3, 2), use_1D_kernel=False),
        ac.bilinear_upsampling(x, 3, use_1D_kernel=False),
    ]
    weights = [numbers(out.shape, seed=7) for out in reference(inputs, outputs, arrays)]
    cost = sum((out * w).sum() for out, w in zip(outputs, weights, strict=True))
    gradients = aesara.grad(cost, inputs)
    f = jaxprgen.compile(inputs, [*outputs, *gradients])
    gradient = jax.grad(jaxprgen.compile(inputs, cost), tuple(range(8)))
    ours, theirs = jax.jit(lambda *xs: (f(*xs), gradient(*xs)))(*arrays)
    assert_all_same(ours, reference(inputs, [*outputs, *gradients], arrays))
    assert_all_same(ours[7:], theirs)


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
    x, w = at.tensor4("x", left), at.tensor4("w", right)
    f = jaxprgen.compile([x, w], op(x, w))
    with pytest.raises(UnsupportedOpError) as caught:
        f(np.ones((1, 1, 2, 2), left), np.ones((1, 1, 2, 2), right))
    assert str(caught.value).splitlines()[0] == (
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


def test_known_operands():
    """Both may be known: Ops without code in Python are not asked for what comes out."""
    x, w = at.constant(np.ones((1, 1, 3, 3, 3))), at.constant(np.ones((1, 1, 2, 2, 2)))
    f = jaxprgen.compile([], corr3d.Corr3dMM()(x, w))
    np.testing.assert_array_equal(f(), np.full((1, 1, 2, 2, 2), 8.0))


@pytest.mark.parametrize("unshared", [False, True])
def test_under_vmap_and_twice_differentiated(unshared):
    attributes = {"border_mode": ((1, 0), 1), "subsample": (2, 1), "num_groups": 2}
    case = Case((2, 4, 5, 4), (2, 2, 2, 3), {**attributes, "unshared": unshared})
    f = jaxprgen.compile(*convolutions(case, OPS[2]))
    many = [np.stack([a, 2 * a, -a]) for a in case.arrays]

    @jax.jit
    def program(*many):
        first, *_ = [[a[i] for a in many] for i in range(3)]
        each = [f(*[a[i] for a in many]) for i in range(3)]
        twice = jax.jvp(lambda *xs: jax.jvp(f, xs, tuple(first))[1], tuple(first), tuple(first))[1]
        return each, jax.vmap(f)(*many), twice

    each, batched, twice = program(*many)
    for mine, *single in zip(batched, *each, strict=True):
        np.testing.assert_array_equal(mine, np.stack(single))
    # What is linear in each of two operands is of degree two.
    for mine, out in zip(twice, each[0], strict=True):
        np.testing.assert_array_equal(mine, 2 * out)


def test_a_small_network():
    """The loss of a convolution, a layer behind it and a softmax, as users write it."""
    x, classes = at.tensor4("x"), at.matrix("classes")
    w, bias, dense = at.tensor4("w"), at.vector("bias"), at.matrix("dense")
    hidden = ac.conv2d(x, w, border_mode="half", subsample=(2, 2)) + bias[None, :, None, None]
    hidden = at.switch(hidden > 0, hidden, 0.0)
    logits = at.dot(hidden.flatten(2), dense)
    probabilities = at.special.log_softmax(logits, axis=1)
    loss = -(classes * probabilities).sum() / x.shape[0]
    parameters = [w, bias, dense]
    rng = np.random.default_rng(0)
    shapes = (4, 2, 7, 6), (3, 2, 3, 3), (3,), (36, 5)
    arrays = [rng.normal(size=s) for s in shapes]
    inputs, args = [x, *parameters, classes], [*arrays, np.eye(5)[[0, 4, 2, 2]]]
    outputs = [loss, *aesara.grad(loss, parameters)]
    f = assert_agrees(inputs, outputs, args)
    cost = jaxprgen.compile(inputs, loss)
    value, gradients = jax.jit(jax.value_and_grad(cost, (1, 2, 3)))(*args)
    assert_all_same(f(*args), [value, *gradients])


# --- Errors -------------------------------------------------------------------------------

REFUSED = [
    (
        OPS[2][0](),
        ((1, 1, 3, 5), (1, 1, 5, 5)),
        "A filter of size 5 with dilation 1 does not fit an image of size 3 with padding (0, 0).",
    ),
    (
        OPS[2][0](border_mode=(1, 0), filter_dilation=(3, 1)),
        ((1, 1, 3, 5), (1, 1, 3, 5)),
        "A filter of size 3 with dilation 3 does not fit an image of size 3 with padding (1, 1).",
    ),
    (
        OPS[2][0](border_mode="full"),
        ((1, 1, 3, 5), (1, 1, 0, 5)),
        "A filter of size 0 with dilation 1 does not fit an image of size 3 with padding (-1, -1).",
    ),
    (
        OPS[2][0](filter_dilation=(3, 1)),
        ((1, 1, 3, 5), (1, 1, 0, 5)),
        "A filter of size 0 with dilation 3 does not fit an image of size 3 with padding (0, 0).",
    ),
    (
        OPS[2][0](num_groups=2),
        ((1, 4, 3, 3), (3, 2, 1, 1)),
        "Images of 4 channels do not fit 3 filters of 2 channels in 2 groups.",
    ),
    (
        OPS[2][0](),
        ((1, 4, 3, 3), (3, 2, 1, 1)),
        "Images of 4 channels do not fit 3 filters of 2 channels in 1 groups.",
    ),
    (
        OPS[2][0](unshared=True),
        ((1, 1, 3, 3), (1, 3, 3, 1, 2, 2)),
        "Unshared filters for output sizes (3, 3) do not fit (2, 2).",
    ),
    (
        lambda x, y: OPS[2][1]()(x, y, (2, 2)),
        ((1, 1, 4, 4), (1, 1, 2, 2)),
        "Filters of (1, 1, 2, 2) and images of (1, 1, 4, 4) give a result of (1, 1, 3, 3), not "
        "(1, 1, 2, 2).",
    ),
    (
        lambda w, y: OPS[2][2]()(w, y, (5, 4)),
        ((1, 1, 2, 2), (1, 1, 3, 3)),
        "Filters of (1, 1, 2, 2) and images of (1, 1, 5, 4) give a result of (1, 1, 4, 3), not "
        "(1, 1, 3, 3).",
    ),
]


@pytest.mark.parametrize(("op", "shapes", "message"), REFUSED)
def test_what_does_not_fit_is_an_error_that_says_where(op, shapes, message):
    x, y = (at.tensor("float64", shape=[None] * len(s)) for s in shapes)
    f = jaxprgen.compile([x, y], op(x, y))
    with pytest.raises(ShapeMismatchError) as caught:
        f(*map(np.ones, shapes))
    first, second, *_ = str(caught.value).splitlines()
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
