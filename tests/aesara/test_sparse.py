"""Sparse matrices: every Op against Aesara's Python, and matrices as arguments and results."""

import pickle

import aesara
import aesara.sparse as sparse
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from aesara.sparse import basic
from aesara.sparse.basic import CSM, as_sparse, csm_properties, dense_from_sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental.sparse import BCOO, BCSR
from laws import assert_agrees, reference
from profiles import amount

import jaxprgen
from jaxprgen import errors

FORMATS = ("csr", "csc")
pytestmark = pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")


@st.composite
def matrices(draw, shape=(5, 4), dtype="float64", format=None):
    """Matrices with empty rows, unsorted indices, duplicates and stored zeros."""
    kind = draw(st.sampled_from(FORMATS)) if format is None else format
    size, other = shape if kind == "csr" else shape[::-1]
    rows = draw(
        st.lists(st.lists(st.integers(0, other - 1), max_size=4), min_size=size, max_size=size)
    )
    indices = np.array([i for row in rows for i in row], np.int32)
    pointers = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    numbers = st.integers(0 if dtype.startswith("u") else -3, 3)
    count = len(indices)
    data = np.array(draw(st.lists(numbers, min_size=count, max_size=count)), dtype)
    if data.dtype.kind == "f":
        data /= 2
    return getattr(scipy.sparse, f"{kind}_matrix")((data, indices, pointers), shape)


def taken_apart(values):
    """Return the inputs, the variables of the matrices and arrays made of them, and arguments."""
    inputs, variables, args = [], [], []
    for x in values:
        if scipy.sparse.issparse(x):
            arrays = [np.array(part) for part in (x.data, x.indices, x.indptr)]
            parts = [at.TensorType(part.dtype, (None,))() for part in arrays]
            variables.append(CSM(x.format)(*parts, np.array(x.shape, np.int32)))
        else:
            arrays = [np.asarray(x)]
            parts = [at.TensorType(arrays[0].dtype, (None,) * arrays[0].ndim)()]
            variables += parts
        inputs += parts
        args += arrays
    return inputs, variables, args


