"""Sparse matrices as arguments, results, shared variables and constants; and their options."""

import pickle

import aesara
import aesara.sparse as sparse
import aesara.tensor as at
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from aesara.ifelse import ifelse
from aesara.sparse import basic
from aesara.sparse.basic import as_sparse, dense_from_sparse
from aesara.sparse.type import SparseTensorType
from aesara.tensor.shape import specify_shape
from jax.experimental.sparse import BCOO, BCSR
from laws import all_equations, assert_agrees

import jaxprgen
from jaxprgen import errors

FORMATS = ("csr", "csc")
ROW, TALL = np.array([0.5, -2, 0, 3]), np.arange(12.0).reshape(4, 3)
X, Z, v = sparse.csr_matrix("X"), sparse.csc_matrix("Z"), at.dvector("v")
A = scipy.sparse.random(5, 4, density=0.5, format="csr", random_state=0)
product = jaxprgen.compile([X, v], sparse.dot(X, v))


MATRICES = {
    "csr_matrix": A,
    "csc_matrix": A.tocsc(),
    "coo_array": scipy.sparse.coo_array(A),
    "BCSR": BCSR.from_scipy_sparse(A),
    "padded BCSR": BCSR.fromdense(A.toarray(), nse=17),
    "BCOO": BCOO.from_scipy_sparse(A.tocsc()),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("M", [X, Z], ids=FORMATS)
def test_arguments(name, M):
    matrix = MATRICES[name]
    f = jaxprgen.compile([M, v], [sparse.dot(M, v), sparse.sp_sum(M, 1), sparse.sp_sum(M)])
    wanted = [A @ ROW, A.toarray().sum(1), A.sum()]
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12), f(matrix, ROW), wanted)
    np.testing.assert_allclose(f(**{"v": ROW, M.name: matrix})[0], wanted[0], rtol=1e-12)
    if not scipy.sparse.issparse(matrix):
        np.testing.assert_allclose(jax.jit(f)(matrix, ROW)[0], wanted[0], rtol=1e-12)


def test_results():
    outputs = {"csr": X + X, "csc": Z + Z, "dense": sparse.dot(X, Z.T)}
    f = jaxprgen.compile([X, Z], outputs)
    found = f(A, A)
    assert isinstance(found["csr"], BCSR) and isinstance(found["csc"], BCOO)
    for each in (found, jax.jit(f)(BCSR.from_scipy_sparse(A), BCOO.from_scipy_sparse(A))):
        for format in FORMATS:
            np.testing.assert_allclose(each[format].todense(), 2 * A.toarray())
    # Those of mode "JAXPR" are SciPy's.
    by_mode = aesara.function([X, Z], [X.T, *outputs.values()], mode="JAXPR")
    transposed, _, doubled, _ = by_mode(A, A.tocsc())
    assert (transposed.format, doubled.format, doubled.nnz) == ("csc", "csc", A.nnz)
    assert (transposed != A.T).nnz == (doubled != 2 * A).nnz == 0


def test_transformations():
    matrix = BCSR.from_scipy_sparse(A)

    def of_data(data):
        return product(BCSR((data, matrix.indices, matrix.indptr), shape=A.shape), ROW)

    np.testing.assert_allclose(jax.grad(lambda d: of_data(d).sum())(matrix.data), ROW[A.indices])
    many = jax.vmap(of_data)(jnp.stack([matrix.data, 2 * matrix.data]))
    np.testing.assert_allclose(many, [A @ ROW, 2 * (A @ ROW)])
    columns = jax.vmap(product, (None, 1))(matrix, jnp.asarray(TALL))
    np.testing.assert_allclose(columns, (A @ TALL).T)


def test_no_dense_array():
    places = np.random.default_rng(0).integers(0, (10_000, 5_000), (500, 2)).T
    big = scipy.sparse.csr_matrix((np.ones(500), places), (10_000, 5_000))
    program = product.jaxpr(big, np.ones(5_000))
    assert max(v.aval.size for eqn in program.eqns for v in eqn.outvars) <= 10_000


