"""Sparse matrices: every Op against Aesara's Python."""

import aesara.sparse as sparse
import aesara.tensor as at
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from aesara.sparse import basic
from aesara.sparse.basic import CSM, csm_properties, dense_from_sparse
from hypothesis import given, settings, strategies as st
from jax.experimental.sparse import BCSR
from laws import reference
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


few = settings(max_examples=amount(quick=2, deep=30))


@pytest.mark.parametrize("name", [*ONE, *TWO])
@given(data=st.data())
@few
def test_functions_of_matrices(name, data):
    format = data.draw(st.sampled_from(FORMATS))
    build = ONE.get(name) or TWO[name]
    check(build, *(data.draw(matrices(format=format)) for _ in range(1 if name in ONE else 2)))


@given(x=matrices(shape=(4, 4)))
@few
def test_diagonals(x):
    check(lambda x: [sparse.diag(x), sparse.square_diagonal(sparse.diag(x))], x)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "complex128"])
@given(data=st.data())
@few
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
@few
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
@few
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


@pytest.mark.parametrize("shape", [(9, 8, 6), (6, 8, 9)], ids=["right", "left"])
def test_infinity_times_a_zero_that_is_not_stored(shape):
    """The smaller factor is made dense, but only its stored elements are factors."""
    n, m, k = shape
    x = scipy.sparse.random(n, m, 0.4, "csr", random_state=1)
    y = scipy.sparse.random(m, k, 0.4, "csr", random_state=2)
    x.data[:4], y.data[:4] = [np.inf, np.nan, 0, -np.inf], [0, np.inf, 1, np.nan]
    X, Y = sparse.csr_matrix("X"), sparse.csr_matrix("Y")
    wanted = (x @ y).toarray()
    with np.errstate(invalid="ignore"):
        dense = x.toarray() @ y.toarray()
    assert np.isnan(dense).sum() > np.isnan(wanted).sum() > 0
    products = [dense_from_sparse(op(X, Y)) for op in (sparse.true_dot, sparse.structured_dot)]
    f = jaxprgen.compile([X, Y], [sparse.dot(X, Y), *products])
    for found in f(x, y):
        np.testing.assert_array_equal(found, wanted)

    weights = np.arange(1.0, n * k + 1).reshape(n, k)

    def weighted(*data):
        pairs = zip(data, (x, y), strict=True)
        factors = (BCSR((d, each.indices, each.indptr), shape=each.shape) for d, each in pairs)
        return (f(*factors)[0] * weights).sum()

    slopes = jax.grad(weighted, (0, 1))(jnp.asarray(x.data), jnp.asarray(y.data))
    by_x, by_y = (y @ weights.T).T, x.T @ weights  # Of SciPy: entries times the weights.
    for found, wanted, each in zip(slopes, (by_x, by_y), (x, y), strict=True):
        entries = each.tocoo()
        np.testing.assert_array_equal(found, wanted[entries.row, entries.col])
