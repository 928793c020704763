"""Reading and writing by integers and slices, known and not."""

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.tensor.subtensor import IncSubtensor
from hypothesis import given
from hypothesis import strategies as st
from jax.experimental import checkify
from laws import DTYPES, assert_agrees, assert_same, at_once, equations, reference
from operands import values
from profiles import examples, sample

import jaxprgen
from jaxprgen.errors import (
    IndexOutOfBoundsError,
    JaxprGenError,
    RuntimeCheckWarning,
    ShapeMismatchError,
)

INTEGERS = [d for d in DTYPES if "int" in d]
unchecked = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")


def ramp(*shape):
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape)


class Indices:
    """Draws indices of an axis: as NumPy takes them, and as Aesara variables with their values."""

    def __init__(self, draw):
        self.draw = draw
        self.inputs, self.args = [], []

    def number(self, n):
        """A number as a constant, or as an input of some integer dtype."""
        kinds = INTEGERS if n >= 0 else [d for d in INTEGERS if d.startswith("i")]
        if self.draw(st.booleans()):
            return n
        dtype = self.draw(st.sampled_from(kinds))
        self.inputs.append(at.scalar(dtype=dtype))
        self.args.append(np.array(n, dtype))
        return self.inputs[-1]

    def bound(self, numbers):
        n = self.draw(st.none() | numbers)
        return n, None if n is None else self.number(n)

    def index(self, size):
        if size and self.draw(st.booleans()):
            n = self.draw(st.integers(-size, size - 1))
            return n, self.number(n)
        bounds = [self.bound(st.integers(-6, 6)), self.bound(st.integers(-6, 6))]
        bounds.append(self.bound(st.integers(-3, 3).filter(bool)))
        known, variable = zip(*bounds, strict=True)
        return slice(*known), slice(*variable)


@st.composite
def places(draw):
    """A shape, an index of it for NumPy, the same for Aesara, and the inputs this needs."""
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 4]), min_size=1, max_size=3)))
    indices = Indices(draw)
    count = draw(st.integers(1, len(shape)))
    known, variable = zip(*(indices.index(n) for n in shape[:count]), strict=True)
    return shape, known, variable, indices.inputs, indices.args


@unchecked
@examples(3, quick=1)
@given(places(), st.data())
def test_any_index(place, data):
    shape, known, variable, inputs, args = place
    region = ramp(*shape)[known].shape
    # What is written has the region's shape, or less that broadcasts to it.
    own = [n if data.draw(st.booleans()) else 1 for n in region][
        data.draw(st.integers(0, len(region))) :
    ]
    x, y = (
        at.tensor("float64", shape=[None] * len(shape)),
        at.tensor("float32", shape=[1 if n == 1 else None for n in own]),
    )
    zeros = at.zeros_like(x)
    constant = at.constant(ramp(*shape))
    outputs = [
        x[variable],
        at.exp(zeros[variable]),
        constant[variable],
        at.set_subtensor(x[variable], y),
        at.inc_subtensor(x[variable], y),
        at.set_subtensor(zeros[variable], y),
        at.inc_subtensor(at.ones_like(x)[variable], y),
        at.inc_subtensor(constant[variable], 2),
    ]
    assert_agrees(
        [x, y, *inputs], outputs, [ramp(*shape), (0.5 + ramp(*own)).astype("float32"), *args]
    )


