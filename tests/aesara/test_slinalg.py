"""Ops of `aesara.tensor.slinalg`: SciPy's linear algebra."""

import itertools

import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.linalg
from aesara.tensor import slinalg
from aesara.tensor.type_other import NoneConst
from hypothesis import given, strategies as st
from laws import assert_agrees, failures, primitives, refusal
from matrices import (
    COMPLEX,
    REAL,
    assert_agrees_on,
    assert_close,
    assert_gradient_of_differences,
    assert_same_gradient,
    few,
    noise,
    positive,
    regular,
    run,
    seeds,
    sizes,
)
from profiles import sample

import jaxprgen
from jaxprgen.errors import RuntimeCheckWarning, ShapeMismatchError, UnsupportedOpError

columns = st.sampled_from([(), (0,), (1,), (3,)])
dtypes = st.sampled_from(REAL + COMPLEX)
BOTH = (True, False)
ASSUMPTIONS = ["gen", "sym", "her", "pos"]
TRANSPOSITIONS = sample([0, 1, "T", 2, "C", "N"], 3)
NAN = np.float64(np.nan)


def cholesky(lower):
    return slinalg.Cholesky(lower, on_error="nan")


def triangular(a, y):
    """A solution for every way of reading the matrix."""
    return [
        slinalg.SolveTriangular(trans=trans, lower=lower, unit_diagonal=unit)(a, y)
        for trans, lower, unit in itertools.product(TRANSPOSITIONS, BOTH, BOTH)
    ]


def solutions(assumptions):
    return lambda a, y: [slinalg.Solve(kind, lower)(a, y) for kind in assumptions for lower in BOTH]


# --- Matrices of one number ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
@pytest.mark.filterwarnings("ignore::jaxprgen.errors.GradientWarning")  # As Aesara writes it.
def test_a_matrix_of_one_number_needs_no_library(dtype):
    a, y = at.tensor(dtype, (1, 1)), at.matrix(dtype=dtype)
    made = [cholesky(True)(a), *solutions(["gen", "pos"])(a, y), *triangular(a, y)]
    made += [at.nlinalg.matrix_inverse(a), at.nlinalg.det(a)]
    right = np.array([[3.0, -1.0, 0.5]], dtype)
    f = assert_agrees([a, y], made, [np.array([[2.5]], dtype), right])
    assert not {"cholesky", "lu", "triangular_solve"}.intersection(
        primitives(f.jaxpr(np.ones((1, 1), dtype), right))
    )
    for number, factor in ((0.0, np.nan), (-1.0, np.nan), (np.inf, np.inf), (np.nan, np.nan)):
        found = f(np.array([[number]], dtype), right)
        np.testing.assert_array_equal(np.real(found[0]), [[factor]])
        np.testing.assert_array_equal(np.real(found[-1]), number)
    if dtype == "float64":  # Aesara has no gradient with respect to complex numbers.
        total = sum(x.sum() for x in made)
        assert_agrees([a, y], at.grad(total, [a, y]), [np.array([[2.5]]), right])


# --- Factors and systems of equations -----------------------------------------------------


@few
@given(sizes, dtypes, seeds)
def test_cholesky(n, dtype, seed):
    x = positive(n, dtype, seed)
    lower, upper = assert_agrees_on(
        lambda x: [slinalg.Cholesky(lower, on_error="nan")(x) for lower in BOTH], x
    )
    assert_close(lower @ lower.conj().T, x, dtype)
    assert_close(upper, lower.conj().T, dtype)


@few
@given(sizes, columns, dtypes, seeds)
def test_solutions_by_a_cholesky_factor(n, more, dtype, seed):
    y = noise((n, *more), dtype, seed)
    factor = np.linalg.cholesky(positive(n, dtype, seed)) if n else np.zeros((0, 0), dtype)
    for lower, operand in ((True, factor), (False, factor.conj().T.copy())):
        if y.size:
            assert_agrees_on(slinalg.CholeskySolve(lower), operand, y)
        else:  # SciPy 1.12 fails.
            assert run(slinalg.CholeskySolve(lower), operand, y)[0].shape == y.shape


