"""Programs like those in reports of users of Aesara, Theano, aeppl and PyMC.

Each is written for this table. Where it names issues of a library, their programs had a wrong
value, a wrong gradient or an error, in that library or in its JAX mode. The others are of kinds
that its users ask about.
"""

from __future__ import annotations

import aesara
import aesara.sparse as sparse
import aesara.tensor as at
import aesara.typed_list as tl
import jax
import numpy as np
import pytest
import scipy.special
import scipy.stats
from aesara.compile.builders import OpFromGraph
from aesara.compile.mode import Mode
from aesara.ifelse import ifelse
from aesara.scan.utils import until
from aesara.sparse.basic import CSM
from aesara.tensor import slinalg
from aesara.tensor.special import softmax
from laws import assert_agrees, assert_same, reference
from looping import scan
from profiles import amount
from reports import WAYS, assert_derivatives_of_squares, made, recorded

import jaxprgen
from jaxprgen.errors import IndexOutOfBoundsError

# Positions that only the running program knows.
pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")

RNG = np.random.default_rng(52)
SERIES = np.cumsum(RNG.normal(size=9)) * 0.4
POINTS = RNG.normal(size=(7, 2))
OUTCOMES = POINTS @ [1.0, -0.5] + 0.1 * RNG.normal(size=7)

a, b, c = at.dscalars("a", "b", "c")
x, y, z = at.dvectors("x", "y", "z")
X, Y = at.dmatrices("X", "Y")
T = at.dtensor3("T")
n, i, k = at.lscalar("n"), at.lvector("i"), at.lvector("k")
m = at.bvector("m") > 0

CASES = {}
"""Functions that return inputs, outputs and arguments, and the way to differentiate them."""


def reported(report, gradient="both"):
    """Add a program like that of a report; ``gradient`` is one of `reports.WAYS` or empty."""
    return recorded(CASES, report, gradient)


# --- Loops -----------------------------------------------------------------------------------


@reported("Theano 2594: an IndexError by the gradient")
def two_states_with_two_taps():
    def step(old_x, last_x, old_y, last_y):
        return last_x + 0.5 * old_y, at.sin(last_y) * old_x

    starts = [{"initial": v, "taps": [-2, -1]} for v in (x, y)]
    found = scan(step, outputs_info=starts, n_steps=4)
    return [x, y], [found[0][-1] * found[1][-2], *found], [[0.3, -0.8], [1.1, 0.4]]


@reported("Theano 3276: no iteration over the rest of a row")
def a_loop_that_starts_with_its_first_row_in_a_loop():
    def along(rows, w):
        return scan(lambda r, h, w: at.dot(h, w) + r, rows[1:], rows[0], w)[-1]

    out = scan(along, T, None, X)
    return [T, X], [out, at.tanh(out).sum()], [POINTS[:6].reshape(3, 2, 2), POINTS[:2]]


@reported("Theano 5439: the gradient of the last rows, not of the first", "forward")
def a_loop_that_ends_early():
    def step(t, x):
        return x[t] * x[t], until(x[t] > 0.6)

    out = scan(step, at.arange(x.shape[0]), None, x)
    return [x], out.sum() * out[-1], [[0.2, -0.4, 0.9, 3.0, 5.0]]


@reported("Theano 2619: an IndexError by the gradient")
def a_loop_over_a_loop_of_softmax():
    labels = at.lmatrix("labels")
    chances = scan(lambda r, w: softmax(at.dot(r, w), axis=-1), T, None, X)
    costs = scan(lambda p, t: -at.log(p[at.arange(2), t]).mean(), [chances, labels], None)
    return (
        [T, X, labels],
        costs.mean(),
        [POINTS[:6].reshape(3, 2, 2), POINTS[2:4], [[0, 1], [1, 1], [0, 0]]],
    )


@reported("PyMC 5989: a JAX sampler refuses the slices")
def adstock_by_rows_of_growing_shifts():
    def shifted(t, x):
        return at.concatenate([at.zeros(t), x[: x.shape[0] - t]])

    rows = scan(shifted, at.arange(4), None, x)
    weights = at.as_tensor_variable([at.power(a, t) for t in range(4)])
    return [x, a], at.dot(weights, rows), [SERIES, 0.4]


