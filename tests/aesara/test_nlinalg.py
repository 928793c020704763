"""Ops of `aesara.tensor.nlinalg`: NumPy's linear algebra."""

import aesara.tensor as at
import jax
import laws
import numpy as np
import pytest
from aesara.tensor import nlinalg
from hypothesis import given, strategies as st
from laws import failures, refusal
from matrices import (
    COMPLEX,
    REAL,
    assert_agrees_on,
    assert_close,
    assert_gradient_of_differences,
    assert_same_gradient,
    few,
    noise,
    outputs_of,
    positive,
    regular,
    run,
    seeds,
    sizes,
    tensor,
)

import jaxprgen
from jaxprgen.errors import LinearAlgebraError, UnsupportedOpError

MODES = ["reduced", "complete", "r", "raw"]
shapes = st.tuples(sizes, sizes)


def square(x):
    """The Ops of one square matrix whose results are unique."""
    return [
        nlinalg.det(x),
        nlinalg.matrix_inverse(x),
        nlinalg.inv(x),
        nlinalg.pinv(x, hermitian=True),
    ]


def least(x, y, rcond=-1.0):
    return list(nlinalg.lstsq(x, y, np.float64(rcond)))


SWAPS = [(0, 1, 2), (1, 0, 2), (2, 0, 1), (2, 1, 0)]

# --- Values -------------------------------------------------------------------------------


@few
@given(shapes, st.sampled_from(REAL + COMPLEX), seeds)
def test_determinants_and_inverses(shape, dtype, seed):
    n = shape[0]
    assert_agrees_on(lambda x: square(x)[:3], regular(n, n, dtype, seed))
    assert_agrees_on(nlinalg.pinv, regular(*shape, dtype, seed))
    if n:  # NumPy returns what it is given of no elements, and that need not be a float.
        assert_agrees_on(lambda x: nlinalg.pinv(x, True), positive(n, dtype, seed))


RANK_ONE = np.outer([1.0, 2, 3], [1.0, -1])
SPECIAL = {
    **{f"sign of {order}": (nlinalg.det, [np.diag([2.0, 3, 5])[list(order)]]) for order in SWAPS},
    "deficient rank": (nlinalg.pinv, [RANK_ONE]),
    "Hermitian of deficient rank": (lambda x: nlinalg.pinv(x, True), [RANK_ONE @ RANK_ONE.T]),
    "leading axes": (nlinalg.inv, [np.stack([regular(3, seed=i) for i in range(4)])[None]]),
    # Aesara declares the dtype of the matrix, and converts what NumPy computes.
    "real parts": (lambda x: nlinalg.eig(x)[0], [np.array([[1.0, -2], [3, 1]])]),
    "small singular values": (
        lambda x, y: [least(x, y, r)[i] for r in (1e-3, 0.05, 0.5) for i in (0, 2, 3)],
        [np.diag([1.0, 0.1, 0.01]), noise((3, 2))],
    ),
    **{
        f"one right-hand side of {shape}": (least, [regular(*shape), noise(shape[0])])
        for shape in [(5, 3), (3, 3), (3, 5), (0, 3), (3, 0)]
    },
}


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("name", SPECIAL)
def test_special_matrices(name):
    make, args = SPECIAL[name]
    assert_agrees_on(make, *args)


def test_the_hermitian_pseudoinverse_reads_the_lower_triangle():
    x = np.tril(positive(4)) + np.triu(np.full((4, 4), np.nan), 1)
    ours = run(lambda x: nlinalg.pinv(x, True), x)[0]
    np.testing.assert_allclose(ours, np.linalg.inv(positive(4)), rtol=1e-10)


