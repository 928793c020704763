"""Reading, writing and choosing by arrays of integers and masks, known and not."""

import re
import warnings
from contextlib import suppress

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedIncSubtensor1,
)
from hypothesis import assume, given, strategies as st
from laws import (
    DTYPES,
    assert_agrees,
    assert_agrees_of_every_dtype,
    assert_derivatives,
    equations,
    failures,
    reference,
    refusal,
    without_x64,
)
from operands import values
from profiles import examples

import jaxprgen
from jaxprgen.errors import (
    IndexOutOfBoundsError,
    ShapeMismatchError,
    StaticShapeError,
)

INTEGERS = [d for d in DTYPES if "int" in d]
SIGNED = [d for d in INTEGERS if d.startswith("i")]
pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")


def ramp(*shape):
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape)


def variable(shape, dtype="float64"):
    """An input whose sizes of one are declared, so that Aesara broadcasts along them."""
    return at.tensor(dtype, shape=[1 if n == 1 else None for n in shape])


# --- Any index ----------------------------------------------------------------------------


class Indices:
    """Draws entries of an index: for NumPy, and as Aesara takes them, with inputs and values."""

    def __init__(self, draw, common, has_arrays):
        self.draw, self.has_arrays = draw, has_arrays
        self.common = common  # What arrays broadcast to.
        self.inputs, self.args = [], []

    def given(self, value, dtypes):
        """A value as a constant, or as an input."""
        if self.draw(st.booleans()):
            return at.constant(value) if value.ndim else int(value)
        self.inputs.append(variable(value.shape, self.draw(st.sampled_from(dtypes))))
        self.args.append(value.astype(self.inputs[-1].dtype))
        return self.inputs[-1]

    def integers(self, size):
        shape = [1 if self.draw(st.integers(0, 3)) == 0 else n for n in self.common]
        shape = shape[self.draw(st.integers(0, len(shape))) :]
        if size in shape and self.draw(st.booleans()):
            own = [1] * len(shape)
            own[shape.index(size)] = size
            value = np.arange(size).reshape(own)
            return value, at.constant(value)
        if not size:
            shape = (0,)
        # Negative and repeated ones are frequent.
        seed = self.draw(st.integers(0, 2**16))
        value = np.random.default_rng(seed).integers(-size, max(size, 1), shape)
        return value, self.given(value, SIGNED if (value < 0).any() else INTEGERS)

    def number(self, n):
        return self.given(np.array(n), INTEGERS if n >= 0 else SIGNED)

    def slice(self):
        bound, step = st.none() | st.integers(-6, 6), st.sampled_from([None, 1, 2, 3, -1, -3])
        known = [self.draw(each) for each in (bound, bound, step)]
        return slice(*known), slice(*(n if n is None else self.number(n) for n in known))

    def entry(self, size):
        kinds = ["array"] * 3 * self.has_arrays + ["slice", "slice", "whole", "number"]
        kind = self.draw(st.sampled_from(kinds))
        if kind == "array":
            return self.integers(size)
        if kind == "number" and size:
            n = self.draw(st.integers(-size, size - 1))
            return n, self.number(n)
        return self.slice() if kind == "slice" else (slice(None), slice(None))

    def mask(self, shape):
        value = np.array(self.draw(st.lists(st.booleans(), min_size=64, max_size=64)))
        value = value[: np.prod(shape, dtype=int)].reshape(shape)
        return value, at.constant(value)


@st.composite
def places(draw):
    """A shape, an index of it for NumPy, the same for Aesara, and the inputs this needs."""
    has_arrays = draw(st.booleans())
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 0]), min_size=1, max_size=4))
    common = draw(st.lists(st.sampled_from([1, 2, 3, 0]), max_size=2))
    indices = Indices(draw, common, has_arrays)
    entries, axis = [], 0
    while axis < draw(st.integers(1, len(shape))):
        kind = draw(st.sampled_from(["entry"] * 5 + ["new"] + ["mask"] * has_arrays))
        if kind == "new":
            entries.append((None, None))
        elif kind == "mask":
            rank = draw(st.integers(1, min(2, len(shape) - axis)))
            entries.append(indices.mask(shape[axis : axis + rank]))
            axis += rank
        else:
            entries.append(indices.entry(shape[axis]))
            axis += 1
    known, symbolic = zip(*entries, strict=True)
    return shape, known, symbolic, indices.inputs, indices.args