@reported("Theano 5224: types of a state with one unit")
def a_recurrent_layer_of_one_unit():
    def step(r, h, w, u):
        gate = at.sigmoid(at.dot(r, w) + h * u)
        return gate * h + (1 - gate) * at.tanh(at.dot(r, w))

    start = at.zeros((T.shape[1], X.shape[1]))
    return (
        [T, X, a],
        scan(step, T, start, [X, a])[-1],
        [POINTS[:6].reshape(3, 2, 2), POINTS[:2, :1], 0.5],
    )


@reported("Aesara 512: a loop in the gradient of an Op", "pullback")
def a_gradient_that_is_a_loop():
    def pullback(inputs, outputs, grads):
        # The derivative of x**4: 4 * x**3.
        return [
            4
            * grads[0]
            * scan(lambda p, v: p * v, None, at.ones_like(inputs[0]), inputs[0], n_steps=3)[-1]
        ]

    op = OpFromGraph([a], [a**4], lop_overrides=pullback)
    return [a], [op(a * 2), aesara.grad(op(a * 2), a)], [0.3]


@reported("Theano 6633: a state is written into by position")
def a_state_that_is_written_row_by_row():
    def step(t, state, x):
        return at.set_subtensor(state[t + 1], at.tanh(state[t] + x[t]) * state[t - 1])

    return [x], scan(step, at.arange(4), at.ones(6), x)[-1], [SERIES]


@reported("derivatives by all inputs of a loop", "")
def the_jacobian_of_a_loop():
    out = scan(lambda r, s, k: at.sin(s) * k + r, x, a, b)
    return [x, a, b], aesara.gradient.jacobian(out, [x, a, b]), [SERIES[:4], 0.3, 0.8]


# --- Time series -------------------------------------------------------------------------------


@reported("PyMC 5261, 6718: time series by JAX")
def a_level_with_gaps_by_a_kalman_filter():
    seen = at.lvector("seen")

    def step(t, is_seen, mean, var, q, r):
        var = var + q
        gain = var / (var + r)
        error = t - mean
        density = -0.5 * (at.log(2 * np.pi * (var + r)) + error**2 / (var + r))
        return (
            at.switch(is_seen, mean + gain * error, mean),
            at.switch(is_seen, (1 - gain) * var, var),
            at.switch(is_seen, density, 0.0),
        )

    start = [at.constant(0.0, dtype="float64"), at.constant(10.0, dtype="float64"), None]
    *_, terms = scan(step, [x, seen], start, [at.exp(a), at.exp(b)])
    return [x, seen, a, b], terms.sum(), [SERIES, [1, 1, 0, 1, 0, 0, 1, 1, 1], -1.0, -0.5]


# --- Indices -----------------------------------------------------------------------------------


@reported("Aesara 105: the gradient of writing by a mask")
def writing_numbers_where_a_comparison_is_true():
    written = at.set_subtensor(x[x < 0], 0.0)
    more = at.inc_subtensor(written[x > 0.5], a)
    return [x, a], [more, at.square(more).sum()], [SERIES, 0.7]


@reported("Theano 6207: a mask, an ellipsis and a number")
def a_known_mask_with_an_ellipsis():
    mask = np.array([True, False, True])
    return (
        [T],
        [T[mask, ..., 1], T[mask, None, :, 0], T[..., mask[:2]]],
        [RNG.normal(size=(3, 4, 2))],
    )


# --- Graphs in graphs --------------------------------------------------------------------------


@reported("Theano 5685, 5255: gradients of their own", "")
def a_gradient_that_is_clipped_in_a_loop():
    def pullback(inputs, outputs, grads):
        return [at.clip(grads[0], -0.5, 0.5)]

    clipped = OpFromGraph([a], [a * 1.0], lop_overrides=pullback)
    out = scan(lambda r, s: clipped(s * 2) + r, x, a)
    return [x, a], [out, *aesara.grad(out[-1], [x, a])], [SERIES[:4], 0.2]


@reported("PyTensor 652: graphs in a model with a gradient")
def derivatives_through_graphs_in_graphs():
    inner = OpFromGraph([x, a], [at.sin(x * a).sum(), x * a], inline=True)
    total, parts = inner(x**2, a)
    outer = OpFromGraph([x, a], [total * parts])
    slopes = aesara.grad(outer(x, a).sum(), [x, a])
    return [x, a], slopes, [SERIES[:3], 0.6]


# --- Branches ----------------------------------------------------------------------------------


