"""Reading and writing by integers and slices; see test_advanced_subtensor.py for any index."""

import aesara
import aesara.tensor as at
import numpy as np
import pytest
from aesara.tensor.subtensor import IncSubtensor
from laws import (
    DTYPES,
    assert_agrees,
    assert_agrees_of_every_dtype,
    assert_derivatives,
    equations,
    failures,
    refusal,
)

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
    def build(x, _):
        one = at.constant(np.array(1, x.dtype))
        written = [at.set_subtensor(x[form], one), at.inc_subtensor(x[form], one)]
        return [x[form], *written] if form not in (np.s_[..., 0], np.s_[:, None, 1:]) else [x[form]]

    assert_agrees_of_every_dtype(build, (4, 3))


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


def test_writing_leaves_the_argument_alone():
    x, y = at.vector("x"), at.vector("y")
    part, args = x[1:3], [ramp(4), np.array([10.0, 20])]
    outputs = [
        IncSubtensor(part.owner.op.idx_list, inplace=here, set_instead_of_inc=not add)(
            x, y, *part.owner.inputs[1:]
        )
        for here in (False, True)
        for add in (False, True)
    ]
    ours = jaxprgen.compile([x, y], outputs)(*args)
    np.testing.assert_array_equal(ours, [[1, 10, 20, 4], [1, 12, 23, 4]] * 2)
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
    for out in (x[index], at.set_subtensor(x[index], 0), at.ones(x.shape)[: i + 1][index]):
        f = jaxprgen.compile([x, i], out)
        first, *_, last = refusal(IndexOutOfBoundsError, f, ramp(3), 2)
        assert f"ndex {index} is out of bounds for axis 0" in first
        assert last.startswith("  built at LINE: ")
    assert issubclass(IndexOutOfBoundsError, IndexError)
    assert issubclass(IndexOutOfBoundsError, JaxprGenError)


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
    unsigned = dtype.startswith("u")
    inside = [0, 2] if unsigned else [0, 2, -1, -3]
    outside = [3, np.iinfo(dtype).max] if unsigned else [3, -4, np.iinfo(dtype).min]
    calls = [[ramp(3), np.array(n, dtype)] for n in (*inside, *outside)]
    found = failures([x, i], outputs, *calls)
    assert found[: len(inside)] == [None] * len(inside)
    assert all("out of bounds for axis 0 of size 3" in text for text in found[len(inside) :])


@unchecked
def test_runtime_index_of_a_long_axis():
    """The axis is longer than the index's dtype can say."""
    x, inputs, args, outputs = at.vector("x"), [], [], []
    for dtype in INTEGERS:
        for n in (5, 120) if dtype.startswith("u") else (5, -1, -120):
            inputs.append(at.scalar(dtype=dtype))
            args.append(np.array(n, dtype))
            outputs += [x[inputs[-1]], at.set_subtensor(x[inputs[-1]], 0)]
    assert_agrees([x, *inputs], outputs, [ramp(1000), *args])


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
    assert_derivatives([x, y, i], costs, [ramp(3, 3), np.array([0.5, -1, 2]), 1], [x, y])


@pytest.mark.parametrize("dtypes", [("int16", "float64"), ("bool", "int8"), ("uint8", "float32")])
def test_an_increment_of_another_kind_is_cut_off_behind_the_sum(dtypes):
    """Of one element; to arrays Aesara's Python implementation adds nothing of another kind."""
    x, y = at.vector(dtype=dtypes[0]), at.scalar(dtype=dtypes[1])
    args = [np.array([2, 0, 1]).astype(dtypes[0]), np.array(0.61).astype(dtypes[1])]
    assert_agrees([x, y], [at.inc_subtensor(x[1], y), at.inc_subtensor(x[0], y * -1)], args)