def check(build, *values):
    """Assert that a function of matrices and arrays is what Aesara computes in Python."""
    inputs, variables, args = taken_apart(values)
    found = build(*variables)
    outputs = [
        dense_from_sparse(v) if isinstance(v.type, sparse.SparseTensorType) else v
        for v in (found if isinstance(found, (list, tuple)) else [found])
    ]
    wanted = reference(inputs, outputs, [x.copy() for x in args])
    compiled = jaxprgen.compile(inputs, outputs)
    for x, y in zip(compiled(*args), wanted, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


MATRIX = np.arange(20.0).reshape(5, 4) / 4 - 2
ROW, COLUMN = np.array([0.5, -2, 0, 3]), np.array([1.0, -1, 0, 2, 0.25])
TALL, WIDE = np.arange(12.0).reshape(4, 3), np.arange(15.0).reshape(3, 5)
structured = sparse.structured_exp  # Of a zero it is not zero: it shows which entries are stored.

ONE = {
    "dense_from_sparse": lambda x: x,
    "transpose": lambda x: [x.T, structured(x.T), csm_properties(x.T)[2]],
    "neg": lambda x: -x,
    "cast": lambda x: basic.cast(x, "float32"),
    "sp_sum": lambda x: [sparse.sp_sum(x, axis) for axis in (None, 0, 1)],
    "csm_properties": csm_properties,
    "ensure_sorted_indices": lambda x: csm_properties(sparse.ensure_sorted_indices(x)),
    "remove0": lambda x: structured(sparse.remove0(x)),
    "structured": lambda x: structured(x),
    "minus itself": lambda x: structured(x - x),
    "shape": lambda x: x.shape,
    "slices": lambda x: [x[1:4, ::2], structured(x[3:0:-1, -3:]), x[1:3], x[4:2], x[:, 1:2]],
    "scalar": lambda x: [x[1, -2], x[4, 0]],
    "list": lambda x: basic.get_item_list(x, [3, 0, 3]),
    "two lists": lambda x: basic.get_item_2lists(x, [3, 0, 3, -1], [0, 1, 0, 2]),
    "two lists, gradient": lambda x: basic.get_item_2lists_grad(
        x, at.constant([3, 0, 3]), at.constant([0, 1, 0]), at.constant([1.0, 2.0, 3.0])
    ),
    "add_sd": lambda x: x + MATRIX,
    "mul_sd": lambda x: [x * MATRIX, x * at.constant(2.0)],
    "mul_s_v": lambda x: sparse.mul_s_v(x, at.constant(ROW)),
    "structured_add_s_v": lambda x: sparse.structured_add_s_v(x, at.constant(ROW)),
    "scale": lambda x: [
        sparse.col_scale(x, at.constant(ROW)),
        sparse.row_scale(x, at.constant(COLUMN)),
    ],
    "compare with dense": lambda x: [
        getattr(sparse, f)(x, at.constant(MATRIX)) for f in ("eq", "neq", "lt", "gt", "le", "ge")
    ],
    "dot": lambda x: [
        sparse.dot(x, at.constant(TALL)),
        sparse.dot(x, at.constant(ROW)),
        sparse.dot(at.constant(WIDE), x),
        sparse.dot(at.constant(COLUMN), x),
    ],
    "structured_dot": lambda x: sparse.structured_dot(x, at.constant(TALL)),
    "true_dot": lambda x: sparse.true_dot(x, at.constant(TALL)),
    "sampling_dot": lambda x: sparse.sampling_dot(WIDE.T, TALL, x),
    "usmm": lambda x: basic.usmm(at.constant(2.0), x, at.constant(TALL), at.constant(WIDE.T)),
}

TWO = {
    "add_ss": lambda x, y: [structured(x + y), structured(x - y)],
    "mul_ss": lambda x, y: structured(x * y),
    "compare": lambda x, y: [
        getattr(sparse, f)(x, y) for f in ("eq", "neq", "lt", "gt", "le", "ge")
    ],
    "stack": lambda x, y: [
        structured(sparse.hstack([x, y], format="csr")),
        structured(sparse.vstack([x, y], format="csc")),
    ],
    "products": lambda x, y: [
        sparse.dot(x, y.T),
        structured(sparse.true_dot(x, _as(y.T, x))),
        sparse.structured_dot(x, _as(y.T, x)),
    ],
    "list, gradient": lambda x, y: basic.get_item_list_grad(x, [3, 0, 3, 1, 1], y),
}


def _as(matrix, other):
    """Return a matrix in the format of another one."""
    make = basic.csr_from_dense if other.format == "csr" else basic.csc_from_dense
    return make(dense_from_sparse(matrix))


@pytest.mark.parametrize("name", ONE)
@given(data=st.data())
@settings(max_examples=amount(quick=2, deep=30))
def test_functions_of_a_matrix(name, data):
    check(ONE[name], data.draw(matrices()))


@pytest.mark.parametrize("name", TWO)
@given(data=st.data())
@settings(max_examples=amount(quick=2, deep=30))
def test_functions_of_two_matrices(name, data):
    format = data.draw(st.sampled_from(FORMATS))
    check(TWO[name], *(data.draw(matrices(format=format)) for _ in range(2)))


@given(x=matrices(shape=(4, 4)))
@settings(max_examples=amount(quick=2, deep=30))
def test_diagonals(x):
    check(lambda x: [sparse.diag(x), sparse.square_diagonal(sparse.diag(x))], x)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "complex128"])
@given(data=st.data())
@settings(max_examples=amount(quick=2, deep=30))
def test_dtypes(dtype, data):
    x, y = (data.draw(matrices(dtype=dtype, format="csr")) for _ in range(2))
    check(lambda x, y: [x + y, x * y, sparse.dot(x, y.T), x.T, -x, x + MATRIX], x, y)