def test_shared_matrices():
    S = aesara.shared(A, "S")
    outputs = [
        sparse.dot(S, v),
        *aesara.scan(lambda x: sparse.dot(S, x)[:4], outputs_info=v, n_steps=2)[:1],
    ]
    f = jaxprgen.compile([v], outputs)
    g = aesara.function([v], outputs, mode="JAXPR")
    count = aesara.shared(0.0)
    h = jaxprgen.function([v], [*outputs, S.T], updates={count: count + 1})
    again = pickle.loads(pickle.dumps(f))
    g_of_jax = g.vm.jit_fn
    for times in (1, 3):
        S.set_value(times * A)
        np.testing.assert_allclose(g_of_jax(ROW, times * A)[0], times * (A @ ROW))
        for function in (f, g, h):
            np.testing.assert_allclose(function(ROW)[0], times * (A @ ROW))
    np.testing.assert_allclose(again(ROW)[0], A @ ROW)
    assert count.get_value() == 2


def by_mode(inputs, outputs, updates):
    return aesara.function(inputs, outputs, updates=updates, mode="JAXPR")


@pytest.mark.parametrize("make", [by_mode, jaxprgen.function])
@pytest.mark.parametrize("format", FORMATS)
def test_updates(make, format):
    """The value stays one of SciPy's, with the entries that are stored and no others."""
    S, n = aesara.shared(A.asformat(format), "S"), aesara.shared(np.float64(1), "n")
    ones = as_sparse(scipy.sparse.eye(5, 4, format=format))
    f = make([v], [sparse.dot(S, v), n], updates={n: n + 1, S: S + ones})
    dense = A.toarray()
    for i in range(3):
        product, number = f(ROW)
        np.testing.assert_allclose(product, dense @ ROW)
        assert number == i + 1
        dense += np.eye(5, 4)
        found = S.get_value(borrow=True)
        assert (found.format, found.nnz) == (format, np.count_nonzero(dense))
        np.testing.assert_allclose(found.toarray(), dense)
    S.set_value(A.asformat(format))
    np.testing.assert_allclose(f(ROW)[0], A @ ROW)


def test_specified_shapes():
    S, fits = aesara.shared(A, "S"), specify_shape(X, (5, None))
    outputs = [sparse.dot(fits, v), sparse.dot(specify_shape(as_sparse(A), (5, 4)), v)]
    f = jaxprgen.function([X, v], outputs, updates={S: specify_shape(S, (5, 4)) + fits})
    for found in f(A, ROW):
        np.testing.assert_allclose(found, A @ ROW)
    np.testing.assert_allclose(S.get_value().toarray(), 2 * A.toarray())
    with pytest.raises(errors.FailedAssertionError, match=r"Got shape \(4, 5\), expected \(5, any"):
        f(A.T, TALL.ravel()[:5])


def test_format_bsr():
    """Of Aesara's Ops, the structured product alone takes it."""
    a, b = (SparseTensorType("bsr", dtype="float64")(name) for name in "ab")
    square, vector = A @ A.T, TALL.ravel()[:5]
    outputs = [a, sparse.structured_dot(a, b), sparse.structured_dot(b, v[:, None])]
    wanted = [square, square @ square, square @ vector[:, None]]
    for matrix in (square, square.tobsr((1, 5))):
        ours = jaxprgen.compile([a, b, v], outputs)(square.tobsr(), matrix, vector)
        of_mode = aesara.function([a, b, v], outputs, mode="JAXPR")
        theirs = of_mode(square.tobsr(), matrix.tobsr(), vector)
        for mine, yours, known in zip(ours[:2], theirs[:2], wanted[:2], strict=True):
            assert isinstance(mine, BCSR) and yours.format == "bsr"
            np.testing.assert_allclose(mine.todense(), known.toarray())
            np.testing.assert_allclose(yours.toarray(), known.toarray())
        np.testing.assert_allclose(ours[2], wanted[2])
    S = aesara.shared(square.tobsr(), "S")
    product = sparse.structured_dot(S, v[:, None])
    step = jaxprgen.function([v], product, updates={S: sparse.structured_dot(S, S)})
    for f in (jaxprgen.compile([v], product), step):
        np.testing.assert_allclose(f(vector), wanted[2])
    assert S.get_value(borrow=True).format == "bsr"
    np.testing.assert_allclose(S.get_value().toarray(), wanted[1].toarray())


