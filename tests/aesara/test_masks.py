"""What run-time masks select, results of a size that is given, and slices from a run-time start."""

import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.raise_op import Assert
from aesara.tensor.extra_ops import Unique
from hypothesis import assume, given, strategies as st
from laws import (
    assert_agrees,
    assert_agrees_of_every_dtype,
    assert_derivatives,
    assert_same,
    equations,
    failures,
    reference,
    without_x64,
)
from profiles import examples, sample

import jaxprgen
from jaxprgen.errors import (
    IndexOutOfBoundsError,
    InvalidGraphError,
    PrecisionWarning,
    RuntimeCheckWarning,
    ShapeMismatchError,
    StaticShapeError,
)

pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")

x, y = at.dvectors("x", "y")
X = at.dmatrix("X")
T = at.dtensor3("T")
m = at.tensor("bool", shape=(None,), name="m")
M = at.tensor("bool", shape=(None, None), name="M")
n = at.lscalar("n")
A = np.array([3.0, -1, 0.5, 2, 7, -4])
MASK = np.array([True, False, True, True, False, False])


def numbers(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape)


def mask_of(*shape):
    return np.random.default_rng(7).random(shape) < 0.5


# --- Reductions of what a mask selects ----------------------------------------------------

chain = at.exp(x[m] * y[0]) - x[m]
REDUCED = {
    "sums": [x[m].sum(), x[m].prod(), x[m].mean(), x[m].var(), x[m].std(), at.square(x[m]).sum()],
    "extrema": [x[m].max(), x[m].min(), x[m].argmax(), x[m].argmin(), at.ptp(x[m])],
    "truths": [at.any(x[m] > 2), at.all(x[m] > 0.5), at.eq(x[m], 3).sum()],
    "sizes": [x[m].shape, x[m].shape[0], x[m].size, x[m].size * 2],
    "chains": [chain.sum(), (chain * 2 + 1 / chain).mean(), at.switch(x[m] > 1, x[m], 0.0).sum()],
    "of one that is repeated": [at.ones_like(x)[m].sum(), at.fill(x[m], y[0]).sum()],
}
SEVERAL = {
    "leading": [X[m].sum(), X[m].sum(axis=0), X[m].sum(axis=1).sum(), X[m].mean(axis=0)],
    "sizes": [X[m].shape, X[m].size, X[M].size, T[M].shape],
    "with slices": [X[m, 1:].sum(axis=0), X[m, ::-1].max(axis=0), X[:4][m[:4]].sum()],
    "turned": [X[m].T.sum(axis=1), (X[m].T * X[0][:, None]).sum(), X[m][:, None].sum(axis=(0, 1))],
    "extrema": [
        X[m].max(axis=0),
        X[m].argmax(axis=0),
        X[m].min(),
        X[m].argmax(),
        X.T[:, m].argmax(),
    ],
    "an axis between": [X.T[:, m].argmax(), X.T[:, m].max(axis=1)],
    "all axes": [X[M].sum(), X[M].max(), X[M].argmax(), X[M].mean(), X[M].size],
    "two of three axes": [
        T[M].argmax(),
        T[M].sum(axis=0),
        T[M].sum(axis=1).max(),
        T[M, 1:].mean(axis=0),
    ],
    "behind a slice": [T[:, M].sum(axis=1), T[:, M].max(axis=1), T[:, m[:3]].sum(axis=(0, 1))],
}


@pytest.mark.parametrize("name", [*REDUCED, *SEVERAL])
def test_reductions(name):
    behind = name == "behind a slice"
    whole, part = (numbers(2, 3, 4), mask_of(3, 4)) if behind else (numbers(6, 3, 4), mask_of(6, 3))
    used, outputs = [x, y, X, T, m, M], REDUCED.get(name) or SEVERAL[name]
    assert_agrees(used, outputs, [A, A, numbers(6, 3), whole, MASK, part])
    assert jaxprgen.check(used, outputs).compiles


def test_every_dtype():
    def build(v, _):
        outputs = [v[m].sum(), at.inc_subtensor(v[m], v[m])]
        if "complex" not in v.dtype:
            outputs += [v[m].max(), v[m].min(), v[m].argmax()]
        return outputs + ([v[m].prod()] if v.dtype not in ("bool", "float16") else [])

    assert_agrees_of_every_dtype(build, (14,), (m, mask_of(14)), quick=31)


def test_masks_that_select_nothing_or_all():
    outputs = [x[m].sum(), x[m].prod(), x[m].size, at.any(x[m] > 0), at.all(x[m] > 0)]
    for mask in (np.zeros(6, bool), np.ones(6, bool)):
        assert_agrees([x, m], outputs, [A, mask])
    assert_agrees([x, m], outputs, [A[:0], MASK[:0]])
    with pytest.raises(ShapeMismatchError, match="needs at least one element"):
        jaxprgen.compile([x, m], x[m].max())(A[:0], MASK[:0])