@few
@given(st.integers(1, 5), columns, dtypes, seeds)
def test_solutions_by_a_triangle(n, more, dtype, seed):
    a = (regular(n, n, dtype, seed) + 4 * np.eye(n)).astype(dtype)
    assert_agrees_on(triangular, a, noise((n, *more), dtype, seed))


SINGULAR = np.array([[1.0, 2, 0], [2, 4, 0], [0, 0, 0]])


@pytest.mark.parametrize("lower", BOTH)
@pytest.mark.parametrize("shape", [(3,), (3, 2)])
def test_a_known_diagonal_needs_no_library(lower, shape):
    matrix = np.diag([2.0, -1.0, 4.0])
    matrix[(0, 2) if lower else (2, 0)] = 7.0  # In the triangle that is not read.
    y = at.TensorType("float64", (None,) * len(shape))("y")

    def solution(y):
        return slinalg.SolveTriangular(lower=lower)(at.constant(matrix), y)

    given = np.random.default_rng(0).normal(size=shape)
    f = assert_agrees([y], [solution(y)], [given])
    assert "triangular_solve" not in primitives(f.jaxpr(given))
    assert_same_gradient(solution, given)


@pytest.mark.parametrize(
    "op", [*map(slinalg.Solve, ("gen", "sym", "her")), slinalg.SolveTriangular()], ids=str
)
def test_that_a_matrix_is_singular_is_a_check(op):
    """SciPy raises; without the check, a solution that does not exist is not finite."""
    a, y = at.matrix("a"), at.vector("y")
    wrong, right = failures([a, y], op(a, y), *([m, np.ones(3)] for m in (SINGULAR, positive(3))))
    assert "The matrix is singular" in wrong
    assert right is None
    assert not np.isfinite(run(op, SINGULAR, np.ones(3))[0]).all()
    assert np.isnan(run(slinalg.Solve("pos"), -np.eye(2), noise(2))[0]).all()


def test_a_unit_diagonal_is_not_read():
    a, y = at.matrix("a"), at.vector("y")
    op = slinalg.SolveTriangular(unit_diagonal=True)
    assert failures([a, y], op(a, y), [SINGULAR, np.ones(3)]) == [None]


@few
@given(st.integers(2, 5), columns, dtypes, seeds)
def test_solutions(n, more, dtype, seed):
    """Of a matrix whose triangles differ, to see which one is read."""
    y = noise((n, *more), dtype, seed)
    a = (noise((n, n), dtype, seed) / 10 + np.diag(np.arange(1, n + 1))).astype(dtype)
    assert_agrees_on(solutions(["gen", "sym"]), a, y)
    # SciPy reads the imaginary parts of a diagonal, or not, from one version to the next.
    np.fill_diagonal(a, a.diagonal().real)
    assert_agrees_on(solutions(["her", "pos"]), a, y)


@pytest.mark.parametrize("n", [0, 1])
def test_solutions_of_few_equations(n):
    for more in ((), (2,)):
        y = noise((n, *more))
        assert_agrees_on(solutions(ASSUMPTIONS), positive(n), y)
        if n:  # SciPy 1.12 fails on none.
            assert_agrees_on(triangular, positive(n), y)