@reported("Theano 4918: the branch that is not taken overflows")
def a_branch_that_would_overflow():
    return [a], ifelse(a > 0, a + 1, at.exp(at.exp(-a))), [1000.0]


# --- Sparse matrices and lists -------------------------------------------------------------------

ROWS, COLUMNS = np.array([1, 0, 2, 1], np.int32), np.array([0, 2, 3, 4], np.int32)


def of_entries(data, kind="csr"):
    """A sparse matrix of 3 rows or columns."""
    shape = np.array([3, 3], np.int32)
    return CSM(kind)(data, at.constant(ROWS), at.constant(COLUMNS), at.constant(shape))


ENTRIES = np.array([0.5, -1.0, 2.0, 0.25])


@reported("Theano 3615: zeros that are not stored have gradients")
def a_sparse_matrix_made_dense():
    dense = sparse.dense_from_sparse(of_entries(x, "csc"))
    return [x, X], at.dot(dense * 2 + 1, X).sum(axis=1) ** 2, [ENTRIES, POINTS[:3]]


@reported("batches of unequal lengths")
def a_list_of_vectors_of_unequal_lengths():
    batches = tl.append(tl.append(tl.make_list([x, y]), x[1:] * a), y)
    found = tl.reverse(tl.insert(batches, at.constant(1, dtype="int64"), z))
    total = sum(at.square(found[t]).sum() * (t + 1) for t in range(5))
    return [x, y, z, a], [total, tl.length(found) * a], [SERIES[:3], SERIES[3:5], SERIES[:1], 0.5]


# --- Linear algebra ------------------------------------------------------------------------------


def kernel(X, log_scale, log_length):
    apart = at.square(X[:, None] - X[None]).sum(axis=2)
    return at.exp(2 * log_scale) * at.exp(-apart / 2 * at.exp(-2 * log_length))


# --- Mixtures, censoring, missing values ---------------------------------------------------------


def log_normal(v, mu, sd):
    return -at.square((v - mu) / sd) / 2 - at.log(sd) - np.log(2 * np.pi) / 2


@reported("aeppl 19: weights that are zero")
def a_mixture_with_a_weight_of_zero():
    terms = at.stack(
        [at.log(at.as_tensor([0.0, 0.4, 0.6]))[j] + log_normal(y, x[j], 0.5) for j in range(3)]
    )
    return [x, y], at.logsumexp(terms, axis=0), [[0.0, 0.5, -1.0], SERIES[:4]]


@reported("aeppl 22, PyMC 1833: values that are cut off")
def a_regression_of_censored_outcomes():
    mu, y = at.dot(X, x), np.clip(OUTCOMES, 0.2, 1.0)
    below = at.log(at.erfc((mu - 0.2) / np.sqrt(2.0)) / 2)
    above = at.log(at.erfc((1.0 - mu) / np.sqrt(2.0)) / 2)
    terms = at.switch(y <= 0.2, below, at.switch(y >= 1.0, above, log_normal(y, mu, 1.0)))
    return [X, x], terms.sum(), [POINTS, [0.8, -0.4]]


@reported("PyMC 240, 1254: values that are missing")
def values_filled_in_for_those_missing():
    gaps = np.array([1, 4, 5])
    filled = at.set_subtensor(y[gaps], x)
    other = np.setdiff1d(np.arange(7), gaps)
    cov = kernel(X, 0.0, 0.0) + 0.3 * at.eye(7)
    known = cov[np.ix_(other, other)]
    guess = at.dot(cov[np.ix_(gaps, other)], slinalg.solve(known, y[other]))
    return (
        [X, x, y],
        [log_normal(filled, 0.2, 1.0).sum(), guess],
        [POINTS, [0.1, 0.2, 0.3], OUTCOMES],
    )


# --- Splines and differential equations ----------------------------------------------------------


@reported("PyTensor 1420: a basis of splines")
def a_basis_of_splines_by_recursion():
    knots = at.concatenate(
        [at.zeros(3), at.extra_ops.cumsum(at.exp(x) / at.exp(x).sum())[:-1], at.ones(3)]
    )
    points = np.linspace(0.05, 0.95, 5)
    rows = [at.cast((knots[t] <= points) & (points < knots[t + 1]), "float64") for t in range(7)]

    def ratio(up, down):
        return at.switch(at.eq(down, 0), 0.0, up / at.switch(at.eq(down, 0), 1.0, down))

    for d in (1, 2):
        rows = [
            ratio(points - knots[t], knots[t + d] - knots[t]) * rows[t]
            + ratio(knots[t + d + 1] - points, knots[t + d + 1] - knots[t + 1]) * rows[t + 1]
            for t in range(len(rows) - 1)
        ]
    return [x], at.stack(rows), [[0.1, 0.4, -0.2]]


