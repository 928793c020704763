"""Gradients of graphs are numbers wherever the function is smooth on the branches it takes."""

import importlib
import warnings

import aesara
import aesara.tensor as at
import guarded_expressions as guarded
import jax
import numpy as np
import pytest
import scipy.special
from gradient_law import assert_law
from hypothesis import given
from profiles import examples

import jaxprgen
from jaxprgen.errors import GradientWarning

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # It will move.
    binary_crossentropy = importlib.import_module("aesara.tensor.nnet").binary_crossentropy


@examples(1, quick=0.5)
@given(guarded.expressions(leaves=8))
def test_gradients_are_numbers(expression):
    assert_law("aesara", expression)


# --- Reports of users ---------------------------------------------------------------------

x, y = at.dvectors("x", "y")
s = at.dscalar("s")


@pytest.mark.parametrize("mode", ["FAST_RUN", "JAXPR"])
@pytest.mark.parametrize(
    "loss", [binary_crossentropy, lambda p, t: -(t * at.log(p) + (1 - t) * at.log(1 - p))]
)
def test_cross_entropy_of_large_scores(loss, mode):
    scores, targets = np.array([-800.0, 800.0, -40.0, 0.5]), np.array([1.0, 0.0, 1.0, 0.3])
    slope = aesara.grad(loss(at.sigmoid(x), y).sum(), x)
    found = aesara.function([x, y], slope, mode=mode)(scores, targets)
    np.testing.assert_allclose(found, scipy.special.expit(scores) - targets, rtol=1e-12)


@pytest.mark.parametrize(
    "f", [at.log1mexp, lambda x: at.log(1 - at.exp(x)), lambda x: at.log1p(-at.exp(x))]
)
def test_the_slope_of_log1mexp_at_zero_is_that_from_the_left(f):
    assert aesara.function([s], aesara.grad(f(s), s), mode="JAXPR")(0.0) == -np.inf
    assert jax.grad(jaxprgen.compile([s], f(s)))(0.0) == -np.inf


def test_polynomials_have_slopes_at_zero():
    polynomial = sum((k + 1.0) * s**k for k in range(4))
    for mode in ("FAST_COMPILE", "FAST_RUN", "JAXPR"):
        assert aesara.function([s], aesara.grad(polynomial, s), mode=mode)(0.0) == 2
    assert jax.grad(jaxprgen.compile([s], polynomial))(0.0) == 2
    powers = jaxprgen.compile([x, s], (x * s ** at.arange(x.shape[0])).sum())
    assert jax.grad(powers, 1)(np.arange(1.0, 5.0), 0.0) == 2


@pytest.mark.parametrize("mode", ["FAST_COMPILE", "FAST_RUN", "JAXPR"])
def test_forward_derivatives_of_squares_of_negative_numbers(mode):
    values, direction = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0])
    loss = ((x - 1) ** 2).sum()
    outputs = [aesara.gradient.Rop(f, x, y) for f in (aesara.grad(loss, x), x**2)]
    of_gradient, of_square = aesara.function([x, y], outputs, mode=mode)(values, direction)
    np.testing.assert_allclose(of_gradient, 2 * direction)
    np.testing.assert_allclose(of_square, 2 * values * direction)


def test_a_density_with_a_hurdle():
    """Zeros have a mass of their own, and the logarithm of a zero is in the other branch."""
    mu, sigma, p = parameters = at.dscalars("mu", "sigma", "p")
    dense = at.log(p) - at.log(x) - at.log(sigma) - 0.5 * ((at.log(x) - mu) / sigma) ** 2
    density = at.switch(x > 0, dense, at.log(1 - p)).sum()
    args = np.array([0.0, 1.0, 2.5, 0.0]), 0.3, 1.2, 0.7
    z = (np.log([1.0, 2.5]) - 0.3) / 1.2
    right = [sum(z / 1.2), sum((z**2 - 1) / 1.2), 2 / 0.7 - 2 / 0.3]
    inputs, gradient = [x, *parameters], aesara.grad(density, list(parameters))
    for mode in ("FAST_COMPILE", "FAST_RUN", "JAXPR"):
        np.testing.assert_allclose(aesara.function(inputs, gradient, mode=mode)(*args), right)
    by_jax = jax.grad(jaxprgen.compile(inputs, density), argnums=(1, 2, 3))(*args)
    np.testing.assert_allclose(by_jax, right)