@few
@given(sizes, st.sampled_from(REAL), st.sampled_from("LU"), seeds)
def test_eigh(n, dtype, uplo, seed):
    """Eigenvalues agree; vectors are unique up to their signs, so they are put together again."""
    x = noise((n, n), dtype, seed)
    w, v = run(lambda x: nlinalg.eigh(x, uplo), x)
    assert_close(w, np.linalg.eigvalsh(x, uplo), dtype)
    whole = np.tril(x) + np.tril(x, -1).T if uplo == "L" else np.triu(x) + np.triu(x, 1).T
    assert_close((v * w) @ v.T, whole, dtype)
    assert_close(v.T @ v, np.eye(n), dtype)


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh_does_not_read_the_other_triangle(uplo):
    x = positive(4)
    hidden = np.triu(np.full((4, 4), np.nan), 1)
    masked = np.tril(x) + hidden if uplo == "L" else np.triu(x) + hidden.T
    assert_agrees_on(lambda x: nlinalg.eigh(x, uplo)[0], masked)


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_gradient_of_eigh(n, uplo):
    w, v = np.linalg.eigh(positive(n))
    operands = positive(n), w, v, noise(n), noise((n, n))
    assert_agrees_on(nlinalg.EighGrad(uplo), *operands)


@few
@given(sizes, st.sampled_from(REAL + COMPLEX), seeds)
def test_eig(n, dtype, seed):
    """Of a matrix with real eigenvalues, or a complex one, the parts make it up."""
    basis = regular(n, n, dtype, seed)
    x = ((basis * np.arange(1, n + 1)) @ np.linalg.inv(basis)).astype(dtype)
    w, v = run(nlinalg.eig, x)
    assert_close(np.sort_complex(w), np.arange(1, n + 1), dtype)
    assert_close(x @ v, v * w, dtype)
    assert_close(np.linalg.norm(v, axis=0), np.ones(n), dtype)


@few
@given(shapes, st.sampled_from(REAL), seeds)
def test_qr(shape, dtype, seed):
    """JAX and NumPy call the same routines of LAPACK, whose signs are the same."""
    x = noise(shape, dtype, seed)
    assert_agrees_on(
        lambda x: [y for mode in MODES for y in outputs_of(nlinalg.QRFull(mode), [x])], x
    )
    q, r = run(lambda x: nlinalg.qr(x, "reduced"), x)
    assert_close(q @ r, x, dtype)
    assert_close(q.T @ q, np.eye(min(shape)), dtype)


@few
@given(shapes, st.sampled_from(REAL), st.booleans(), seeds)
def test_svd(shape, dtype, full, seed):
    x = noise(shape, dtype, seed)
    u, s, vt = run(lambda x: nlinalg.svd(x, full), x)
    wanted = np.linalg.svd(x, full)
    assert [y.shape for y in (u, s, vt)] == [y.shape for y in wanted]
    assert_close(s, wanted[1], dtype)
    k = min(shape)
    assert_close((u[:, :k] * s) @ vt[:k], x, dtype)
    assert_close(u.T @ u, np.eye(u.shape[1]), dtype)
    assert_close(vt @ vt.T, np.eye(vt.shape[0]), dtype)
    assert_agrees_on(lambda x: nlinalg.svd(x, full, False), x)


@few
@given(shapes, st.integers(0, 3), st.sampled_from(REAL), seeds)
def test_lstsq(shape, columns, dtype, seed):
    x, y = regular(*shape, dtype, seed), noise((shape[0], columns), dtype, seed)
    for rcond in (-1.0, 0.0, 1e-3, 2.0):
        assert_agrees_on(lambda x, y, r=rcond: least(x, y, r), x, y)


def test_lstsq_of_deficient_rank():
    """NumPy has no residuals then; how many there are cannot depend on values here."""
    x, y = np.outer([1.0, 2, 3], [1.0, -1]), noise((3, 2))
    rcond = np.asarray(1e-6)
    outputs = run(lambda x, y, r: list(nlinalg.lstsq(x, y, r)), x, y, rcond)
    wanted = np.linalg.lstsq(x, y, rcond)
    for i in (0, 2, 3):
        np.testing.assert_allclose(outputs[i], wanted[i], atol=1e-12)
    assert outputs[1].shape == (2,)
    assert np.isnan(outputs[1]).all()