def test_the_other_triangle_is_not_read():
    """SciPy would look for NaN, and raise."""
    x, y = positive(3), noise(3)
    hidden = np.triu(np.full((3, 3), NAN), 1)
    for lower, masked in ((True, np.tril(x) + hidden), (False, np.triu(x) + hidden.T)):
        np.testing.assert_allclose(
            run(cholesky(lower), masked)[0], scipy.linalg.cholesky(x, lower=lower), rtol=1e-10
        )
        for kind in ASSUMPTIONS[1:]:
            np.testing.assert_allclose(
                run(slinalg.Solve(kind, lower), masked, y)[0], np.linalg.solve(x, y), rtol=1e-10
            )
        w = run(slinalg.Eigvalsh(lower), masked, masked)[0]
        np.testing.assert_allclose(w, np.ones(3), rtol=1e-10)
        u = run(slinalg.SolveTriangular(lower=lower, unit_diagonal=True), masked, y)[0]
        np.testing.assert_allclose(
            u, scipy.linalg.solve_triangular(x, y, lower=lower, unit_diagonal=True), rtol=1e-10
        )


def test_a_matrix_that_is_not_positive_definite():
    for x in (-np.eye(3), np.array([[1.0, 2], [2, 1]]), np.zeros((1, 1))):
        assert_agrees_on(lambda x: [cholesky(lower)(x) for lower in BOTH], x)


def test_on_error_is_a_check():
    x = at.matrix("x")
    out = slinalg.Cholesky()(x)
    with pytest.warns(RuntimeCheckWarning, match="is positive definite. If not, the Op raises"):
        assert np.isnan(jaxprgen.compile([x], out)(-np.eye(2))).all()
    wrong, right = failures([x], out, [-np.eye(2)], [4 * np.eye(2)])
    assert "not positive definite" in wrong and right is None


def test_nan_reaches_the_result():
    """SciPy looks for it, and raises, unless ``check_finite`` is off."""
    a, y, broken = np.full((2, 2), NAN), noise(2), np.full(2, NAN)
    calls = [
        (cholesky(True), (a,)),
        (slinalg.Solve("gen"), (a, y)),
        (slinalg.Solve("pos"), (a, y)),
        (slinalg.Solve("gen"), (positive(2), broken)),
        (slinalg.SolveTriangular(), (positive(2), broken)),
        (slinalg.CholeskySolve(), (positive(2), broken)),
        (slinalg.Eigvalsh(), (a, positive(2))),
        (slinalg.Expm(), (a,)),
        (slinalg.SolveContinuousLyapunov(), (a, positive(2))),
    ]
    for op, args in calls:
        assert np.isnan(run(op, *args)[0]).any(), op


@pytest.mark.parametrize(
    ("op", "left", "right"),
    [
        (slinalg.Solve(), (2, 3), (2,)),
        (slinalg.SolveTriangular(), (3, 3), (2, 4)),
        (slinalg.CholeskySolve(), (3, 3), (2,)),
    ],
)
def test_sizes_that_do_not_match_are_an_error(op, left, right):
    assert refusal(ShapeMismatchError, run, op, np.ones(left), np.ones(right))[0] == (
        f"Cannot solve a system of shape {left} for a right-hand side of shape {right}."
    )


# --- Eigenvalues --------------------------------------------------------------------------


@few
@given(st.integers(1, 5), dtypes, st.booleans(), seeds)
def test_eigvalsh(n, dtype, lower, seed):
    op = slinalg.Eigvalsh(lower)
    a, metric = noise((n, n), dtype, seed), positive(n, dtype, seed)
    assert_agrees_on(op, a, metric)
    assert_agrees_on(lambda a: op(a, NoneConst), a)


@few
@given(st.integers(1, 5), st.sampled_from(REAL), st.booleans(), seeds)
def test_gradient_of_eigvalsh(n, dtype, lower, seed):
    op = slinalg.EigvalshGrad(lower)
    a = (positive(n, dtype, seed) + np.diag(np.arange(n))).astype(dtype)
    assert_agrees_on(
        op,
        a,
        positive(n, dtype, seed + 1),
        noise(n, dtype, seed),
        rtol=1e-8 if dtype[-1] == "4" else 2e-3,
    )