@pytest.mark.parametrize("format", FORMATS)
def test_made_of_arrays(format):
    def build(x, values, rows, diagonal):
        make = basic.csr_from_dense if format == "csr" else basic.csc_from_dense
        listed = basic.construct_sparse_from_list(at.zeros((6, 4)), values, rows)
        return [make(x), structured(make(x)), listed, sparse.square_diagonal(diagonal)]

    check(build, MATRIX * (MATRIX > 0), WIDE[:, :4], np.array([4, 0, 2]), ROW)


@given(x=matrices())
@settings(max_examples=amount(quick=2, deep=30))
def test_gradients_that_aesara_makes(x):
    def build(x):
        data = x.owner.inputs[0]
        y = x * x + x
        costs = [
            sparse.sp_sum(sparse.structured_sigmoid(y)),
            at.sum(sparse.structured_dot(y, at.constant(TALL)) ** 2),
            at.sum(sparse.sp_sum(x, 0) ** 3),
            at.sum(dense_from_sparse(sparse.col_scale(x, at.constant(ROW))) ** 2),
        ]
        return [at.grad(cost, data) for cost in costs]

    check(build, x)


@given(x=matrices())
@settings(max_examples=amount(quick=2, deep=30))
def test_jax_differentiates_by_entries(x):
    inputs, (matrix,), args = taken_apart([x])
    f = jaxprgen.compile(inputs, at.sum(sparse.dot(matrix, at.constant(TALL)) ** 2))
    entries = x.tocoo()
    dense = jax.grad(lambda a: jnp.sum((a @ TALL) ** 2))(jnp.asarray(x.toarray()))
    wanted = dense[entries.row, entries.col]
    np.testing.assert_allclose(jax.grad(f)(*args), wanted, rtol=1e-12, atol=1e-12)


@given(x=matrices())
@settings(max_examples=amount(quick=2, deep=30))
def test_entries_of_computed_matrices(x):
    def build(x):
        data, indices, pointers, _ = csm_properties(sparse.ensure_sorted_indices(x + x))
        return [data, indices, pointers, data.sum(), structured(x + x)]

    check(build, x)
    inputs, (matrix,), args = taken_apart([x])
    data, *_ = csm_properties(matrix + matrix)
    with pytest.raises(errors.StaticShapeError, match="decide how many entries it stores"):
        jax.jit(jaxprgen.compile(inputs, data))(*args)
    stays_inside = jax.jit(jaxprgen.compile(inputs, dense_from_sparse(structured(matrix + matrix))))
    np.testing.assert_allclose(
        stays_inside(*args), np.where((x + x).toarray(), np.exp((x + x).toarray()), 0)
    )


# --- Ends ---------------------------------------------------------------------------------

X, Z, v = sparse.csr_matrix("X"), sparse.csc_matrix("Z"), at.dvector("v")
A = scipy.sparse.random(5, 4, density=0.5, format="csr", random_state=0)
product = jaxprgen.compile([X, v], sparse.dot(X, v))


@pytest.mark.parametrize(
    "matrix",
    [
        A,
        A.tocsc(),
        scipy.sparse.coo_array(A),
        BCSR.from_scipy_sparse(A),
        BCSR.fromdense(A.toarray(), nse=17),
        BCOO.from_scipy_sparse(A.tocsc()),
    ],
    ids=["csr_matrix", "csc_matrix", "coo_array", "BCSR", "padded BCSR", "BCOO"],
)
@pytest.mark.parametrize("format", FORMATS)
def test_arguments(matrix, format):
    M = X if format == "csr" else Z
    f = jaxprgen.compile([M, v], [sparse.dot(M, v), sparse.sp_sum(M, 1), sparse.sp_sum(M)])
    wanted = [A @ ROW, A.toarray().sum(1), A.sum()]
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12), f(matrix, ROW), wanted)
    np.testing.assert_allclose(f(**{"v": ROW, M.name: matrix})[0], wanted[0], rtol=1e-12)
    if not scipy.sparse.issparse(matrix):
        np.testing.assert_allclose(jax.jit(f)(matrix, ROW)[0], wanted[0], rtol=1e-12)