def test_constants_loops_and_branches():
    dense, c = dense_from_sparse(as_sparse(A)), at.bscalar("c")
    constant, _ = aesara.scan(lambda x: (dense @ x)[:4], outputs_info=v, n_steps=3)
    assert_agrees([v], [dense, dense @ v, constant, sparse.dot(as_sparse(A), v)], [ROW])
    step = lambda x, m: sparse.dot(m, x)[:4]  # noqa: E731
    steps, _ = aesara.scan(step, outputs_info=v, non_sequences=[X], n_steps=3)
    chosen = sparse.dot(ifelse(c, X, X * at.constant(2.0)), v)
    f = jaxprgen.compile([X, c, v], [steps, chosen])
    for run, choice in ((f, 0), (jax.jit(f), 1)):
        rows, product = run(BCSR.from_scipy_sparse(A), np.int8(choice), ROW)
        np.testing.assert_allclose(product, (2 - choice) * (A @ ROW))
        for before, row in zip([ROW, *rows[:-1]], rows, strict=True):
            np.testing.assert_allclose(row, (A @ before)[:4])


def test_one_program_for_all_numbers_of_entries():
    (count,) = jax.export.symbolic_shape("count")
    arrays = [((count,), "float64"), ((count,), "int32"), ((6,), "int32")]
    declared = {"shape": A.shape, "indices_sorted": True, "unique_indices": True}
    spec = BCSR.tree_unflatten(declared, [jax.ShapeDtypeStruct(*each) for each in arrays])
    program = product.export(spec, "f64[4]")
    for matrix in (A, A.multiply(A > 0.5).tocsr()):
        like = np.empty((5, 4, 0), bool)
        found = program.call(matrix.data, matrix.indices, matrix.indptr, like, ROW)
        np.testing.assert_allclose(found, matrix @ ROW)