def lotka_volterra(state, p):
    hares, lynxes = state[0], state[1]
    return at.stack([hares * (p[0] - p[1] * lynxes), lynxes * (p[2] * hares - p[3])])


@reported("PyMC 3590: differential equations and their sensitivities")
def predators_and_prey_by_runge_kutta():
    def step(s, p):
        k1 = lotka_volterra(s, p)
        k2 = lotka_volterra(s + 0.05 * k1, p)
        k3 = lotka_volterra(s + 0.05 * k2, p)
        return s + 0.1 * (k1 + 2 * k2 + 2 * k3 + lotka_volterra(s + 0.1 * k3, p)) / 6

    path = scan(step, None, x, at.exp(y), n_steps=20)
    return [x, y], at.log(path)[4::5], [[2.0, 1.0], [-0.5, -0.3, -1.0, -0.2]]


# --- The laws -----------------------------------------------------------------------------------


SLOW = ("a_basis_of_splines_by_recursion", "predators_and_prey_by_runge_kutta")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.deep] * (name in SLOW)) for name in CASES]
)
def test_values_and_derivatives_are_those_of_python(name):
    """By a compiled function and by the mode; derivatives are those of central differences."""
    build, gradient = CASES[name]
    inputs, outputs, args = made(build)
    f = assert_agrees(inputs, outputs, args, rtol=1e-10)
    by_mode = aesara.function(inputs, outputs, mode="JAXPR")(*args)
    for ours, theirs in zip(by_mode, reference(inputs, outputs, args), strict=True):
        assert_same(ours, theirs, rtol=1e-10)
    if gradient:

        def python(*args):
            return reference(inputs, outputs, args)

        assert_derivatives_of_squares(f, python, inputs, args, WAYS[gradient])


# --- Functions with updates and givens -----------------------------------------------------------

SESSIONS = {}
"""Functions that return new options of `aesara.function`, what to call it with, and the state."""
PYTHON = Mode("vm", None)
"""Lazy, unlike the linker "py"; without a compiler it runs in Python as well."""


def session(report):
    """Add a function with state like that of a report."""
    return recorded(SESSIONS, report)


@session("Theano 2955: the branch of the start was executed")
def a_state_that_is_empty_at_first():
    held, is_set = aesara.shared(np.zeros(0)), aesara.shared(0.0)
    new = ifelse(is_set, x + held, x)
    options = {
        "inputs": [x],
        "outputs": new.sum(),
        "updates": [(held, new), (is_set, at.constant(1.0, dtype="float64"))],
    }
    return options, [([1.0, 2.0, 3.0],), ([0.5, 0.5, 0.5],), ([1.0, 0.0, 0.0],)], [held, is_set]


@session("Theano 1213: data by givens")
def batches_by_givens_with_momentum():
    points, outcomes = aesara.shared(POINTS), aesara.shared(OUTCOMES)
    w, v = aesara.shared(np.zeros(2)), aesara.shared(np.zeros(2))
    cost = at.square(at.dot(X, w) - y).mean()
    speed = 0.9 * v - 0.1 * aesara.grad(cost, w)
    part = slice(n * 3, (n + 1) * 3)
    options = {
        "inputs": [n],
        "outputs": cost,
        "updates": [(v, speed), (w, w + speed)],
        "givens": {X: points[part], y: outcomes[part]},
    }
    return options, [(0,), (1,), (0,)], [w, v]


@session("a last batch that is shorter")
def batches_of_which_the_last_is_shorter():
    held, total = aesara.shared(SERIES), aesara.shared(0.0)
    part = held[n * 4 : (n + 1) * 4]
    options = {"inputs": [n], "outputs": part.mean(), "updates": {total: total + part.sum()}}
    return options, [(0,), (1,), (2,)], [total]


