"""Programs like those in reports of users of PyTensor: values and gradients.

Each is written for this table. Where it names issues, their programs had a wrong value, a wrong
gradient or an error, in PyTensor or in its JAX mode.
"""

import numpy as np
import pytest
from reports import WAYS, assert_derivatives_of_squares, made, recorded

import jaxprgen

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")

import scipy.sparse  # noqa: E402
from pytensor import sparse  # noqa: E402
from pytensor.compile.mode import Mode  # noqa: E402
from pytensor.graph.replace import vectorize_graph  # noqa: E402
from pytensor.scan.utils import until  # noqa: E402

pytestmark = [
    # Positions that only the running program knows.
    pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning"),
    # PyTensor 3.0 folds constants by Numba.
    pytest.mark.filterwarnings("ignore:np.dot.. is faster on contiguous arrays"),
]

PYTHON = Mode("py", None)
RNG = np.random.default_rng(52)
SERIES = np.cumsum(RNG.normal(size=9)) * 0.4
POINTS = RNG.normal(size=(7, 2))
POSITIVE = POINTS.T @ POINTS + np.eye(2)

a, b = pt.dscalars("a", "b")
x, y = pt.dvectors("x", "y")
X, Y = pt.dmatrices("X", "Y")
T = pt.dtensor3("T")
i = pt.lvector("i")

CASES = {}
"""Functions that return inputs, outputs and arguments, and the way to differentiate them."""


def reported(report, gradient="both"):
    """Add a program like that of a report; ``gradient`` is one of `reports.WAYS` or empty."""
    return recorded(CASES, report, gradient)


def scan(step, *args, **options):
    return pytensor.scan(step, *args, return_updates=False, **options)


@reported("PyTensor 1062, 1509: positions where a condition is true")
def sums_over_positions_where_a_condition_is_true():
    (at,) = pt.where(x > 0)
    return [x], [pt.exp(x[at]).sum(), at.sum() * x[0], x[at].max()], [SERIES]


@reported("PyTensor 2303: a mask and an update of size one")
def one_number_written_where_a_mask_is_true():
    added = pt.inc_subtensor(x[x > 0], y)
    return [x, y, a], [added, pt.set_subtensor(added[added < 0], a)], [SERIES, [0.5], 2.0]


@reported("PyTensor 2297: reading along another axis than was written")
def columns_read_after_rows_were_written():
    return [X, i, a], pt.set_subtensor(X[i], X[:, i][:2] + a), [POSITIVE, [1, 0], 0.3]


@reported("PyTensor 526: products with a zero")
def a_product_with_a_zero():
    out = pt.prod(X, axis=1)
    return (
        [X],
        [out, pt.grad(pt.sqr(out + 1).sum(), X)],
        [np.array([[0.0, 2.0], [1.5, -1.0], [0.0, 0.0]])],
    )


@reported("PyTensor 651: eigenvalues")
def eigenvalues_of_a_symmetric_matrix():
    values, vectors = pt.linalg.eigh(X)
    return [X], [values, vectors**2], [POSITIVE]


@reported("PyTensor 609: solutions by a Cholesky factor")
def a_solution_by_a_factor():
    lower = pt.linalg.cholesky(X)
    return [X, y], pt.linalg.cho_solve((lower, True), y), [POSITIVE, [0.5, -1.0]]


@reported("PyTensor 1230: gradients of triangular solutions with flags")
def gradients_of_triangular_solutions_with_flags():
    cost = sum(
        (t + 1)
        * pt.sqr(pt.linalg.solve_triangular(X, y, lower=low, trans=trans, unit_diagonal=unit)).sum()
        for t, (low, trans, unit) in enumerate(
            (low, trans, unit)
            for low in (True, False)
            for trans in (0, 1)
            for unit in (True, False)
        )
    )
    return [X, y], [cost, *pt.grad(cost, [X, y])], [POSITIVE, [1.0, -1.0]]


@reported("PyTensor 1975: a loop that is differentiated twice")
def second_derivatives_of_a_loop():
    out = scan(lambda r, s, k: pt.sin(s * k) + r, x, a, b)[-1]
    first = pt.grad(out, a)
    return [x, a, b], [first, pt.grad(first, a)], [SERIES[:4], 0.3, 0.8]