def test_tensors():
    a = regular(24).reshape(4, 6, 8, 3)
    assert_agrees_on(lambda a: nlinalg.tensorinv(a, 2), a)
    assert_agrees_on(lambda a: nlinalg.tensorinv(a, 1), regular(6).reshape(6, 3, 2))
    assert_agrees_on(nlinalg.tensorsolve, regular(6).reshape(6, 2, 3), noise(6))
    rows = regular(24).reshape(2, 3, 4, 6, 4)
    b = noise((2, 3, 4))
    assert_agrees_on(nlinalg.tensorsolve, rows, b)
    moved = np.moveaxis(rows, (3, 4), (0, 2))
    assert_agrees_on(lambda a, b: nlinalg.tensorsolve(a, b, (0, 2)), moved, b)


def test_a_vector_that_aesara_declares_to_be_a_matrix():
    """Other nodes compute with it as with a vector, as those of Aesara do."""
    x, y, b = regular(5, 3), noise(5), noise(3)
    functions = [
        lambda s: s + 1,
        lambda s: s * s,
        lambda s: at.exp(s).sum(),
        lambda s: s.sum(axis=0),
        lambda s: s[0],
        lambda s: s.shape,
        lambda s: s.flatten(),
        lambda s: at.concatenate([s, s]),
        lambda s: at.zeros_like(s),
        lambda s: s.reshape((3, 1)),
    ]
    assert_agrees_on(lambda x, y: [f(least(x, y)[0]) for f in functions], x, y)
    residual = lambda x, y: y - at.dot(x, least(x, y)[0])  # noqa: E731
    assert_agrees_on(residual, x, y)
    assert_agrees_on(lambda a, b: [f(nlinalg.tensorsolve(a, b)) for f in functions], regular(3), b)
    assert_agrees_on(nlinalg.tensorsolve, regular(8).reshape(2, 4, 2, 2, 2), noise((2, 4)))


# --- Dtypes -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_integers(dtype):
    """Computed as float64, and converted to what Aesara declares: often integers again."""
    x = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]]).astype(dtype)
    assert_agrees_on(nlinalg.det, x)
    assert_agrees_on(lambda x: nlinalg.eigh(x)[0], x)
    assert_agrees_on(lambda x: nlinalg.svd(x.astype("int64"), compute_uv=False), x)
    if dtype.startswith("int"):  # Of others the negative elements of the inverse are not.
        assert_agrees_on(lambda x: [nlinalg.matrix_inverse(x), nlinalg.inv(x)], x)
        assert_agrees_on(lambda x: nlinalg.qr(x), x, rtol=1e-6)


def test_float16_is_computed_as_float32():
    """NumPy does not take it."""
    x = regular(3).astype("float16")
    det, inverse, _, _, s = run(lambda x: [*square(x), nlinalg.svd(x, compute_uv=False)], x)
    np.testing.assert_allclose(det, np.linalg.det(x.astype(float)), rtol=4e-3)
    np.testing.assert_allclose(inverse, np.linalg.inv(x.astype(float)), atol=4e-3)
    np.testing.assert_allclose(s, [3, 2, 1], rtol=4e-3)


# --- What is no number --------------------------------------------------------------------


@pytest.mark.parametrize("x", [np.zeros((2, 2)), np.array([[1.0, 2], [2, 4]])], ids=str)
def test_inverses_of_singular_matrices_are_not_finite(x):
    """NumPy raises, and so do checks."""
    a = at.matrix("a")
    for op in (nlinalg.matrix_inverse, nlinalg.inv):
        assert not np.isfinite(run(op, x)[0]).any()
        regular_or_empty = np.eye(2), np.zeros((0, 0)), np.full((2, 2), np.nan)
        wrong, *right = failures([a], op(a), *([v] for v in (x, *regular_or_empty)))
        assert "The matrix is singular" in wrong
        assert right == [None] * 3
    assert_agrees_on(nlinalg.det, x)


def test_nan_makes_nan():
    x = regular(3)
    x[1, 0] = np.nan
    ops = [nlinalg.eigh, nlinalg.eig, nlinalg.qr, nlinalg.svd]
    outputs = run(lambda x: [*square(x), nlinalg.pinv(x), *(y for op in ops for y in op(x))], x)
    assert all(np.isnan(y).any() for y in outputs)
    assert_agrees_on(lambda x: square(x)[:3], np.full((3, 3), np.nan))


