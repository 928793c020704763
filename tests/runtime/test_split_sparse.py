"""Sparse matrices whose rows are split over devices: values, and what travels."""

import aesara
import aesara.sparse as sparse
import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.sparse
from aesara.sparse import basic
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import jaxprgen
from jaxprgen.errors import ArgumentTypeError, ShapeMismatchError, ShardingError, StaticShapeError

MESHES = [
    jax.make_mesh((8,), ("rows",), axis_types=(kind,))
    for kind in (AxisType.Auto, AxisType.Explicit)
]
ROWS = NamedSharding(MESHES[0], P("rows"))
X, y, beta, D = sparse.csr_matrix("X"), at.dvector("y"), at.dvector("beta"), at.dmatrix("D")
eta = sparse.structured_dot(X, beta[:, None])[:, 0]
log_density = (y * eta - at.softplus(eta)).sum() - 0.5 * (beta**2).sum()


def matrix(rows, columns=16, seed=0):
    """A matrix with empty rows, entries of one position and stored zeros."""
    draw = np.random.default_rng(seed)
    found = scipy.sparse.random(rows, columns, 0.3, "coo", random_state=seed)
    i, j = draw.integers(0, rows // 2, 9), draw.integers(0, columns, 9)
    i, j = np.append(found.row, [i, i]), np.append(found.col, [j, j])
    data = np.append(found.data, np.append(np.zeros(9), draw.normal(size=9)))
    order = np.argsort(i, kind="stable")
    pointers = np.append(0, np.cumsum(np.bincount(i, minlength=rows)))
    return scipy.sparse.csr_matrix((data[order], j[order], pointers), (rows, columns))


A = matrix(16)
tall, wide = np.arange(48.0).reshape(16, 3), np.arange(32.0).reshape(2, 16)
RESULTS = {
    "dot": lambda: sparse.dot(X, D),
    "transposed": lambda: sparse.dot(X.T, D),
    "from the left": lambda: sparse.dot(D.T, X),
    "sums of rows": lambda: sparse.sp_sum(X, 1),
    "sums of columns": lambda: sparse.sp_sum(X, 0),
    "sum": lambda: sparse.sp_sum(X),
    "diagonal": lambda: basic.diag(X),
    "dense": lambda: basic.dense_from_sparse(X),
    "columns scaled": lambda: sparse.dot(basic.col_scale(X, D[:, 0]), D),
    "rows scaled": lambda: sparse.dot(basic.row_scale(X, D[:, 0]), D),
    "elements": lambda: sparse.dot(basic.mul_s_d(X, at.dot(D, D.T)), D),
    "sampled": lambda: basic.dense_from_sparse(sparse.sampling_dot(D, D, X)),
    "without zeros": lambda: sparse.dot(basic.remove0(X), D),
    "added": lambda: basic.dense_from_sparse(X + X),
    "part": lambda: basic.dense_from_sparse(X[3:9, 2:]),
    "both": lambda: basic.dense_from_sparse(sparse.true_dot(X, X.T)),
}


@pytest.mark.parametrize("mesh", MESHES, ids=["auto", "explicit"])
def test_results_are_those_of_one_device(mesh):
    f = jaxprgen.compile([X, D], {name: build() for name, build in RESULTS.items()})
    split = jaxprgen.split_rows(A, NamedSharding(mesh, P("rows")))
    dense = jax.device_put(tall, NamedSharding(mesh, P()))
    ours, whole = f(split, dense), f(A, tall)
    for name in RESULTS:
        np.testing.assert_allclose(ours[name], whole[name], 1e-12, 1e-12, err_msg=name)
    np.testing.assert_allclose(ours["dense"], A.toarray(), 1e-12)
    np.testing.assert_allclose(ours["dot"], A @ tall, 1e-12)


def structured_exp(x):
    return scipy.sparse.csr_matrix((np.exp(x.data), x.indices, x.indptr), x.shape)


def test_a_result_that_is_a_matrix_and_a_derivative_by_its_entries():
    split = jaxprgen.split_rows(A, ROWS)
    found = jaxprgen.compile([X], basic.structured_exp(X))(split)
    np.testing.assert_allclose(found.todense(), structured_exp(A).toarray(), 1e-12)

    g = jaxprgen.compile([X, beta], (sparse.dot(X, beta) ** 2).sum())
    at_entries = jax.grad(lambda data: g(split._replace(data=data), tall[:, 0]))(split.data)
    assert at_entries.sharding == split.data.sharding
    is_stored = np.asarray(split.indices) < A.shape[1]
    wanted = 2 * np.repeat(A @ tall[:, 0], np.diff(A.indptr)) * tall[A.indices, 0]
    np.testing.assert_allclose(at_entries[is_stored], wanted, 1e-12)
    assert not at_entries[~is_stored].any()


@pytest.mark.compiles
@pytest.mark.parametrize("way", ["graph", "jax"])
def test_a_product_and_its_gradient_exchange_a_value_and_the_gradient(way):
    """Neither the entries nor the rows of the product travel."""
    B = matrix(8192, 50)
    split = jaxprgen.split_rows(B, ROWS)
    args = split, jax.ShapeDtypeStruct((8192,), float, sharding=ROWS), np.ones(50)
    if way == "graph":
        outputs = [log_density, aesara.grad(log_density, beta)]
        report = jaxprgen.compile([X, y, beta], outputs).report(*args)
        found, temporary = report.collectives, report.temporary_bytes
    else:
        f = jaxprgen.compile([X, y, beta], log_density)
        program = jax.jit(jax.value_and_grad(f, 2)).lower(*args).compile()
        found = jaxprgen.inspect.collectives(program)
        temporary = program.memory_analysis().temp_size_in_bytes
    assert {x.kind for x in found} == {"all-reduce"}
    assert sum(x.nbytes for x in found) == 8 * (50 + 1)
    assert temporary <= 3 * 12 * B.nnz / 8  # Of each device, beside three times its own entries.


@pytest.mark.compiles
def test_parts_meet_only_the_rows_of_their_device():
    E, r = at.dmatrix("E"), at.dvector("r")
    factors = [
        basic.col_scale(X, D[:, 0]),
        basic.row_scale(X, r),
        basic.remove0(-X),
        basic.mul_s_d(X, at.dot(E, D.T)),
        sparse.sampling_dot(E, D, X),
    ]
    f = jaxprgen.compile([X, D, E, r], [*(sparse.dot(x, D) for x in factors), sparse.sp_sum(X, 1)])
    split = jaxprgen.split_rows(matrix(512, 50), ROWS)
    shapes = {(512, 3): ROWS, (512,): ROWS, (50, 3): NamedSharding(MESHES[0], P())}
    types = {shape: jax.ShapeDtypeStruct(shape, float, sharding=s) for shape, s in shapes.items()}
    assert f.report(split, types[50, 3], types[512, 3], types[512,]).collectives == ()


def test_parts_of_different_sizes_are_padded():
    uneven = scipy.sparse.csr_matrix(np.tril(np.ones((16, 16))))
    split = jaxprgen.split_rows(uneven, ROWS)
    assert {shard.data.shape for shard in split.data.addressable_shards} == {(31,)}
    f = jaxprgen.compile([X, beta], sparse.dot(X, beta))
    np.testing.assert_allclose(f(split, tall[:, 0]), uneven @ tall[:, 0])
    empty = jaxprgen.split_rows(scipy.sparse.csr_matrix((16, 16)), ROWS)
    np.testing.assert_allclose(f(empty, tall[:, 0]), np.zeros(16))


def test_mistakes():
    with pytest.raises(ShardingError, match="8 does not divide 12, the size along axis 0"):
        jaxprgen.split_rows(scipy.sparse.csr_matrix((12, 3)), ROWS)
    with pytest.raises(ShardingError, match="split_rows splits rows alone"):
        jaxprgen.split_rows(A, NamedSharding(MESHES[0], P(None, "rows")))
    with pytest.raises(ArgumentTypeError) as caught:
        jaxprgen.split_rows(np.eye(8), ROWS)
    assert "Pass one, such as scipy.sparse.csr_matrix(x)." in str(caught.value)
    Z = sparse.csc_matrix("Z")
    split = jaxprgen.split_rows(A, ROWS)
    with pytest.raises(ArgumentTypeError) as caught:
        jaxprgen.compile([Z], sparse.sp_sum(Z))(split)
    assert "argument is split by rows.\nDeclare the input in the format csr." in str(caught.value)
    with pytest.raises(StaticShapeError, match="split over devices, and how many"):
        jaxprgen.compile([X], basic.csm_data(X))(split)
    with pytest.raises(ShapeMismatchError):
        jaxprgen.compile([X], sparse.sp_sum(X))(split._replace(indptr=split.indptr[:-1]))
