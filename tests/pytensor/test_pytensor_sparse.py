"""Sparse matrices of PyTensor, against its Python mode."""

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("pytensor.tensor")

import pytensor
import pytensor.sparse as sparse
import pytensor.tensor as pt
from jax.experimental.sparse import BCOO, BCSR
from pytensor.sparse.linalg import block_diag

import jaxprgen

A = scipy.sparse.random(5, 4, density=0.5, format="csr", random_state=0)
B = scipy.sparse.random(5, 4, density=0.5, format="csr", random_state=1)
TALL, ROW = np.arange(12.0).reshape(4, 3), np.array([0.5, -2, 0, 3])
X, Y, v = sparse.csr_matrix("X"), sparse.csr_matrix("Y"), pt.dvector("v")

GRAPHS = {
    "sums": lambda: [sparse.sp_sum(X, axis) for axis in (None, 0, 1)],
    "products": lambda: [
        sparse.dot(X, v),
        sparse.structured_dot(X, pt.constant(TALL)),
        sparse.dot(X, Y.T),
    ],
    "elementwise": lambda: [
        sparse.dense_from_sparse(each)
        for each in (X + Y, X - Y, X * Y, sparse.structured_exp(X + Y), X.T, -X)
    ],
    "with dense": lambda: [
        X + pt.constant(A.toarray()),
        sparse.dense_from_sparse(X * pt.constant(B.toarray())),
        sparse.dense_from_sparse(sparse.mul_s_v(X, v)),
    ],
    "comparisons": lambda: [
        sparse.dense_from_sparse(f(X, Y)) for f in (sparse.eq, sparse.neq, sparse.lt, sparse.ge)
    ],
    "stacks": lambda: [
        sparse.dense_from_sparse(f([X, Y], format="csr")) for f in (sparse.hstack, sparse.vstack)
    ],
    "blocks": lambda: [
        sparse.dense_from_sparse(block_diag(X, pt.constant(TALL), X.T, format="csr"))
    ],
    "gradient": lambda: [pt.grad((sparse.structured_dot(X, v[:, None]) ** 2).sum(), v)],
}


@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
@pytest.mark.parametrize("name", GRAPHS)
def test_values(name):
    outputs = GRAPHS[name]()
    inputs, args = [X, Y, v], [A, B, ROW]
    mode = pytensor.compile.mode.Mode("py", None)
    wanted = pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")(*args)
    for x, y in zip(jaxprgen.compile(inputs, outputs)(*args), wanted, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


def test_matrices_as_arguments_and_results():
    f = jaxprgen.compile([X, v], [X.T, sparse.dot(X, v)])
    for matrix in (A, BCSR.from_scipy_sparse(A), BCOO.from_scipy_sparse(A)):
        transposed, product = f(matrix, ROW)
        np.testing.assert_allclose(transposed.todense(), A.toarray().T)
        np.testing.assert_allclose(product, A @ ROW)


def test_shared_matrices_and_mode_jaxpr():
    import jaxprgen.pytensor  # noqa: F401

    S = pytensor.shared(A, "S")
    f = pytensor.function([v], [sparse.dot(S, v), S.T], mode="JAXPR")
    for times in (1, 2):
        S.set_value(times * A)
        product, transposed = f(ROW)
        np.testing.assert_allclose(product, times * (A @ ROW))
        assert (transposed != times * A.T).nnz == 0