def test_options_by_variables():
    found = at.nonzero(sparse.dot(X, v))[0]
    f = jaxprgen.compile([X, v], found, sizes={found: 7})
    np.testing.assert_array_equal(f(A, ROW), np.append(np.flatnonzero(A @ ROW), [0] * 7)[:7])
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("d",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    out = sparse.dot(X, v)
    program = jaxprgen.compile([X, v], out, shardings={out: rows}).jaxpr(A, ROW)
    assert program.eqns[-1].primitive.name == "sharding_constraint"


def test_indices_out_of_bounds():
    i = at.lvector("i")
    found = basic.get_item_2lists(X, i, i)
    with pytest.warns(errors.RuntimeCheckWarning, match="every index is within axis 0 of size 5"):
        jaxprgen.compile([X, i], found)(A, np.array([0, 3]))
    checked = jaxprgen.compile([X, i], found, checks=True)
    np.testing.assert_allclose(checked(A, np.array([0, -2])), A.toarray()[[0, -2], [0, -2]])
    known = jaxprgen.compile([X], basic.get_item_2lists(X, [7], [0]))
    for n, call in ((9, lambda: checked(A, np.array([0, 9]))), (7, lambda: known(A))):
        with pytest.raises(errors.IndexOutOfBoundsError, match=f"Index {n} is out of bounds for"):
            call()


def test_known_positions_are_not_sorted_in_calls():
    alpha = at.dscalar("alpha")
    ones = basic.as_sparse(scipy.sparse.eye(5, format="csr"))
    graph = basic.as_sparse(scipy.sparse.csr_matrix(A @ A.T))
    f = jaxprgen.compile([alpha, w := at.dvector("w")], sparse.dot(ones - graph * alpha, w))
    x = np.arange(5.0)
    np.testing.assert_allclose(f(0.5, x), x - 0.5 * (A @ A.T @ x))
    assert "sort" not in {eqn.primitive.name for eqn in f.jaxpr(0.5, x).eqns}


def test_saved_functions_take_and_return_arrays(tmp_path):
    f = jaxprgen.compile([X, v], {"product": sparse.dot(X, v), "transpose": X.T})
    jaxprgen.save(tmp_path / "f.jxg", f, A, ROW)
    loaded = jaxprgen.load(tmp_path / "f.jxg")
    found = loaded(A.data, A.indices, A.indptr, np.empty((5, 4, 0), bool), ROW)
    np.testing.assert_allclose(found["product"], A @ ROW)
    arrays = found["transpose"]
    assert sorted(arrays) == ["data", "indices", "indptr", "shape"]
    shape = arrays.pop("shape").shape[:2]
    given = (arrays["data"], arrays["indices"], arrays["indptr"])
    assert (scipy.sparse.csc_matrix(given, shape) != A.T).nnz == 0


def spec(*shape, count=1_000_000):
    """The type of a large matrix."""
    arrays = [((count,), "float64"), ((count,), "int32"), ((shape[0] + 1,), "int32")]
    declared = {"shape": shape, "indices_sorted": True, "unique_indices": True}
    return BCSR.tree_unflatten(declared, [jax.ShapeDtypeStruct(*each) for each in arrays])


Y, i = sparse.csr_matrix("Y"), at.lvector("i")
TALL_ONE, WIDE_ONE = spec(100_000, 10_000), spec(10_000, 100_000)
WITHOUT = {
    "added": lambda: X + X,
    "multiplied": lambda: X * X,
    "compared": lambda: sparse.lt(X, X),
    "rows": lambda: X[[0, 2]],
    "part": lambda: X[:1000, 10:],
    "elements": lambda: X[5, 7],
    "product from the right": lambda: sparse.dot(X, sparse.dot(X.T, at.ones(100_000))),
    "stacked": lambda: sparse.vstack([X, X]),
    "gradient": lambda: aesara.grad(sparse.sp_sum(X, sparse_grad=True), X),
}


def large_arrays(program, limit=10**8):
    sizes = [v.aval.size for eqn in all_equations(program.jaxpr) for v in eqn.outvars]
    return [size for size in sizes if size > limit]


@pytest.mark.parametrize("name", WITHOUT)
def test_results_without_a_dense_array(name):
    assert not large_arrays(jaxprgen.compile([X], WITHOUT[name]()).jaxpr(TALL_ONE))


WARNED = {
    "product": (
        lambda: sparse.true_dot(X, X.T),
        *("shape (10000, 100000), 8.00 GB", "dot(X, dot(Y, v))"),
    ),
    "compared": (
        lambda: sparse.le(X, X),
        *("shape (100000, 10000), 8.00 GB", "Compare by !=, < or >"),
    ),
    "gradient": (
        lambda: aesara.grad(sparse.sp_sum(X), X),
        *("let JAX differentiate", "sparse_grad=True"),
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_a_dense_array_is_announced_once(name):
    build, *texts = WARNED[name]
    f = jaxprgen.compile([X], build())
    with pytest.warns(errors.DenseMatrixWarning) as caught:
        assert large_arrays(f.jaxpr(TALL_ONE))
        f.jaxpr(TALL_ONE)
    messages = [str(each.message) for each in caught]
    assert len(messages) == len(set(messages))
    assert "built at" in messages[0]
    assert all(text in "".join(messages) for text in texts)


def test_the_smaller_of_two_factors_is_made_dense():
    f = jaxprgen.compile([X, Y], sparse.structured_dot(X, Y))
    assert not large_arrays(f.jaxpr(spec(10, 10_000, count=50), WIDE_ONE))