@pytest.mark.parametrize("wrong", [A.toarray(), None, 1.0])
def test_arguments_that_are_no_matrices(wrong):
    with pytest.raises(errors.ArgumentTypeError, match="Input 'X' is a sparse matrix"):
        product(wrong, ROW)
    with pytest.raises(errors.ArgumentCountError, match=r"main\(X, v\) takes 2 arguments"):
        product(A)


def test_results():
    f = jaxprgen.compile([X, Z], {"csr": X + X, "csc": Z + Z, "dense": sparse.dot(X, Z.T)})
    found = f(A, A)
    assert isinstance(found["csr"], BCSR)
    assert isinstance(found["csc"], BCOO)
    for each in (found, jax.jit(f)(BCSR.from_scipy_sparse(A), BCOO.from_scipy_sparse(A))):
        for format in FORMATS:
            np.testing.assert_allclose(each[format].todense(), 2 * A.toarray())


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
    big = scipy.sparse.random(10_000, 5_000, density=1e-5, format="csr", random_state=0)
    program = product.jaxpr(big, np.ones(5_000))
    sizes = [np.prod(x.aval.shape) for eqn in program.eqns for x in eqn.outvars]
    assert max(sizes) <= 10_000


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
    for times in (1, 3):
        S.set_value(times * A)
        for function in (f, g, h):
            np.testing.assert_allclose(function(ROW)[0], times * (A @ ROW))
    np.testing.assert_allclose(again(ROW)[0], A @ ROW)
    assert count.get_value() == 2


def test_mode_jaxpr_returns_scipys_matrices():
    f = aesara.function([X, Z], [X.T, Z + Z, sparse.dot(X, Z.T)], mode="JAXPR")
    transposed, doubled, _ = f(A, A.tocsc())
    assert (transposed.format, doubled.format) == ("csc", "csc")
    assert (transposed != A.T).nnz == 0
    assert (doubled != 2 * A).nnz == 0
    assert doubled.nnz == A.nnz


def test_mode_jaxpr_updates_no_matrix():
    S = aesara.shared(A, "S")
    with pytest.raises(errors.InvalidGraphError, match="'S' is a sparse matrix"):
        aesara.function([], updates={S: S + S}, mode="JAXPR")


def test_constants():
    dense = dense_from_sparse(as_sparse(A))
    steps, _ = aesara.scan(lambda x: (dense @ x)[:4], outputs_info=v, n_steps=3)
    assert_agrees([v], [dense, dense @ v, steps, sparse.dot(as_sparse(A), v)], [ROW])


def test_loops_over_a_matrix():
    steps, _ = aesara.scan(
        lambda x, m: sparse.dot(m, x)[:4], outputs_info=v, non_sequences=[X], n_steps=3
    )
    found, x = jaxprgen.compile([X, v], steps)(A, ROW), ROW
    for row in found:
        x = (A @ x)[:4]
        np.testing.assert_allclose(row, x)


def test_tools(tmp_path):
    assert "SparseDot" in str(product.report(A, ROW))
    assert jaxprgen.check([X, v], sparse.dot(X, v)).compiles
    exported = product.export(
        BCSR.tree_unflatten(
            {"shape": A.shape, "indices_sorted": True, "unique_indices": True},
            [
                jax.ShapeDtypeStruct((A.nnz,), "float64"),
                jax.ShapeDtypeStruct((A.nnz,), "int32"),
                jax.ShapeDtypeStruct((6,), "int32"),
            ],
        ),
        "f64[4]",
    )
    assert len(exported.in_avals) == 5
    values = jaxprgen.debug(product)(A, ROW)
    np.testing.assert_allclose(values, A @ ROW)


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