@pytest.mark.parametrize(
    "seen", [y, at.constant([1.0, 0.0, 1.0]), aesara.shared(np.array([1.0, 0.0, 1.0]))]
)
def test_probabilities_of_0_and_1(seen):
    """The gradient divides zeros of the other branch by zero, also where data are constants.

    Aesara's default mode is NaN there, and PyTensor's is right.
    """
    density = at.switch(seen, at.log(x), at.log(1 - x)).sum()
    inputs, args = [x, y], (np.array([1.0, 0.0, 0.25]), np.array([1.0, 0.0, 1.0]))
    slope = jaxprgen.compile(inputs, aesara.grad(density, x))(*args)
    np.testing.assert_allclose(slope, [1.0, -1.0, 4.0])
    by_jax = jax.grad(jaxprgen.compile(inputs, density))(*args)
    np.testing.assert_allclose(by_jax, [1.0, -1.0, 4.0])


# --- Faults of Aesara's own gradients: the table in docs/semantics.md -------------------------


def faulty():
    """Costs, what to differentiate with respect to, and the values of all inputs."""
    u, v, a = at.dvector("u"), at.dvector("v"), at.dmatrix("a")
    point, matrix = np.array([0.3, 0.7]), np.array([[2.0, 0.5], [0.3, 1.5]])
    yield "repeated", ((u + v) ** 2).sum(), [u, v], [point, np.ones(1)]
    for options in ({"trans": 1}, {"lower": True, "trans": "T"}, {"unit_diagonal": True}):
        cost = at.slinalg.solve_triangular(a, u, **options).sum()
        yield str(options), cost, [u, a], [point, matrix]


@pytest.mark.parametrize(("name", "cost", "inputs", "args"), [*faulty()])
def test_jax_differentiates_right_where_aesara_does_not(name, cost, inputs, args):
    f = jaxprgen.compile(inputs, cost)
    right = np.asarray(jax.grad(f, 1)(*args))
    step = 1e-6
    for place in np.ndindex(right.shape):
        moved = np.zeros(right.shape)
        moved[place] = step
        ends = (f(args[0], args[1] + moved) - f(args[0], args[1] - moved)) / (2 * step)
        np.testing.assert_allclose(right[place], ends, rtol=1e-6, atol=1e-8, err_msg=name)
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        theirs = jaxprgen.compile(inputs, aesara.grad(cost, inputs[1]))(*args)
    # A graph does not show that it lacks a sum.
    assert [each.category for each in issued] == [GradientWarning] * (name != "repeated")
    mode = aesara.compile.mode.Mode("py", None)
    reference = aesara.function(inputs, aesara.grad(cost, inputs[1]), mode=mode)(*args)
    np.testing.assert_allclose(theirs, reference, rtol=1e-10)
    assert theirs.shape != right.shape or not np.allclose(theirs, right)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("flags", [{}, {"trans": 1}, {"unit_diagonal": True}], ids=str)
def test_warnings_of_faults_name_the_flags_and_the_remedy(flags, lower):
    a, matrix = at.dmatrix("a"), np.array([[2.0, 0.5], [0.3, 1.5]])
    for u, right in ((at.dvector("u"), np.ones(2)), (at.dmatrix("u"), np.ones((2, 1)))):
        cost = at.square(at.slinalg.solve_triangular(a, u, lower=lower, **flags)).sum()
        # The gradient with respect to the right-hand side is right.
        jaxprgen.compile([a, u], aesara.grad(cost, u))(matrix, right)
        slope = jaxprgen.compile([a, u], aesara.grad(cost, a))
        for name, flag in flags.items():
            text = rf"solve_triangular with {name}={flag} is wrong[\s\S]*Use jax.grad of the compi"
            with pytest.warns(GradientWarning, match=text):
                slope(matrix, right)
        slope(matrix, right)  # It was said, or is right.
