"""Mistakes with sparse matrices: what the errors say of them, and what they say to do."""

import aesara
import aesara.sparse as sparse
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental.sparse import BCOO, BCSR
from laws import refusal

import jaxprgen
from jaxprgen import errors

ROW = np.array([0.5, -2, 0, 3])
X, v = sparse.csr_matrix("X"), at.dvector("v")
A = scipy.sparse.random(5, 4, density=0.5, format="csr", random_state=0)
product = jaxprgen.compile([X, v], sparse.dot(X, v))


@pytest.mark.parametrize("wrong", [A.toarray(), None, 1.0])
def test_arguments_that_are_no_matrices(wrong):
    with pytest.raises(errors.ArgumentTypeError, match="Input 'X' is a sparse matrix"):
        product(wrong, ROW)
    with pytest.raises(errors.ArgumentCountError, match=r"main\(X, v\) takes 2 arguments"):
        product(A)


TRACED = """Input '{}' is a sparse matrix in the format csr, but the argument is an array of shape \
(5, 4) that JAX traces.
Transformations of JAX make such an array of a matrix A of scipy.sparse. Pass \
jax.experimental.sparse.BCSR.from_scipy_sparse(A), or let the function that JAX transforms close \
over A."""


def test_scipys_matrices_as_arguments_of_functions_that_jax_transforms():
    S = aesara.shared(A, "S")
    of_mode = aesara.function([v], sparse.dot(S, v), mode="JAXPR").vm.jit_fn
    step = jaxprgen.function([X, v], sparse.dot(X, v))
    for name, call, args in [
        ("X", product, (A, ROW)),
        ("X", product.jaxpr, (A, ROW)),
        ("X", step, (A, ROW)),
        ("X", lambda *given: step.pure({}, *given)[0], (A, ROW)),
        ("S", lambda matrix, x: of_mode(x, matrix), (A, ROW)),
    ]:
        with pytest.raises(errors.ArgumentTypeError) as caught:
            jax.jit(call)(*args)
        assert str(caught.value) == TRACED.format(name)
    matrix = BCSR.from_scipy_sparse(A)
    np.testing.assert_allclose(jax.jit(product)(matrix, ROW), A @ ROW)
    np.testing.assert_allclose(jax.jit(lambda x: product(A, x))(ROW), A @ ROW)


@pytest.mark.parametrize(
    ("matrix", "what"),
    [
        (BCOO.fromdense(A.toarray(), n_dense=1), "a BCOO of shape (5, 4), n_dense=1"),
        (BCOO.fromdense(A.toarray(), n_batch=1), "a BCOO of shape (5, 4), n_batch=1"),
        (BCSR.fromdense(np.ones((2, 5, 4)), n_batch=1), "a BCSR of shape (2, 5, 4), n_batch=1"),
        (BCOO.fromdense(ROW), "a BCOO of shape (4,)"),
    ],
    ids=str,
)
def test_arrays_of_jax_that_are_no_matrices(matrix, what):
    assert refusal(errors.ArgumentTypeError, product, matrix, ROW) == [
        f"Input 'X' is a sparse matrix in the format csr, but the argument is {what}.",
        "Pass a matrix whose two axes are sparse, such as BCSR.fromdense(x), and map over a batch "
        "of them by jax.vmap.",
    ]


def test_a_count_of_entries_that_follows_from_values_under_a_transformation():
    f = jaxprgen.compile([X], sparse.csm_data(X + X))
    matrix = BCSR.from_scipy_sparse(A)

    def of_data(data):
        return f(BCSR((data, matrix.indices, matrix.indptr), shape=A.shape))

    for call in (jax.jit(of_data), jax.grad(lambda d: of_data(d).sum())):
        text = "\n".join(refusal(errors.StaticShapeError, call, matrix.data))
        assert "how many entries it stores. Compute with the matrix itself" in text
        assert "input 'X.data', which is a tracer" in text
        assert "in CSMProperties(result of AddSS)" in text
        assert "f = jaxprgen.compile([X], sparse.csm_data(X + X))" in text
    with pytest.raises(errors.StaticShapeError, match=r"batched by jax\.vmap"):
        jax.vmap(of_data)(jnp.stack([matrix.data, matrix.data]))


def test_updates_are_not_for_transformations():
    S = aesara.shared(A, "S")
    f = jaxprgen.function([v], sparse.dot(S, v), updates={S: S + S})
    assert "keeps S" in repr(f)
    for call in (lambda: jax.jit(f)(ROW), lambda: f.pure({}, ROW)):
        assert refusal(errors.StateError, call) == [
            "main updates S: how many entries a sparse matrix stores follows from values, so JAX "
            "cannot transform this function.",
            "Update a shared vector of the entries instead, and make the matrix of it by CSM.",
        ]


def test_the_option_shardings_names_split_rows():
    S, transpose = aesara.shared(A, "S"), X.T
    rows = jax.sharding.PartitionSpec("rows")
    call = "Pass jaxprgen.split_rows(A, sharding) as the argument: it splits the rows of A."
    for key, role, remedy in [
        (X, "input 'X'", call),
        ("X", "input 'X'", call),
        (S, "shared variable 'S'", f"Make it an input of the graph. {call}"),
        (transpose, "output", "Give the sharding to a dense result, such as a product"),
    ]:
        for make in (jaxprgen.compile, jaxprgen.function):
            with pytest.raises(errors.ShardingError) as caught:
                make([X, v], [transpose, sparse.dot(S, v)], shardings={key: rows})
            text = str(caught.value)
            assert f"shardings: {role}" in text
            assert f"is a sparse matrix, which this option cannot split.\n{remedy}" in text