@examples(4, quick=2)
@given(places(), st.data())
def test_any_index(place, data):
    shape, known, symbolic, inputs, args = place
    try:
        region = ramp(*shape)[known].shape
    except IndexError:  # Arrays that do not broadcast: a mask's and others.
        assume(False)
    own = [n if data.draw(st.booleans()) else 1 for n in region]
    own = own[data.draw(st.integers(0, len(region))) :]
    x, y = variable([None] * len(shape)), variable(own, "float32")
    zeros, part, constant = at.zeros_like(x), x[symbolic], at.constant(ramp(*shape))
    # Aesara takes what a constant mask of size one selects to be of size one.
    assume(all(n in (None, size) for n, size in zip(part.type.shape, region, strict=True)))
    written = []
    with suppress(ValueError, TypeError):  # Aesara makes no graph that writes to some new axes.
        written = [
            at.set_subtensor(part, y),
            at.inc_subtensor(part, y),
            at.set_subtensor(zeros[symbolic], y),
            at.inc_subtensor(zeros[symbolic], y),
            at.inc_subtensor(part, y, ignore_duplicates=True),
            at.inc_subtensor(at.ones_like(x)[symbolic], y),
            at.inc_subtensor(constant[symbolic], 2),
        ]
    assert written or None in known
    assert_agrees(
        [x, y, *inputs],
        [part, at.exp(zeros[symbolic]), constant[symbolic], *written],
        [ramp(*shape), (0.5 + ramp(*own)).astype("float32"), *args],
    )


