"""PyTensor's linear algebra: results and gradients are those of its Python mode."""

import jax
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, strategies as st

import jaxprgen

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")
from pytensor.compile.mode import Mode  # noqa: E402

la = pt.linalg
# PyTensor 3.0 solves Sylvester's equation by Numba, which says that a product could be faster.
pytestmark = pytest.mark.filterwarnings("ignore:.*is faster on contiguous arrays")

PYTHON = Mode("py", None)


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def regular(*shape, seed=0):
    return array(*shape, seed=seed) + 4 * np.eye(shape[-1])


def positive(*shape, seed=0):
    x = array(*shape, seed=seed)
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])


def assert_agrees(build, *arrays):
    inputs = [pt.tensor(dtype=x.dtype, shape=(None,) * x.ndim) for x in arrays]
    outputs = build(*inputs)
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    expected = pytensor.function(inputs, outputs, mode=PYTHON)(*arrays)
    found = jaxprgen.compile(inputs, outputs)(*arrays)
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10)


SQUARE = {
    "cholesky": (lambda x: la.cholesky(x), positive),
    "upper": (lambda x: la.cholesky(x, lower=False), positive),
    "inverse": (la.inv, regular),
    "pseudoinverse": (la.pinv, regular),
    "determinant": (la.det, regular),
    "slogdet": (la.slogdet, regular),
    "exponential": (lambda x: la.expm(x / 8), regular),
    "eigenvalues": (lambda x: la.eigh(x)[0], positive),
    "symmetric": (lambda x: la.eigvalsh(x, None), positive),
    "eig": (lambda x: pt.sort(pt.real(la.eig(x)[0])), positive),
    "svd": (la.svd, regular),
    "singular values": (lambda x: la.svd(x, compute_uv=False), array),
    "lu": (la.lu, array),
    "lu, indices": (lambda x: la.lu(x, p_indices=True), array),
    "lu, permuted": (lambda x: la.lu(x, permute_l=True), array),
    "lu factor": (la.lu_factor, array),
    "schur": (la.schur, array),
    "complex schur": (lambda x: la.schur(x, output="complex"), array),
}


@pytest.mark.parametrize("case", SQUARE)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3)])
def test_square_matrices(case, shape):
    build, make = SQUARE[case]
    assert_agrees(build, make(*shape))


@pytest.mark.parametrize("inverse", [False, True])
def test_pivots(inverse):
    assert_agrees(lambda x: la.pivot_to_permutation(la.lu_factor(x)[1], inverse), array(6, 6))


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from(["full", "economic", "r", "raw"]),
    st.booleans(),
)
def test_qr(rows, columns, mode, pivoting):
    pivoting = pivoting and mode in ("full", "economic")
    assert_agrees(lambda x: la.qr(x, mode=mode, pivoting=pivoting), array(rows, columns))


SYSTEMS = {
    "gen": (la.solve, regular),
    **{
        kind: (lambda a, b, b_ndim, kind=kind: la.solve(a, b, assume_a=kind, b_ndim=b_ndim), make)
        for kind, make in (
            ("sym", positive),
            ("pos", positive),
            ("tridiagonal", lambda *s: np.triu(np.tril(regular(*s), 1), -1)),
        )
    },
    "transposed": (lambda a, b, b_ndim: la.solve(a, b, transposed=True, b_ndim=b_ndim), regular),
    "lower": (lambda a, b, b_ndim: la.solve_triangular(a, b, lower=True, b_ndim=b_ndim), regular),
    "unit": (
        lambda a, b, b_ndim: la.solve_triangular(a, b, trans=1, unit_diagonal=True, b_ndim=b_ndim),
        regular,
    ),
    "cholesky": (lambda a, b, b_ndim: la.cho_solve((a, True), b, b_ndim=b_ndim), positive),
    "lu": (lambda a, b, b_ndim: la.lu_solve(la.lu_factor(a), b, b_ndim=b_ndim), regular),
}


@pytest.mark.filterwarnings("ignore:Not checked. whether every index is within")
@pytest.mark.parametrize("case", SYSTEMS)
@pytest.mark.parametrize("b_ndim", [1, 2])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_systems(case, b_ndim, batch):
    solve, make = SYSTEMS[case]
    sides = array(*batch, 3, *[2] * (b_ndim - 1))
    assert_agrees(lambda a, b: solve(a, b, b_ndim=b_ndim), make(*batch, 3, 3), sides)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 3, 3)])
def test_reflectors_with_pivoting(shape):
    """PyTensor declares a square matrix of reflectors, which they are for square matrices only."""
    qr = pytensor.tensor.blockwise.Blockwise(
        pytest.importorskip("pytensor.tensor.linalg.decomposition.qr").QR("raw", pivoting=True)
    )
    assert_agrees(qr, array(*shape))


def diagonals(n, *batch):
    return array(*batch, n - 1), array(*batch, n, seed=1), array(*batch, n - 1, seed=2)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("transposed", [False, True])