def test_the_gradient_of_complex_eigenvalues_is_refused():
    """Aesara does not conjugate, so that it depends on the phases of eigenvectors."""
    a = positive(2, "complex128")
    with pytest.raises(UnsupportedOpError, match="supports real operands only"):
        run(slinalg.EigvalshGrad(), a, a, noise(2))


# --- The exponential ----------------------------------------------------------------------


@few
@given(sizes, dtypes, st.sampled_from([1e-8, 0.1, 1.0, 10.0]), seeds)
def test_expm(n, dtype, scale, seed):
    x = (regular(n, n, dtype, seed) * scale / 3).astype(dtype)
    exponential = run(slinalg.expm, x)[0]
    wanted = scipy.linalg.expm(x.astype("complex128")) if n else x
    scaled = np.abs(wanted).max(initial=1)
    assert_close(exponential / scaled, wanted / scaled, dtype)
    if np.dtype(dtype).itemsize >= 8 and dtype != "complex64":
        assert_agrees_on(slinalg.expm, x, rtol=1e-9 * scaled)


def test_expm_of_zeros_and_of_large_matrices():
    """Up to a norm of 5.37 · 2¹⁶: that many squarings there are."""
    assert_agrees_on(slinalg.expm, np.zeros((3, 3)))
    assert_agrees_on(slinalg.expm, np.array([[0, 1e5], [0, 0]]), rtol=1e-9)
    assert_agrees_on(slinalg.expm, np.diag([-1e5, -1.0, 0]), rtol=1e-9)
    assert np.isnan(run(slinalg.expm, np.array([[0, 1e6], [0, 0]]))[0]).all()


@few
@given(sizes, st.sampled_from(REAL), seeds)
def test_gradient_of_expm(n, dtype, seed):
    x = (regular(n, n, dtype, seed) + np.diag(np.arange(n))).astype(dtype)
    tolerance = 1e-7 if dtype == "float64" else 5e-2
    if n:
        assert_agrees_on(slinalg.ExpmGrad(), x, noise((n, n), dtype, seed), rtol=tolerance)


def test_gradient_of_expm_at_equal_eigenvalues():
    """Aesara's formula divides by their difference."""
    x, g = np.array([[1.0, 1], [0, 1]]), noise((2, 2))
    wanted = scipy.linalg.expm_frechet(x.T, g)[1]
    np.testing.assert_allclose(run(slinalg.ExpmGrad(), x, g)[0], wanted, rtol=1e-12)


def test_derivative_of_expm_at_zero():
    """Where there is nothing to scale, the logarithm that counts squarings is infinite."""
    x = at.matrix()
    gradient = jax.jit(jax.grad(jaxprgen.compile([x], slinalg.expm(x).sum())))(np.zeros((2, 2)))
    np.testing.assert_allclose(gradient, np.ones((2, 2)), rtol=1e-12)


# --- Matrix equations ---------------------------------------------------------------------


@few
@given(sizes, st.sampled_from(["float64", "complex128"]), seeds)
def test_lyapunov(n, dtype, seed):
    a, q = regular(n, n, dtype, seed) / 4, noise((n, n), dtype, seed)
    shifted = a + np.eye(n)
    x = run(slinalg.solve_continuous_lyapunov, shifted, q)[0]
    assert_close(shifted @ x + x @ shifted.conj().T, q, dtype)
    z = run(slinalg.BilinearSolveDiscreteLyapunov(), a, q)[0]
    assert_close(z - a @ z @ a.conj().T, q, dtype)
    if n:  # SciPy 1.12 fails on no elements.
        assert_agrees_on(slinalg.solve_continuous_lyapunov, shifted, q)
        assert_agrees_on(slinalg.BilinearSolveDiscreteLyapunov(), a, q)