FORMS = [
    np.s_[1],
    np.s_[-1],
    np.s_[1:3],
    np.s_[::-1],
    np.s_[-3::2],
    np.s_[5:1],
    np.s_[..., 0],
    np.s_[:, None, 1:],
    np.s_[-1, ::-2],
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_dtype(form):
    inputs, args, outputs = [], [], []
    for dtype in DTYPES:
        x = at.matrix(dtype=dtype)
        inputs.append(x)
        args.append(values(dtype)[:12].reshape(4, 3))
        part = x[form]
        outputs.append(part)
        if form not in (np.s_[..., 0], np.s_[:, None, 1:]):
            one = at.constant(np.array(1, dtype))
            outputs += [at.set_subtensor(part, one), at.inc_subtensor(part, one)]
    outputs = sample(outputs, 17)
    f = jaxprgen.compile(inputs, outputs)
    theirs = reference(inputs, outputs, args)
    for ours, wanted, out in zip(at_once(f, *args), theirs, outputs, strict=True):
        assert_same(ours, wanted, where=str(out.owner))


def test_equations_of_reading():
    x = at.matrix("x")
    for part, expected in [
        (x[:], []),
        (x[0:], []),
        (x[:, 1:2], ["slice"]),
        (x[1], ["slice", "squeeze"]),
        (x[::-1], ["rev"]),
        (at.zeros_like(x)[1:, 0], []),
        (x.T[1:].T, ["transpose", "slice", "transpose"]),
    ]:
        f = assert_agrees([x], [part], [ramp(3, 4)])
        assert equations(f, ramp(3, 4)) == expected


def test_writing_into_zeros_is_padding():
    """What the gradient of a slice is: no zeros are made first."""
    x = at.matrix("x")
    for part in (x[1], x[:, ::2], x[1:, -1:]):
        f = assert_agrees([x], [aesara.grad((part**2).sum(), x)], [ramp(3, 4)])
        *before, pad = f.jaxpr(ramp(3, 4)).jaxpr.eqns
        assert pad.primitive.name == "pad"
        assert all(v.aval.shape != (3, 4) for eqn in before for v in eqn.outvars)


@pytest.mark.parametrize(
    ("form", "chosen"),
    [(np.s_[1:], True), (np.s_[1:-1], True), (np.s_[:3], True), (np.s_[4:], False)],
    ids=str,
)
def test_what_is_not_written_keeps_its_bits(form, chosen):
    """A large block is chosen elementwise: devices that split the array keep their parts."""
    x, y = at.vector("x"), at.vector("y")
    special = np.array([-0.0, 0.0, np.nan, np.inf, -0.0, -0.0])
    values = np.full(6, -0.0)[form]
    replaced, increased = special.copy(), special.copy()
    replaced[form], increased[form] = values, increased[form] + values
    outputs = [at.set_subtensor(x[form], y), at.inc_subtensor(x[form], y)]
    f = jaxprgen.compile([x, y], outputs)
    for mine, yours in zip(f(special, values), [replaced, increased], strict=True):
        np.testing.assert_array_equal(mine, yours)
        np.testing.assert_array_equal(np.signbit(mine), np.signbit(yours))
    assert ("select_n" in equations(f, special, values)) == chosen


@unchecked
def test_equations_of_a_runtime_index():
    x, i, j = at.matrix("x"), at.iscalar("i"), at.scalar("j", dtype="uint8")
    args = [ramp(3, 4), np.int32(-1), np.uint8(1)]
    wrapped = ["lt", "add", "select_n"]
    for part, expected in [
        (x[i], [*wrapped, "broadcast_in_dim", "gather"]),
        (x[j], ["convert_element_type", "broadcast_in_dim", "gather"]),
        (x[:, j], ["convert_element_type", "broadcast_in_dim", "gather"]),
        (at.zeros_like(x)[i], ["broadcast_in_dim"]),
    ]:
        f = assert_agrees([x, i, j], [part], args)
        assert equations(f, *args) == expected


def test_reading_and_writing_what_is_known():
    """Evaluated while emitting, by Aesara's own ``perform``, whose scalars are NumPy's."""
    base = at.ones((1, 2, 1))
    outputs = [at.inc_subtensor(base[0], 1.0), at.set_subtensor(base[0, 1], 5.0), base[0, 0] + 1.0]
    assert_agrees([], outputs, [])


def test_slices_by_arguments_make_one_program_each():
    x, n = at.vector("x"), at.lscalar("n")
    f = jaxprgen.compile([x, n], x[:n])
    assert f(ramp(5), 2).shape == (2,)
    assert f(ramp(5), -1).shape == (4,)
    assert f.cache_info().currsize == 2


@pytest.mark.parametrize("inplace", [False, True])
def test_writing_leaves_the_argument_alone(inplace):
    x, y = at.vector("x"), at.vector("y")
    part = x[1:3]
    for add in (False, True):
        op = IncSubtensor(part.owner.op.idx_list, inplace=inplace, set_instead_of_inc=not add)
        args = [ramp(4), np.array([10.0, 20])]
        ours = jaxprgen.compile([x, y], op(x, y, *part.owner.inputs[1:]))(*args)
        np.testing.assert_array_equal(ours, [1, 12, 23, 4] if add else [1, 10, 20, 4])
        np.testing.assert_array_equal(args[0], ramp(4))


def test_what_is_written_must_fit():
    x, y = at.matrix("x"), at.matrix("y")
    f = jaxprgen.compile([x, y], at.set_subtensor(x[1:], y))
    with pytest.raises(ShapeMismatchError, match=r"\(3, 3\)"):
        f(ramp(3, 3), ramp(3, 3))


# --- Bounds ------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [3, -4, 100])
def test_a_known_index_out_of_bounds(index):
    x, i = at.vector("x"), at.lscalar("i")
    for inputs, out, args in [
        ([x], x[index], []),
        ([x], at.set_subtensor(x[index], 0), []),
        ([x, i], at.ones(x.shape)[: i + 1][index], [2]),
    ]:
        f = jaxprgen.compile(inputs, out)
        with pytest.raises(
            IndexOutOfBoundsError, match=f"ndex {index} is out of bounds for axis 0"
        ) as caught:
            f(ramp(3), *args)
        assert "test_subtensor.py" in str(caught.value)
        assert isinstance(caught.value, IndexError)
        assert isinstance(caught.value, JaxprGenError)


def test_a_runtime_index_is_announced_once():
    x, i = at.matrix("x"), at.lscalar("i")
    f = jaxprgen.compile([x, i], x[:, i] + x[:, i])
    with pytest.warns(RuntimeCheckWarning) as caught:
        f(ramp(2, 3), 1)
        f(ramp(2, 4), 1)
    message = str(caught[0].message)
    assert message.startswith("Not checked: whether every index is within axis 1 of size 3.")
    assert len(caught) == 1  # One for both nodes, and none for the second shape.


@pytest.mark.parametrize("dtype", INTEGERS)
def test_checked_runtime_index(dtype):
    x, i = at.vector("x"), at.scalar("i", dtype=dtype)
    outputs = [x[i], at.inc_subtensor(x[i], 10)]
    f = jaxprgen.compile([x, i], outputs, checks=True)
    checked = jax.jit(checkify.checkify(f))
    inside = [0, 2] if dtype.startswith("u") else [0, 2, -1, -3]
    for n in inside:
        error, ours = checked(ramp(3), np.array(n, dtype))
        assert error.get() is None
        for mine, yours in zip(
            ours, reference([x, i], outputs, [ramp(3), np.array(n, dtype)]), strict=True
        ):
            assert_same(mine, yours)
    outside = [3, np.iinfo(dtype).max] if dtype.startswith("u") else [3, -4, np.iinfo(dtype).min]
    for n in outside:
        error, _ = checked(ramp(3), np.array(n, dtype))
        assert "out of bounds for axis 0 of size 3" in error.get()


def test_a_failed_check_can_be_raised():
    x, i = at.vector("x"), at.lscalar("i")
    error, _ = checkify.checkify(jaxprgen.compile([x, i], x[i], checks=True))(ramp(3), 5)
    with pytest.raises(checkify.JaxRuntimeError, match="out of bounds for axis 0 of size 3"):
        error.throw()


@unchecked
@pytest.mark.parametrize("dtype", INTEGERS)
def test_runtime_index_of_a_long_axis(dtype):
    """The axis is longer than the index's dtype can say."""
    x, i = at.vector("x"), at.scalar("i", dtype=dtype)
    for n in (5, 120) if dtype.startswith("u") else (5, -1, -120):
        assert_agrees([x, i], [x[i], at.set_subtensor(x[i], 0)], [ramp(1000), np.array(n, dtype)])


def test_a_runtime_index_into_nothing():
    x, i = at.vector("x"), at.lscalar("i")
    with pytest.raises(IndexOutOfBoundsError, match=r"take an element of an array of shape \(0,\)"):
        jaxprgen.compile([x, i], x[i], checks=True)(np.zeros(0), 0)


# --- Gradients ---------------------------------------------------------------------------


@unchecked
def test_gradients():
    x, y, i = at.matrix("x"), at.vector("y"), at.lscalar("i")
    costs = [
        (x[1:, ::2] ** 2).sum(),
        (x[i] ** 3).sum(),
        x[0, i] * x[-1, 0] ** 2,
        (at.set_subtensor(x[1], y * 2) ** 2).sum(),
        (at.inc_subtensor(x[:, 1:][i], y[1:]) ** 2).sum(),
        (at.set_subtensor(at.zeros((3, 3))[::-1, i], y) * x).sum(),
    ]
    args = [ramp(3, 3), np.array([0.5, -1, 2]), 1]
    gradients, derivatives = [], []
    for cost in costs:
        gradients += aesara.grad(cost, [x, y], disconnected_inputs="ignore")
        derivatives.append(jax.grad(jaxprgen.compile([x, y, i], cost), (0, 1)))
    f = assert_agrees([x, y, i], gradients, args)
    theirs = jax.jit(lambda *args: [each for d in derivatives for each in d(*args)])(*args)
    for mine, yours in zip(f(*args), theirs, strict=True):
        assert_same(mine, yours)


@pytest.mark.parametrize("dtypes", [("int16", "float64"), ("bool", "int8"), ("uint8", "float32")])
def test_an_increment_of_another_kind_is_cut_off_behind_the_sum(dtypes):
    """Of one element; to arrays Aesara's Python implementation adds nothing of another kind."""
    x, y = at.vector(dtype=dtypes[0]), at.scalar(dtype=dtypes[1])
    args = [np.array([2, 0, 1]).astype(dtypes[0]), np.array(0.61).astype(dtypes[1])]
    assert_agrees([x, y], [at.inc_subtensor(x[1], y), at.inc_subtensor(x[0], y * -1)], args)