FORMS = [
    np.s_[[0, 2]],
    np.s_[[[0, -1], [1, 1]]],
    np.s_[:, [0, 2, 2]],
    np.s_[[0, 3], [1, -1]],
    np.s_[[[0], [3]], [1, -1]],
    np.s_[1:, [2, 0]],
    np.s_[::-2, [2, 0]],
    np.s_[-1, [0, 2]],
    np.s_[None, [0, 1]],
    np.s_[np.array([True, False, True, True])],
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_dtype(form):
    """Repeated places are increased by every value; of those written, the last one stays."""

    def build(x, a):
        one = at.constant(np.resize(values(x.dtype), a[form].shape))
        return [x[form], at.set_subtensor(x[form], one), at.inc_subtensor(x[form], one)]

    assert_agrees_of_every_dtype(build, (4, 3))


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("add", [False, True])
def test_writing_leaves_the_argument_alone(inplace, add):
    x, y, i = at.matrix("x"), at.vector("y"), at.lvector("i")
    args = [ramp(4, 2), np.array([10.0, 20]), np.array([1, -1, 1])]
    before = args[0].copy()
    for op_type in (AdvancedIncSubtensor, AdvancedIncSubtensor1):
        op, pure = (op_type(i, set_instead_of_inc=not add) for i in (inplace, False))
        ours = jaxprgen.compile([x, y, i], op(x, y, i))(*args)
        np.testing.assert_array_equal(args[0], before)
        (theirs,) = reference([x, y, i], [pure(x, y, i)], args)
        np.testing.assert_array_equal(ours, theirs)


def test_a_vector_is_added_along_an_index_of_several_axes():
    """There `numpy.add.at` reads behind the vector."""
    x, y, i = at.vector("x"), at.vector("y"), at.lmatrix("i")
    ours = jaxprgen.compile([x, y, i], at.inc_subtensor(x[i], y))
    index = np.array([[0, 0], [1, 0]])
    np.testing.assert_array_equal(ours(np.ones(3), np.array([2.0, 10]), index), [23, 3, 1])


def test_equations():
    """An index that is known is a constant, and is counted from the front already."""
    x, i, u = at.matrix("x"), at.lvector("i"), at.vector("u", dtype="uint8")
    args = [ramp(3, 4), np.array([0, -1, 0]), np.array([2, 1, 1], "uint8")]
    wrapped = ["lt", "add", "select_n", "broadcast_in_dim"]
    for out, expected in [
        (x[[0, 2]], ["gather"]),
        (x[[0, -1], [1, 1]], ["gather"]),
        (x[:, [-1, 2]].T, ["gather", "transpose"]),
        (x[1:, [0, 2]], ["slice", "gather"]),
        (at.zeros_like(x)[[0, 2]], []),
        (x[i], [*wrapped, "gather"]),
        (x[u], ["convert_element_type", "broadcast_in_dim", "gather"]),
        (at.inc_subtensor(x[[0, 0]], x[1:]), ["slice", "scatter-add"]),
        (at.set_subtensor(x[[0, 2]], x[1:]), ["slice", "scatter"]),
    ]:
        f = assert_agrees([x, i, u], [out], args)
        assert equations(f, *args) == expected


def test_a_known_index_is_one_constant_of_reading_and_of_writing():
    x = at.vector("x")
    where = np.arange(2000) % 7
    cost = (x[where] ** 2).sum()
    closed = jaxprgen.compile([x], [cost, aesara.grad(cost, x)]).jaxpr(ramp(7))
    (constant,) = closed.consts
    assert (constant.shape, constant.dtype) == ((2000, 1), np.int32)


def test_run_time_index_of_a_long_axis():
    """The axis is longer than the index's dtype can say; one that is known is not evaluated."""
    x, inputs, args, outputs = at.vector("x"), [], [], []
    for dtype in INTEGERS:
        inputs.append(at.vector(dtype=dtype))
        args.append(np.array([5, 120, 0] if dtype.startswith("u") else [5, -1, -120], dtype))
        outputs += [x[inputs[-1]], at.set_subtensor(x[inputs[-1]], 0)]
    for where in (at.arange(x.shape[0])[::-1], at.zeros_like(x, dtype="int64")):
        outputs += [x[where], at.inc_subtensor(x[where], 1.0)]
    for mask in (at.arange(x.shape[0]) % 2 > 0, at.gt(at.zeros_like(x), 1)):
        outputs += [x[mask], at.inc_subtensor(x[mask], x[mask])]
    for n in (1000, 2000):
        assert_agrees([x, *inputs], outputs, [ramp(n), *args])


def test_without_64_bits():
    x, i = at.fvector("x"), at.lvector("i")
    f = jaxprgen.compile([x, i], x[i])
    with without_x64(), pytest.warns(jaxprgen.errors.PrecisionWarning):
        np.testing.assert_array_equal(f(ramp(3).astype("float32"), np.array([-1, 0])), [3, 1])


# --- Masks --------------------------------------------------------------------------------


def test_equations_and_gradient_of_writing_where_a_mask_is_true():
    x = at.matrix("x")
    out = at.set_subtensor(x[x > 2], 0.0)
    f = assert_agrees([x], [out], [ramp(2, 3)])
    assert equations(f, ramp(2, 3)) == ["gt", "broadcast_in_dim", "select_n"]
    assert_derivatives([x], (out**2).sum(), [ramp(2, 3)])


def test_a_run_time_mask():
    x, y = at.matrix("x"), at.vector("y")
    mask = x > 2
    mask.name = "mask"
    two = at.set_subtensor(x[mask[:, 0], mask[0]], 0.0)
    for out in (x[mask], x[mask[:, 0], 1:], x[mask[:, 0], mask[0]], two, x[mask] * y):
        f = assert_agrees([x, y], [out], [ramp(2, 3) + 1, ramp(5)])
        first, second, _, third, *_, last = refusal(
            StaticShapeError, jax.jit(f), ramp(2, 3), ramp(6)
        )
        assert first.startswith("The number of true elements of ")
        assert "decides a shape, and is known only when the program runs; keep" in first
        assert second.startswith("A shape depends on the value of input 'x', which is a tracer")
        assert "Advanced" in third
        assert last.startswith("  built at LINE: ")
    with pytest.raises(StaticShapeError, match="true elements of mask decides"):
        jax.jit(jaxprgen.compile([x], x[mask]))(ramp(2, 3))


def test_a_mask_of_other_sizes():
    x = at.matrix("x")
    mask = at.bmatrix() > 0
    for out in (x[at.constant([True, False])], at.set_subtensor(x[at.constant([True])], 0)):
        with pytest.raises(IndexOutOfBoundsError, match=r"A mask of shape \(.,\) does not fit"):
            jaxprgen.compile([x], out)(ramp(3, 2))
    with pytest.raises(IndexOutOfBoundsError, match=r"does not fit an array of shape \(3, 2\)"):
        jaxprgen.compile([x, mask], at.set_subtensor(x[mask], 0))(ramp(3, 2), ramp(2, 2) > 1)


@examples(0.6)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.sampled_from(DTYPES))
def test_nonzero_of_what_is_known(shape, dtype):
    x = at.vector("x")
    known = at.constant(np.resize(values(dtype), shape))
    assert_agrees([x], list(at.nonzero(known)), [ramp(2)])
    rows = at.nonzero(at.eye(x.shape[0]))
    assert_agrees([x], list(rows), [ramp(40)])