# --- Transformations ----------------------------------------------------------------------


def eigh_without_signs(x, uplo):
    w, v = nlinalg.eigh(x, uplo)
    return w, v**2


@pytest.mark.parametrize(
    ("make", "args"),
    [
        (nlinalg.det, [regular(4)]),
        (nlinalg.matrix_inverse, [regular(4)]),
        (nlinalg.pinv, [regular(4, 3)]),
        (nlinalg.pinv, [regular(3, 4)]),
        # Aesara's gradient of a Hermitian pseudoinverse is that of any other.
        (lambda x: nlinalg.pinv((x + x.T) / 2, True), [positive(3)]),
        (lambda x: eigh_without_signs(x, "L"), [noise((4, 4))]),
        (lambda x: eigh_without_signs(x, "U"), [noise((4, 4))]),
    ],
)
def test_derivatives_are_those_of_aesara(make, args):
    assert_same_gradient(make, *args)


@pytest.mark.parametrize(
    ("make", "args"),
    [
        (nlinalg.inv, [regular(4)]),
        (nlinalg.qr, [regular(4, 3)]),
        (lambda x: nlinalg.qr(x, "r"), [regular(4, 3)]),
        (lambda x: nlinalg.svd(x, full_matrices=False), [regular(4, 3)]),
        (lambda x: nlinalg.svd(x, compute_uv=False), [regular(3, 4)]),
        (lambda x, y: least(x, y)[:2], [regular(4, 3), noise((4, 2))]),
        (lambda a: nlinalg.tensorinv(a, 1), [regular(6).reshape(6, 3, 2)]),
        (nlinalg.tensorsolve, [regular(6).reshape(6, 2, 3), noise(6)]),
    ],
)
def test_what_aesara_does_not_differentiate_jax_does(make, args):
    assert_gradient_of_differences(make, *args)


REFUSED = {
    "Least squares with a matrix of shape (5, 3) need right-hand sides of shape (5,) or "
    "(5, k), got (3,).": (lambda a, b: least(a, b)[0], (5, 3), (3,)),
    "A tensor of shape (6, 2, 2) does not map unknowns of shape (2, 2) to as many right-hand "
    "sides, got (6,).": (nlinalg.tensorsolve, (6, 2, 2), (6,)),
    "Least squares need a matrix, got shape (2,).": (lambda x: least(x, x), (2,)),
    **{
        f"Only square matrices have {what}, got shape (2, 3).": (make, (2, 3))
        for make, what in [
            (nlinalg.det, "determinants"),
            (nlinalg.inv, "inverses"),
            (nlinalg.matrix_inverse, "inverses"),
        ]
    },
}


@pytest.mark.parametrize("message", REFUSED)
def test_shapes_that_do_not_fit(message):
    make, *shapes = REFUSED[message]
    args = [np.ones(shape) for shape in shapes]
    assert refusal(LinearAlgebraError, run, make, *args)[0] == message
    inputs = [tensor(a) for a in args]
    with pytest.raises(np.linalg.LinAlgError):
        laws.reference(inputs, outputs_of(make, inputs), args)


def test_what_is_refused():
    for make in (nlinalg.eigh, nlinalg.qr, nlinalg.svd, lambda x: least(x, x)):
        with pytest.raises(UnsupportedOpError, match="supports real operands only"):
            run(make, regular(2, 2, "complex64"))
    with pytest.raises(UnsupportedOpError, match="deprecated mode 'full'"):
        run(nlinalg.QRFull("full"), np.ones((2, 3)))
    with pytest.raises(LinearAlgebraError, match="Singular matrix"):
        run(lambda: nlinalg.matrix_inverse(at.as_tensor(np.zeros((2, 2)))))


def test_derivatives_at_deficient_rank_are_finite_where_singular_values_differ():
    x = np.diag([3.0, 2, 0])
    f = jaxprgen.compile([inp := at.matrix()], nlinalg.pinv(inp).sum())
    assert np.isfinite(jax.grad(f)(x)).all()