@session("statistics that a given replaces")
def a_given_of_a_shared_variable_that_is_updated():
    mean = aesara.shared(np.zeros(2))
    now = X.mean(axis=0)
    options = {
        "inputs": [X],
        "outputs": X - mean,
        "givens": {mean: now},
        "updates": {mean: 0.9 * mean + 0.1 * now},
    }
    return options, [(POINTS,), (POINTS[:3],)], [mean]


SHORTER = pytest.mark.xfail(
    raises=IndexOutOfBoundsError,
    strict=True,
    reason="Slices of one length at a traced place are one program, which shortens none of them.",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=SHORTER if name == "batches_of_which_the_last_is_shorter" else ())
        for name in SESSIONS
    ],
)
def test_functions_with_state_are_as_in_python(name):
    def run(make):
        options, calls, state = SESSIONS[name]()
        f = make(**options)
        found = [f(*map(np.asarray, args)) for args in calls]
        return jax.tree.leaves([*found, [v.get_value() for v in state]])

    theirs = run(lambda **options: aesara.function(**options, mode=PYTHON))
    for make in (lambda **options: aesara.function(**options, mode="JAXPR"), jaxprgen.function):
        for ours, other in zip(run(make), theirs, strict=True):
            np.testing.assert_allclose(ours, other, rtol=1e-12)


# --- Draws ---------------------------------------------------------------------------------------

DRAWS = {}
"""Functions of a stream that return a variable and its mean."""


def drawn(report):
    """Add a random variable like that of a report."""
    return recorded(DRAWS, report)


@drawn("Aesara 579: draws of a state that goes on")
def states_of_a_hidden_chain(stream):
    table = np.array([[0.9, 0.1], [0.3, 0.7]])
    mus = np.array([-1.0, 2.0])

    def step(state):
        state = stream.categorical(at.constant(table)[state])
        return state, stream.normal(at.constant(mus)[state], 0.5)

    (_, values), _ = aesara.scan(
        step, outputs_info=[at.constant(0, dtype="int64"), None], n_steps=3
    )
    chances = [np.linalg.matrix_power(table, t)[0] for t in (1, 2, 3)]
    return values, np.array([p @ mus for p in chances])


@drawn("Aesara 1055, 1058: a size beside parameters of size one")
def vectors_of_which_one_is_repeated(stream):
    return stream.dirichlet([[0.2, 0.3, 0.5]], size=(4, 1)), np.broadcast_to(
        [0.2, 0.3, 0.5], (4, 1, 3)
    )


@drawn("Aesara 536: a size that is a variable")
def a_size_that_follows_from_a_shape(stream):
    data = at.constant(SERIES)
    return stream.gamma(2.0, 4.0, size=(data[1:].shape[0], 2)), np.full((8, 2), 0.5)


@drawn("aeppl 19: one of several distributions")
def one_of_several_distributions(stream):
    parts = at.stack([stream.normal(1.0, 0.1, size=3), stream.exponential(3.0, size=3)])
    chosen = stream.bernoulli(0.25, size=3)
    return parts[chosen, at.arange(3)], np.full(3, 0.75 * 1 + 0.25 * 3)


@drawn("Aesara 1301: rows that are drawn, in a loop")
def rows_that_are_drawn_used_in_a_loop(stream):
    rows = at.constant(SERIES)[stream.integers(0, 9, size=5)]
    return scan(
        lambda r, s: s + r, rows, at.constant(0.0, dtype="float64")
    ), SERIES.mean() * np.arange(1, 6)


@drawn("aeppl 177: draws that are cut off by writing")
def draws_that_are_cut_off_by_writing(stream):
    v = stream.normal(size=4)
    mean = scipy.stats.norm.pdf(0.5) - scipy.stats.norm.sf(0.5) * 0.5
    # E[min(v, 0.5)] = 0.5 P(v > 0.5) + E[v; v < 0.5].
    return at.set_subtensor(v[v > 0.5], 0.5), np.full(4, -mean)


@pytest.mark.parametrize("name", DRAWS)
def test_means_of_draws(name):
    out, mean = DRAWS[name](at.random.RandomStream(52))
    f = jaxprgen.compile([], out)
    count = amount(quick=4_000, deep=200_000)
    found = np.asarray(jax.jit(jax.vmap(f))(jax.random.split(jax.random.key(0), count)))
    assert found.shape[1:] == np.shape(mean)
    error = found.std(axis=0) / np.sqrt(count)
    assert np.all(np.abs(found.mean(axis=0) - mean) < 5 * error), (found.mean(axis=0), mean)