def test_nonzero_of_an_argument():
    x = at.vector("x")
    f = assert_agrees([x], at.nonzero(x)[0], [np.array([0.0, np.nan, -0.0, 2])])
    assert f(np.array([1.0, 0, 3, 0])).tolist() == [0, 2]
    assert f.cache_info().misses == 1
    assert refusal(StaticShapeError, jax.jit(f), ramp(3))[:5] == [
        "The number of true elements of x decides a shape, and is known only when the program "
        "runs; keep the shape: aesara.tensor.switch(mask, x, fill), and reduce with the mask as "
        "weights. Or give the result a size: jaxprgen.compile(..., sizes={variable: n}).",
        "A shape depends on the value of input 'x', which is a tracer (DynamicJaxprTracer) under "
        "a JAX transformation.",
        "Pass 'x' as a concrete array: call this outside of the transformation, close over it, or "
        "give the array a size that does not depend on it.",
        "  in Nonzero(x)",
        "    x: float64[3]",
    ]


# --- Bounds -------------------------------------------------------------------------------


def test_positions_that_sort_a_vector_are_in_bounds():
    x, y = at.vectors("x", "y")
    sorted_by = x[at.argsort(y)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jaxprgen.compile([x, y], sorted_by)(ramp(3), ramp(2))
    with pytest.raises(IndexOutOfBoundsError):
        jaxprgen.compile([x, y], sorted_by, checks=True)(ramp(2), ramp(3))


@pytest.mark.parametrize("index", [[0, 3], [-4], [[100]], [2**40]])
def test_a_known_index_out_of_bounds(index):
    x, n, where = at.vector("x"), at.lscalar("n"), np.array(index)
    empty = at.outer(x, at.zeros(0))
    for out in (x[where], at.set_subtensor(x[where], 0), at.ones(n)[where], empty[where]):
        f = jaxprgen.compile([x, n], out)
        first, *_, last = refusal(IndexOutOfBoundsError, f, ramp(3), 3)
        last_index = where.ravel()[-1]
        assert re.search(rf"ndex {last_index} is out of bounds for axis 0 .* size 3", first)
        assert last.startswith("  built at LINE: ")


def test_an_index_that_is_too_long_or_does_not_broadcast():
    x, i = at.matrix("x"), at.lvector("i")
    mask = at.constant(np.eye(3) > 0)
    f = jaxprgen.compile([x, i], at.set_subtensor(x[i, [0, 1]], 0))
    with pytest.raises(ShapeMismatchError, match="do not broadcast together"):
        f(ramp(2, 2), np.zeros(3, int))
    for index, message in [(([0], mask), "does not fit"), (([0], [0], [0]), "Too many indices")]:
        g = jaxprgen.compile([x], AdvancedIncSubtensor()(x, 1.0, *index))
        with pytest.raises(IndexOutOfBoundsError, match=message):
            g(ramp(3, 3))
    with pytest.raises(ShapeMismatchError, match=r"\(4,\)"):
        jaxprgen.compile([x, i], at.set_subtensor(x[i], at.ones(4)))(ramp(2, 3), np.zeros(3, int))


def test_a_run_time_index_into_nothing():
    x, i = at.matrix("x"), at.lvector("i")
    f = jaxprgen.compile([x, i], x[:, i])
    assert f(np.zeros((2, 0)), np.zeros(0, int)).shape == (2, 0)
    with pytest.raises(IndexOutOfBoundsError, match="Cannot take an element along axis 1"):
        f(np.zeros((2, 0)), np.zeros(1, int))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_checked_run_time_index(dtype):
    x, i = at.vector("x"), at.vector("i", dtype=dtype)
    outputs = [x[i], at.inc_subtensor(x[i], 10)]
    unsigned = dtype.startswith("u")
    inside = np.array([0, 2, 2] if unsigned else [0, -1, -3], dtype)
    assert_agrees([x, i], outputs, [ramp(3), inside])
    # Beyond those of int64, unsigned numbers count from the end.
    largest = min(np.iinfo(dtype).max, np.iinfo("int64").max)
    outside = [3, largest] if unsigned else [3, -4, np.iinfo(dtype).min]
    calls = [inside, *(np.array([0, n, 1], dtype) for n in outside)]
    found, *failed = failures([x, i], outputs, *([ramp(3), call] for call in calls))
    assert found is None
    assert all("out of bounds for axis 0 of size 3" in text for text in failed)


@pytest.mark.parametrize("n", [3, 40, -4, -5])
def test_a_bad_run_time_index_is_found_by_debug(n):
    x, i = at.matrix("x"), at.lvector("i")
    for out, axis in [
        (x[i], 0),
        (x[:, i], 1),
        (x[i, [0, 1]], 0),
        (at.set_subtensor(x[i], 0.0), 0),
        (at.inc_subtensor(x[1:, i], 1.0), 1),
    ]:
        f, a, right = jaxprgen.compile([x, i], out), ramp(4, 4)[:, 1:], np.array([-3, 2])
        a = a if axis else a.T
        np.testing.assert_array_equal(jaxprgen.debug(f)(a, right), f(a, right))
        first = refusal(IndexOutOfBoundsError, jaxprgen.debug(f), a, np.array([0, n]))[0]
        assert first.startswith(f"Index {n} is out of bounds for axis {axis} of size 3, in ")


@pytest.mark.parametrize("n", [5, -9])
def test_out_of_bounds_is_the_nearest_element(n):
    x, i = at.vector("x"), at.lvector("i")
    f = jaxprgen.compile([x, i], [x[i], at.set_subtensor(x[i], 9.0), at.inc_subtensor(x[i], 9.0)])
    read, written, increased = f(ramp(3), np.array([n]))
    end = 2 if n > 0 else 0
    assert (read[0], written[end], increased[end]) == (end + 1, 9, end + 10)


# --- Derivatives --------------------------------------------------------------------------


def costs(x, y, i):
    """Without places that are written twice: of those Aesara's gradient counts all that is lost."""
    return [
        (x[i] ** 2).sum(),
        (x[i, [0, 2, 2]] ** 3).sum(),
        (x[:, i][[2, 0]] ** 2 * y).sum(),
        (x[[0, 0, -1]] ** 2).sum() + (x[1:, [1, 1]] ** 3).sum(),
        (at.set_subtensor(x[[0, -1]], y * 2) ** 2).sum(),
        (at.set_subtensor(x[i[1:], [0, 1]], y[1:]) ** 2).sum(),
        (at.inc_subtensor(x[i], y**2) ** 2).sum(),
        (at.inc_subtensor(x[:, [0, 0]], y[:, None]) ** 2 * x).sum(),
        (at.inc_subtensor(at.zeros_like(x)[i[::-1]], y) * x).sum(),
        (at.set_subtensor(x[1:, i[1:]], y[0]) ** 2).sum(),
    ]


def test_gradients():
    x, y, i = at.matrix("x"), at.vector("y"), at.lvector("i")
    args = [ramp(3, 3), np.array([0.5, -1, 2]), np.array([2, 0, -2])]
    assert_derivatives([x, y, i], costs(x, y, i), args, [x, y])
    x, args = at.vector("x"), [ramp(3), np.array([2, 0, 2, -1])]
    repeated = [(x[i] ** 3).sum(), (at.inc_subtensor(x[i], x[i] ** 2) ** 2).sum()]
    assert_derivatives([x, i], repeated, args, [x])


@pytest.mark.parametrize("index", [np.array([2, 0, 2]), None])
def test_what_is_overwritten_has_no_gradient(index):
    """JAX's; Aesara's own gives what was written first the gradient of what was written last."""
    x, y, i = at.vector("x"), at.vector("y"), at.lvector("i")
    where = i if index is None else index
    f = jaxprgen.compile([x, y, i], (at.set_subtensor(x[where], y) * [1.0, 10, 100]).sum())
    dx, dy = jax.grad(f, (0, 1))(ramp(3), ramp(3), np.array([2, 0, 2]))
    np.testing.assert_array_equal(dx, [0, 10, 0])
    np.testing.assert_array_equal(dy, [0, 1, 100])


# --- Permutations and choices -------------------------------------------------------------


@examples(1, quick=0.5)
@given(st.data())
def test_permuted_rows(data):
    batch = data.draw(st.lists(st.sampled_from([1, 2, 3]), max_size=2))
    n, inverse = data.draw(st.sampled_from([0, 1, 2, 4])), data.draw(st.booleans())
    shapes = [
        ([k if data.draw(st.booleans()) else 1 for k in batch])[
            data.draw(st.integers(0, len(batch))) :
        ]
        for _ in range(2)
    ]
    generator = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    rows = ramp(*shapes[0], n)
    orders = generator.permuted(np.broadcast_to(np.arange(n), (*shapes[1], n)), axis=-1)
    dtype = data.draw(st.sampled_from(INTEGERS))
    x, y = variable([*shapes[0], None]), variable([*shapes[1], None], dtype)
    args = [rows, orders.astype(dtype)]
    out = at.permute_row_elements(x, y, inverse)
    assert_agrees([x, y], [out], args)
    known = at.permute_row_elements(x, at.constant(args[1]), inverse)
    assert_agrees([x], [known], args[:1])
    if not inverse:  # Of that Aesara's gradient permutes by the inverse again.
        assert_derivatives([x, y], (out**2 * at.arange(n)).sum(), args, [x])


def test_gradient_of_an_inverse_permutation():
    x, y = at.matrix("x"), at.lvector("y")
    cost = (at.permute_row_elements(x, y, True) ** 2 * at.arange(3)).sum()
    order = np.array([2, 0, 1])
    ours = jax.grad(jaxprgen.compile([x, y], cost))(ramp(2, 3), order)
    np.testing.assert_allclose(ours, 2 * ramp(2, 3) * order)


def test_a_permutation_out_of_bounds():
    x, y = at.matrix("x"), at.lvector("y")
    with pytest.raises(IndexOutOfBoundsError, match="Index 3 is out of bounds for axis 1"):
        jaxprgen.compile([x], at.permute_row_elements(x, [0, 3, 1]))(ramp(2, 3))
    calls = ([ramp(2, 3), np.array([1, 0, n])] for n in (2, 3))
    right, wrong = failures([x, y], at.permute_row_elements(x, y), *calls)
    assert right is None and "out of bounds for axis 1" in wrong


# NumPy refuses uint64, which it cannot safely convert to its index type, and float16 is as others.
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_choices(mode):
    x, y, z = at.vector("x"), at.vector("y"), at.tensor3("z")
    inputs, args, outputs = [x, y, z], [ramp(4), -ramp(4), ramp(2, 4, 4)], []
    for dtype in ["bool", *(d for d in INTEGERS if d != "uint64")]:
        numbers = [0, 1, 1, 0] if mode == "raise" or dtype == "bool" else [0, 2, 1, 100]
        if mode != "raise" and dtype in SIGNED:
            numbers[2:] = [-1, -100]
        a = at.vector(dtype=dtype)
        inputs.append(a)
        args.append(np.array(numbers, dtype))
        known = at.constant(args[-1])
        outputs += [at.choose(which, [x, y], mode=mode) for which in (a, known)]
        outputs += [at.choose(a, z[:, 0], mode=mode), at.choose(a[:, None], z, mode=mode)]
        outputs += [at.choose(a, [x + 1], mode=mode)] if mode != "raise" else []
    assert_agrees(inputs, outputs, args)


def test_gradients_of_choices():
    a, x, y = at.lvector("a"), at.vector("x"), at.vector("y")
    f = jaxprgen.compile([a, x, y], (at.choose(a, [x, y**2]) ** 2).sum())
    dx, dy = jax.grad(f, (1, 2))(np.array([0, 1, 0]), ramp(3), ramp(3))
    np.testing.assert_array_equal(dx, [2, 0, 6])
    np.testing.assert_array_equal(dy, [0, 32, 0])


@pytest.mark.parametrize("number", [2, -1])
def test_a_choice_that_does_not_exist(number):
    """An IndexError, for it is an index; NumPy's is a ValueError."""
    a, x, y = at.lvector("a"), at.vector("x"), at.vector("y")
    message = f"Choice {number} is out of bounds for 2 choices"
    with pytest.raises(IndexOutOfBoundsError, match=message):
        jaxprgen.compile([x, y], at.choose([0, number, 1], [x, y]))(ramp(3), ramp(3))
    calls = ([np.array([0, n, 1]), ramp(3), ramp(3)] for n in (1, number))
    right, wrong = failures([a, x, y], at.choose(a, [x, y]), *calls)
    assert right is None
    assert "There are 2 arrays to choose from, and none has the number" in wrong


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
def test_numbers_are_added_to_booleans_as_such(dtype):
    x, y, i = at.matrix(dtype="bool"), at.vector(dtype=dtype), at.lvector("i")
    a = np.array([[True, True, True], [False, False, False]])
    b = np.array([0, 1, -1]).astype(dtype)
    outputs = [at.inc_subtensor(x[i], y), at.inc_subtensor(x[:, i], y[: i.size])]
    assert_agrees([x, y, i], outputs, [a, b, np.array([1, 0])])


def test_large_unsigned_indices_wrap():
    x, i = at.dmatrix("x"), at.vector("i", dtype="uint64")
    a, b = np.arange(6.0).reshape(3, 2), np.array([2**64 - 1, 0, 2**64 - 3], "uint64")
    outputs = [x[:, i[:2]], at.inc_subtensor(x.T[:, i], 1), x.T[:, at.constant(b)]]
    assert_agrees([x, i], outputs, [a, b])


# --- Indices that count -------------------------------------------------------------------


@pytest.mark.parametrize("n", [5, 1500])  # Aesara's ranges are folded, or emitted.
def test_positions_along_an_axis_pair_it_with_one_of_the_index(n):
    """Then XLA knows that each row is read from itself, and leaves rows where they are."""
    y = at.lvector("y")
    rows, pair = at.arange(y.shape[0]), np.arange(2)
    cases = [
        ((n, 4), (rows, y), {0: 0}),
        ((4, n), (y, rows), {1: 0}),
        ((n, 4), (rows[:, None], y[:, None] + pair), {0: 0}),
        ((4, n), (y[None, :], rows.reshape((1, -1))), {1: 1}),
        ((4, 3, n), (y, slice(None), rows), {2: 0}),
        ((n, 2, 4), (rows, 1, y), {0: 0}),
        ((2, n, 3, 4), (slice(None), rows, slice(1, None), y), {1: 0}),
        ((n, 4), (rows, y % 1), {0: 0}),
        ((n + 1, 4), (rows, y), {}),
        ((n, 4), (rows * 1 + 0 * y, y), {}),
    ]
    inputs, args, outputs = [y], [np.arange(n) * 3 % 4 - 1], []
    for shape, index, _ in cases:
        inputs.append(at.tensor("float64", shape=[None] * len(shape)))
        args.append(ramp(*shape))
        part = inputs[-1][index]
        outputs += [part, at.set_subtensor(part, -1.0), at.inc_subtensor(part, part)]
    f = assert_agrees(inputs, outputs, args)
    found = [e for e in f.jaxpr(*args).jaxpr.eqns if e.primitive.name in WITH_INDICES]
    expected = [paired for _, _, paired in cases for _ in range(3)]
    assert [pairs(e) for e in found] == expected


WITH_INDICES = "gather", "scatter", "scatter-add"


def pairs(eqn):
    numbers = eqn.params["dimension_numbers"]
    along = "start_indices_batching_dims", "scatter_indices_batching_dims"
    of_index = next(getattr(numbers, name) for name in along if hasattr(numbers, name))
    return dict(zip(numbers.operand_batching_dims, of_index, strict=True))


def test_positions_along_one_axis_pair_only_one():
    x, y = at.tensor3("x"), at.lvector("y")
    rows, args = at.arange(y.shape[0]), [ramp(3, 3, 2), np.array([1, 0, 1])]
    f = assert_agrees([x, y], [x[rows, rows, y], x[y, y, rows % 2], x[rows, rows]], args)
    found = [e for e in f.jaxpr(*args).jaxpr.eqns if e.primitive.name == "gather"]
    assert [pairs(e) for e in found] == [{0: 0}, {}, {}]