@pytest.mark.parametrize(
    "dtypes", [("float64", "complex128"), ("complex128", "float64")], ids="-".join
)
def test_lyapunov_of_real_and_complex_matrices(dtypes):
    """Complex eigenvalues of a real matrix beside a complex one: SciPy's solution is none."""
    turning = np.array([[2, 1, 0], [-1, 2, 0.5], [0, 0.25, 3]])
    a, q = turning.astype(dtypes[0]), noise((3, 3), dtypes[1])
    (x,) = run(slinalg.solve_continuous_lyapunov, a, q)
    assert_close(a @ x + x @ a.T, q.astype(complex), "complex128")
    (z,) = run(slinalg.BilinearSolveDiscreteLyapunov(), a / 8, q)
    assert_close(z - a @ z @ a.T / 64, q.astype(complex), "complex128")


# --- Dtypes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtypes", sample(itertools.product(["int32", "float32", "float64"], repeat=2), 5)
)
def test_mixed_dtypes(dtypes):
    a = np.array([[4, 1, 0], [1, 4, 1], [0, 1, 4]]).astype(dtypes[0])
    y = np.array([1, 2, 3]).astype(dtypes[1])
    assert_agrees_on(
        lambda a, y: [*triangular(a, y), *solutions(ASSUMPTIONS)(a, y)], a, y, rtol=2e-4
    )
    assert_agrees_on(slinalg.CholeskySolve(), a, y, rtol=2e-4)
    assert_agrees_on(slinalg.Eigvalsh(), a, a.astype(dtypes[1]), rtol=2e-4)
    # Results of integers are converted, as everywhere: the factor of this one is integral.
    assert_agrees_on(cholesky(True), np.array([[4, 2], [2, 10]]))


def test_float16():
    x = positive(3).astype("float16")
    factor, exponential = run(lambda x: [cholesky(True)(x), slinalg.expm(x)], x)
    wide = x.astype(float)
    np.testing.assert_allclose(factor, np.linalg.cholesky(wide), atol=4e-3)
    np.testing.assert_allclose(exponential, scipy.linalg.expm(wide), rtol=4e-3, atol=4e-2)


# --- Transformations ----------------------------------------------------------------------

A, P, Y, V = regular(3), positive(3), noise((3, 2)), noise(3)


@pytest.mark.parametrize(
    ("make", "args"),
    [
        (cholesky(True), [P]),
        (cholesky(False), [P]),
        (slinalg.Solve("gen"), [A, Y]),
        (slinalg.Solve("gen"), [A, V]),
        (slinalg.SolveTriangular(lower=True), [A + 4 * np.eye(3), Y]),
        (slinalg.SolveTriangular(lower=False), [A + 4 * np.eye(3), V]),
        (slinalg.Eigvalsh(True), [A, P]),
        (slinalg.Eigvalsh(False), [A, P]),
        (slinalg.expm, [A]),
        (lambda x: slinalg.expm(x * 10 - 30 * at.eye(3)), [A]),
        (slinalg.solve_continuous_lyapunov, [A + 4 * np.eye(3), P]),
        (slinalg.BilinearSolveDiscreteLyapunov(), [A / 4, P]),
    ],
)
def test_derivatives_are_those_of_aesara(make, args):
    assert_same_gradient(make, *args)


@pytest.mark.parametrize(
    ("make", "args"),
    [
        (slinalg.CholeskySolve(), [np.tril(P), Y]),
        # Aesara's gradients of these are those of a matrix read as a whole, or not transposed.
        (solutions(ASSUMPTIONS[1:]), [P, V]),
        (triangular, [P, V]),
    ],
)
def test_derivatives_are_those_of_what_is_computed(make, args):
    assert_gradient_of_differences(make, *args)


@pytest.mark.parametrize("size", [1, 3])
def test_a_vector_beside_a_single_number_is_a_row(size):
    solve = lambda a, y: [slinalg.Solve(assumed)(a, y) for assumed in ASSUMPTIONS]  # noqa: E731
    assert_agrees_on(solve, np.array([[2.0]]), np.arange(1.0, size + 1))