def test_extrema_of_nothing_are_checked():
    with pytest.warns(RuntimeCheckWarning, match="whether a mask selects any element"):
        assert jaxprgen.compile([x, m], x[m].max())(A, ~MASK & MASK) == -np.inf
    right, wrong = failures([x, m], x[m].max(), [A, MASK], [A, ~MASK & MASK])
    assert right is None and "A mask selects no element" in wrong


def test_gradients():
    """What is not selected has no part in them, even where its own would not be finite."""
    where = at.nonzero(m)
    costs = [
        at.log(x[m] * y[0]).sum(),
        (x[m].max() - x[m].mean()) * y[1],
        at.set_subtensor(y[where], at.log(x[where])).sum(),
    ]
    assert_derivatives([x, m, y], costs, [np.where(MASK, A, 0.0), MASK, A], [x, y])


def test_in_32_bits():
    outputs = [x[m].sum(), x[m].argmax(), x[m].shape, at.set_subtensor(x[m], y), at.nonzero(x)[0]]
    with without_x64(), pytest.warns(PrecisionWarning):
        f = jaxprgen.compile([x, m, y], outputs, sizes={outputs[-1]: 6})
        found = f(A.astype("f"), MASK, A[:3].astype("f"))
    theirs = reference([x, m, y], outputs, [A, MASK, A[:3]])
    for mine, yours in zip(found, theirs, strict=True):
        assert_same(mine, yours.astype(yours.dtype.str.replace("8", "4")))


# --- Where a mask is true, as integers ----------------------------------------------------