@reported("PyTensor 264, 1651, 1740: gradients of several taps")
def gradients_of_taps_that_are_apart():
    out = scan(lambda r, p, q: pt.tanh(p * r) + 0.5 * q, x, [{"initial": y, "taps": [-1, -3]}])
    return [x, y], [out, *pt.grad(pt.sqr(out[1::2]).sum(), [x, y])], [SERIES, [0.1, -0.4, 0.7]]


@reported("PyTensor 265: the last row of a loop that ends early", "forward")
def the_last_row_of_a_loop_that_ends_early():
    def step(v, k):
        new = (v + k / v) / 2
        return new, until(pt.abs(new - v) < 1e-12)

    return [a], scan(step, None, pt.constant(1.0, dtype="float64"), a, n_steps=50)[-1], [2.0]


@reported("PyTensor 426: the last row of a loop with one state")
def powers_of_a_matrix_applied_to_a_vector():
    return [X, y], scan(lambda v, m: m @ v / 2, None, y, X, n_steps=4)[-1], [POSITIVE, [1.0, -0.3]]


@reported("PyTensor 1420: hinges of a spline, by a loop, for each group")
def hinges_for_each_group():
    basis = scan(lambda knot, t: pt.maximum(t - knot, 0), y, None, x).T
    groups = [basis[np.arange(9) % 3 == g] @ X[g] for g in range(3)]
    return [x, y, X], groups, [SERIES, [-0.31, 0.17], POINTS[:3]]


@reported("PyTensor 321: a sparse matrix times a vector")
def a_sparse_design():
    design = sparse.as_sparse_variable(scipy.sparse.csr_matrix(np.where(POINTS > 0, POINTS, 0)))
    return ([x], pt.log1p(pt.exp(sparse.structured_dot(design, x[:, None])[:, 0])), [[0.5, -1.0]])


@reported("PyTensor 487: batches of decompositions")
def batches_of_solutions():
    core = pt.linalg.solve(X, y, assume_a="pos") @ pt.linalg.cholesky(X)
    return (
        [T, Y],
        vectorize_graph(core, {X: T, y: Y}),
        [np.stack([POSITIVE, 2 * POSITIVE]), POINTS[:2]],
    )


@reported("a Kronecker product, a matrix exponential and blocks of matrices")
def blocks_and_exponentials():
    blocks = pt.linalg.block_diag(pt.linalg.expm(X / 4), pt.linalg.kron(X, Y))
    return [X, Y], [pt.linalg.slogdet(blocks)[1], blocks[0]], [POSITIVE, POSITIVE + np.eye(2)]


@reported("factors that pivot")
def triangular_factors_that_pivot():
    permutation, low, up = pt.linalg.lu(X)
    return [X], [low, up, permutation @ low @ up], [POINTS[:2]]


@reported("sums over indices by their names")
def products_by_einsum():
    return [T, X], pt.einsum("bij,jk,bkl->bil", T, X, T), [RNG.normal(size=(3, 2, 2)), POSITIVE]


@reported("rows that are repeated by a table")
def rows_that_are_repeated_by_a_table():
    return (
        [X, y],
        pt.repeat(X, np.array([2, 0, 1]), axis=0) * y[np.array([0, 0, 1])][:, None],
        [POINTS[:3], [0.5, 2.0]],
    )


@reported("a filter whose taps are parameters")
def a_convolution_with_weights():
    out = pt.signal.convolve1d(x, pt.special.softmax(y), mode="full")[: x.shape[0]]
    return [x, y], out, [SERIES, [0.2, -0.4, 0.1]]


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_python(name):
    inputs, outputs, args = made(CASES[name][0])
    theirs = pytensor.function(inputs, outputs, mode=PYTHON)(*args)
    for make in (jaxprgen.compile, lambda ins, outs: pytensor.function(ins, outs, mode="JAXPR")):
        for ours, other in zip(make(inputs, outputs)(*args), theirs, strict=True):
            assert (ours.shape, ours.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(ours, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, (_, way) in CASES.items() if way])
def test_derivatives_are_those_of_differences(name):
    build, gradient = CASES[name]
    inputs, outputs, args = made(build)
    python = pytensor.function(inputs, outputs, mode=PYTHON)
    f = jaxprgen.compile(inputs, outputs)
    assert_derivatives_of_squares(f, python, inputs, args, WAYS[gradient])