def test_tridiagonal_systems(n, batch, transposed):
    """With row swaps, and as many solutions as there are right-hand sides."""
    module = pytest.importorskip("pytensor.tensor.linalg.solvers.tridiagonal")
    factorize = pytensor.tensor.blockwise.Blockwise(module.LUFactorTridiagonal())
    below, main, above = diagonals(n, *batch)
    if n > 2:  # SciPy takes no smaller ones.
        assert_agrees(factorize, below, main, above)
    sides = array(*batch, n, 2, seed=3)
    inputs = [
        pt.tensor(dtype="float64", shape=(None,) * x.ndim) for x in (below, main, above, sides)
    ]
    factors = factorize(*inputs[:3])
    x = module.tridiagonal_lu_solve(factors, inputs[3], b_ndim=2, transposed=transposed)
    found = jaxprgen.compile(inputs, x)(below, main, above, sides)
    for where in np.ndindex(*batch):
        matrix = np.diag(main[where]) + np.diag(below[where], -1) + np.diag(above[where], 1)
        matrix = matrix.T if transposed else matrix
        np.testing.assert_allclose(found[where], np.linalg.solve(matrix, sides[where]), rtol=1e-8)


def test_jax_differentiates_tridiagonal_systems():
    module = pytest.importorskip("pytensor.tensor.linalg.solvers.tridiagonal")
    a, y = pt.dmatrix("a"), pt.dvector("y")
    x = module.tridiagonal_lu_solve(module.tridiagonal_lu_factor(a), y, b_ndim=1)
    f, values = jaxprgen.compile([a, y], x), (np.diag(array(4)) + np.eye(4, k=1), array(4))
    np.testing.assert_allclose(jax.jacobian(f, 1)(*values), np.linalg.inv(values[0]), rtol=1e-9)


EQUATIONS = {
    "sylvester": (la.solve_sylvester, regular(3, 3), regular(2, 2), array(3, 2)),
    "continuous": (la.solve_continuous_lyapunov, regular(3, 3), positive(3, 3)),
    "bilinear": (la.solve_discrete_lyapunov, array(3, 3), positive(3, 3)),
    "riccati": (
        la.solve_discrete_are,
        *(array(3, 3), array(3, 2, seed=1), positive(3, 3), positive(2, 2)),
    ),
    "rows of riccati": (
        la.solve_discrete_are,
        *(array(2, 3, 3), array(2, 3, 1), positive(2, 3, 3), positive(2, 1, 1)),
    ),
    "kronecker": (la.kron, array(2, 3), array(3, 2)),
    "blocks": (la.block_diag, array(2, 3), array(1, 2), array(2, 2)),
    "rows of blocks": (la.block_diag, array(4, 2, 3), array(4, 1, 2)),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_equations(case):
    assert_agrees(*EQUATIONS[case])


def test_jax_differentiates_the_riccati_equation():
    values = array(3, 3), array(3, 2, seed=1), positive(3, 3), positive(2, 2)
    inputs = pt.dmatrices("abqr")
    y = (la.solve_discrete_are(*inputs) * array(3, 3, seed=2)).sum()
    found = jax.grad(jaxprgen.compile(inputs, y))(*values)
    step = 1e-6 * array(3, 3, seed=3)

    def scipy_value(a):
        x = scipy.linalg.solve_discrete_are(a, *values[1:])
        return (x * array(3, 3, seed=2)).sum()

    expected = (scipy_value(values[0] + step) - scipy_value(values[0] - step)) / 2
    np.testing.assert_allclose((found * step).sum(), expected, rtol=1e-5)


GRADIENTS = {
    "cholesky": (lambda x: la.cholesky(x), positive(2, 3, 3)),
    "lu": (lambda x: la.lu(x, p_indices=True)[1], regular(3, 3)),
    "qr": (lambda x: la.qr(x, mode="economic")[1], regular(3, 3)),
    "sylvester": (lambda x: la.solve_sylvester(x, x, x), regular(3, 3)),
    "exponential": (lambda x: la.expm(x), array(3, 3)),
}


@pytest.mark.filterwarnings("ignore:Not checked. whether every index is within")
@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients(case):
    build, value = GRADIENTS[case]
    x = pt.tensor(dtype="float64", shape=value.shape)
    y = pt.sin(build(x)).sum()
    expected = pytensor.function([x], pytensor.grad(y, x), mode=PYTHON)(value)
    found = jax.grad(jaxprgen.compile([x], y))(value)
    if case == "cholesky":  # PyTensor's gradient is that of one triangle.
        found = np.tril(found) + np.swapaxes(np.triu(found, 1), -1, -2)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    ours = jaxprgen.compile([x], pytensor.grad(y, x))(value)
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-9)


@given(st.integers(1, 5), st.integers(1, 5), st.sampled_from(["full", "valid", "same"]))
def test_convolutions(n, k, mode):
    convolve = pt.signal.convolve1d
    assert_agrees(lambda x, w: convolve(x, w, mode=mode), array(n), array(k))
    assert_agrees(lambda x, w: convolve(x, w, mode=mode), array(2, n), array(2, k))


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
def test_convolutions_of_images(mode):
    convolve = pt.signal.convolve2d
    images, filters = array(2, 5, 6), array(2, 3, 2)
    assert_agrees(lambda x, w: convolve(x, w, mode=mode, method="direct"), images, filters)


def test_what_jax_has_not_is_refused():
    x = pt.dmatrix("x")
    with pytest.raises(jaxprgen.errors.UnsupportedOpError, match="does not sort eigenvalues"):
        jaxprgen.compile([x], la.schur(x, sort="lhp")[0])(array(3, 3))