i, (P, Q) = at.nonzero(m)[0], at.nonzero(M)
BY_INTEGERS = {
    "reading": [x[i].sum(), (x[i] * y[i]).max(), X[i].sum(axis=0), X[i].shape, x[i].argmax()],
    "of two axes": [X[P, Q].sum(), T[P, Q].max(axis=0), X[P, Q].size],
    "of numbers": [y[at.nonzero(x > 1)].sum(), x[at.nonzero(at.maximum(x, 0))].prod()],
    "themselves": [i.sum(), i.max(), at.square(P * Q).sum(), y[:, None][i, 0 * i].sum()],
    "of another length": [y[1:][i].sum(), X[at.arange(6)[i] // 2].sum(), X[Q, Q].sum()],
    "asserted": [Assert()(x[i] * 2, at.all(x[i] > 0)).sum()],
    "writing": [at.set_subtensor(x[i], y[i] + 1), at.set_subtensor(X[P, Q], X[P, Q] * 2)],
    "numbers": [
        at.set_subtensor(x[i], 1),
        at.inc_subtensor(x[i], [0.5]),
        at.set_subtensor(X[i], 0.5),
    ],
    "rows": [at.set_subtensor(X[i], X[0]), at.inc_subtensor(X[i], X[i] ** 2)],
    "mixtures": [at.set_subtensor(at.set_subtensor(x[i], y[i])[at.nonzero(~m)], 9.0)],
}


@pytest.mark.parametrize("name", BY_INTEGERS)
def test_where_a_mask_is_true(name):
    used, outputs = [x, y, X, T, m, M], BY_INTEGERS[name]
    args = [A, A + 8, numbers(6, 3), numbers(6, 3, 4), MASK, mask_of(6, 3)]
    assert_agrees(used, outputs, args)
    assert jaxprgen.check(used, outputs).compiles


def test_reading_and_writing_where_a_mask_is_true_is_choosing():
    """One element is looked up, which stands for those that are not selected."""
    f = jaxprgen.compile([x, m], at.set_subtensor(x[i], at.exp(x[i])))
    assert not {"scatter", "sort", "cumsum"} & {*equations(f, A, MASK)}
    (looked_up,) = [e for e in f.jaxpr(A, MASK).jaxpr.eqns if e.primitive.name == "gather"]
    assert looked_up.outvars[0].aval.size == 1


# --- Writing where a mask is true ---------------------------------------------------------


@examples(1, quick=0.8)
@given(st.data())
def test_writing_where_a_mask_is_true(data):
    """Over several axes, among slices, vectors for any number of places, rows and numbers.

    One value for all that is selected is written without asking how much that is.
    """
    shape = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    first = data.draw(st.integers(0, len(shape) - 1))
    count = data.draw(st.integers(1, len(shape) - first))
    mask = np.random.default_rng(data.draw(st.integers(0, 99))).random(shape[first:][:count]) < 0.5
    parts = st.sampled_from([np.s_[:], np.s_[1:], np.s_[::-1]])
    before = tuple(data.draw(parts) for _ in range(first))
    region = numbers(*shape)[(*before, mask)].shape
    whole = data.draw(st.booleans())  # Then as many values as there are places, else one for all.
    own = [
        n if (d != first or whole) and data.draw(st.booleans()) else 1 for d, n in enumerate(region)
    ]
    own[first] = region[first] if whole else 1
    own = own[data.draw(st.integers(0, first if whole else len(own))) :]
    given = at.tensor("bool", shape=[None] * count)
    v = at.tensor("float64", [None] * len(shape))
    w = at.tensor("float64", [1 if n == 1 else None for n in own])
    part = v[(*before, given)]
    outputs = [at.set_subtensor(part, w), at.inc_subtensor(part, w)]
    args = [numbers(*shape), numbers(*own), mask]
    # Aesara itself broadcasts what has no such size where it may.
    assume(not whole or own[0] != 1 or first == 0)
    f = assert_agrees([v, w, given], outputs, args)
    assert whole or "scatter" not in equations(f, *args)


def test_a_vector_of_another_length_is_checked():
    out = at.set_subtensor(x[m], y)
    with pytest.warns(RuntimeCheckWarning) as caught:
        found = jaxprgen.compile([x, m, y], out)(A, MASK, np.array([10.0, 20]))
    assert str(caught[0].message).startswith(
        "Not checked: whether m has 2 true elements, as many as there are values to write. If not, "
        "the Op raises ValueError, and this program writes the values in order, and repeats the "
        "last one if there are too few.\n"
    )
    assert_same(found, np.array([10.0, -1, 20, 20, 7, -4]))
    right, wrong = failures([x, m, y], out, [A, MASK, A[:3]], [A, MASK, A[:2]])
    assert right is None
    assert "There are 2 values to write where m is true, which has 3 true elements." in wrong


def test_gradient_through_a_vector_that_is_written():
    cost = at.exp(at.inc_subtensor(x[m], y) * 0.1).sum()
    assert_derivatives([x, m, y], cost, [A, MASK, A[:3]], [x, y])


# --- Sizes that are given -----------------------------------------------------------------

WITH_NAN = np.array([3.0, 0, 2, 3, np.nan, 2, np.nan, -1])
ROWS = np.array([[1.0, 0], [2, 1], [1, 0], [0, 0]])


def test_sizes_are_those_of_jax_numpy():
    i, j = at.nonzero(X)
    flat = at.flatnonzero(x)
    whole = Unique(True, True, True)(x)
    rows = Unique(True, True, True, axis=0)(X)
    columns = Unique(axis=1)(X)
    complex_ = Unique(True)(at.stack([x, -x]) + 1j * x)
    part, block = x[x > 0], X[X[:, 0] > 0]
    bounded = [i, flat, whole[0], rows[0], columns, complex_[0], part, block]
    outputs = [i, j, flat, *whole, *rows, columns, *complex_, part, block]
    for size in sample([4, 2, 8], 1):
        f = jaxprgen.compile([x, X], outputs, sizes=dict.fromkeys(bounded, size))
        numbers_ = np.stack([WITH_NAN, -WITH_NAN]) + 1j * WITH_NAN
        kept = ROWS[ROWS[:, 0] > 0][:size]

        @jax.jit
        def theirs(a, rows, numbers, size=size):
            return [
                *jnp.nonzero(rows, size=size),
                jnp.flatnonzero(a, size=size),
                *jnp.unique(a, True, True, True, size=size),
                *jnp.unique(rows, True, True, True, axis=0, size=size),
                jnp.unique(rows, axis=1, size=size),
                *jnp.unique(numbers, return_index=True, size=size),
                jnp.extract(a > 0, a, size=size),
            ]

        wanted = *theirs(WITH_NAN, ROWS, numbers_), np.pad(kept, [(0, size - len(kept)), (0, 0)])
        for k, (mine, yours) in enumerate(zip(jax.jit(f)(WITH_NAN, ROWS), wanted, strict=True)):
            assert_same(mine, yours, rtol=0, where=f"output {k} of size {size}")


def test_right_sizes_are_those_of_aesara():
    found = Unique(True, True, True)(X[:, 0]), Unique(True, True, True, axis=1)(X)
    outputs = [*at.nonzero(X), *found[0], *found[1], X[M]]
    mask = ROWS > 0
    theirs = reference([X, M], outputs, [ROWS, mask])
    bounded = {outputs[i]: len(theirs[i]) for i in (0, 2, 10)} | {outputs[6]: theirs[6].shape[1]}
    ours = jaxprgen.compile([X, M], outputs, sizes=bounded)(ROWS, mask)
    jax.tree.map(assert_same, list(ours), theirs)


def test_of_nothing():
    i, u, s = at.nonzero(x)[0], Unique()(x), x[m]
    for size in (0, 2):
        f = jaxprgen.compile([x, m], [i, s], sizes={i: size, s: size})
        assert_same(f(A[:0], MASK[:0])[0], np.zeros(size, int))
        assert_same(f(A[:0], MASK[:0])[1], np.zeros(size))
    assert jaxprgen.compile([x], u, sizes={u: 0})(A[:0]).shape == (0,)
    with pytest.raises(ShapeMismatchError, match="cannot be padded to size 2"):
        jaxprgen.compile([x], u, sizes={u: 2})(A[:0])


def test_what_takes_no_size():
    for variable in (x, x + 1, at.vector("foreign")):
        with pytest.raises(InvalidGraphError) as caught:
            jaxprgen.compile([x], x + 1, sizes={variable: 3})
        assert str(caught.value).endswith(
            " is not the result of nonzero, of unique or of indexing with a single mask in this "
            "graph."
        )
    i = at.nonzero(x)[0]
    with pytest.raises(InvalidGraphError, match="must be an integer >= 0, got -1"):
        jaxprgen.compile([x], i, sizes={i: -1})


def test_sizes_go_by_name_too():
    i = at.nonzero(x)[0]
    i.name = "where"
    f = jaxprgen.compile([x], i, sizes={"where": 9})
    assert_same(f(A), jaxprgen.compile([x], i, sizes={i: 9})(A))
    other = at.nonzero(x + 1)[0]
    other.name = "where"
    for outputs, name, text in (
        (i, "were", "'were' is not the result of nonzero"),
        ([i, other], "where", "2 results that take a size are named 'where'"),
    ):
        with pytest.raises(InvalidGraphError, match=text):
            jaxprgen.compile([x], outputs, sizes={name: 9})


# --- Slices from a run-time start ---------------------------------------------------------

short = at.cast(n, "int32")
WINDOWS = {
    "read": ([x[n : n + 3], x[n - 1 : n + 1], x[2 * n : 2 * (n + 1)], X[n : n + 2, n : 1 + n]], 2),
    "with an integer": ([X[n : n + 2, n], X[n, n + 1 : n + 3]], 2),
    "from the end": ([x[n : n + 2], x[n - 1 : n + 1]], -4),
    "write": (
        [
            at.set_subtensor(x[n : n + 3], 0.5),
            at.inc_subtensor(x[n : n + 2], y[:2]),
            at.set_subtensor(X[n : n + 2, 1:], X[:2, :1]),
        ],
        1,
    ),
    "in small integers": ([x[short : short + 3], x[short - 1 : short + 1]], 2),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name):
    outputs, start = WINDOWS[name]
    inputs, args = [x, y, X, n], [A, A, numbers(6, 6), start]
    f = jaxprgen.compile(inputs, outputs)
    jax.tree.map(assert_same, list(jax.jit(f)(*args)), reference(inputs, outputs, args))
    assert f.cache_info().currsize == 1
    assert jaxprgen.check(inputs, outputs).verdict.startswith("jit-able: ")


def test_equations_of_a_window():
    found = equations(jaxprgen.compile([x, n], x[n : n + 3]), A, 1)
    assert found == ["lt", "add", "select_n", "dynamic_slice"]


def test_windows_that_stick_out_are_checked():
    f = jaxprgen.compile([x, n], x[n : n + 3])
    with pytest.warns(RuntimeCheckWarning, match="whether 3 adjacent elements"):
        assert_same(f(A, 5), A[3:])
    for start, found in zip(
        range(-8, 8), failures([x, n], x[n : n + 3], *([A, k] for k in range(-8, 8))), strict=True
    ):
        is_whole = len(A[start : start + 3]) == 3
        assert (found is None) == (is_whole and start >= -6)
    with pytest.raises(IndexOutOfBoundsError, match=r"Cannot take 3 adjacent elements on axis 0"):
        f(A[:2], 0)


def test_gradient_of_a_window():
    assert_derivatives([x, n], (x[n : n + 2] ** 2).sum(), [A, 1], [x])


NO_WINDOWS = [x[n : 2 * n], x[n : n + 3 : 2], x[n:], x[n : n - 1]]


@pytest.mark.parametrize("out", NO_WINDOWS, ids=str)
def test_what_is_no_window_is_static(out):
    f = jaxprgen.compile([x, n], out)
    assert_agrees([x, n], [out], [A, 2])
    with pytest.raises(StaticShapeError, match="value of input 'n'"):
        jax.jit(f)(A, 2)
