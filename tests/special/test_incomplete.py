"""Gamma functions, incomplete gamma and beta functions: accuracy, derivatives, dtypes, edges."""

import functools
import itertools

import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.special
from aesara.scalar import math as aem
from aesara.tensor.elemwise import Elemwise
from laws import at_once
from profiles import sample
from stored import assert_close, stored

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import UndefinedGradientError


@functools.cache
def compiled(op, arity, kind=at.dvector, *constants):
    xs = [kind() for _ in range(arity)]
    return jaxprgen.compile(xs, Elemwise(op)(*xs, *constants))


SINGLE = {"gamma": aem.gamma, "gammaln": aem.gammaln, "psi": aem.psi, "tri_gamma": aem.tri_gamma}
DOUBLE = {"gammainc": aem.gammainc, "gammaincc": aem.gammaincc, "gammainc_der": aem.gammainc_der}


TABLES = [
    *[(op, name, []) for name, op in {**SINGLE, **DOUBLE}.items()],
    (aem.betainc, "betainc", []),
    (aem.betainc_der, "betainc_der_a", [1]),
    (aem.betainc_der, "betainc_der_b", [0]),
]


PLACES = 24


@pytest.fixture(scope="module")
def evaluate():
    """One program for all tests of values: at points by table, and last at those that are stored.

    What a test asks for is put into fixed places before them, so that shapes stay.
    """
    inputs, outputs = [], []
    for op, name, constants in TABLES:
        xs = [at.dvector() for _ in stored(name)[0]]
        inputs.append(xs)
        outputs.append(Elemwise(op)(*xs, *constants))
    f = jaxprgen.compile([x for xs in inputs for x in xs], outputs)

    def run(**asked):
        args = []
        for (_, name, _), xs in zip(TABLES, inputs, strict=True):
            columns = asked.get(name, [np.ones(0)] * len(xs))
            gap = np.ones(PLACES - len(columns[0]))
            args += [np.r_[c, gap, t] for c, t in zip(columns, stored(name)[0], strict=True)]
        check_jaxpr(f.jaxpr(*args).jaxpr)
        found = {name: y for (_, name, _), y in zip(TABLES, f(*args), strict=True)}
        tables = {name: y[PLACES:] for name, y in found.items()}
        return tables, {name: found[name][: len(xs[0])] for name, xs in asked.items()}

    return run


def test_accuracy_to_ten_digits(evaluate):
    """Near zeros of lgamma and digamma the absolute error counts."""
    tables, _ = evaluate()
    assert len(tables) == len(TABLES)
    for name, ours in tables.items():
        points, values = stored(name)
        floor = 1.0 if name in ("gammaln", "psi") else 0.0
        assert_close(ours, values, 1e-10, points, floor)


def gradients(f, *args):
    """The gradient with respect to all arguments, at many points."""
    one = jax.vmap(jax.grad(f, range(len(args))))
    return jax.jit(one)(*args)


def test_derivatives():
    (k, x), slope = stored("gammainc_der")
    lower, upper = (compiled(op, 2, at.dscalar) for op in (aem.gammainc, aem.gammaincc))
    (dk, dx), (ek, ex) = gradients(lower, k, x), gradients(upper, k, x)
    assert_close(dk, slope, 1e-8, [k, x])
    assert_close(ek, -slope, 1e-8, [k, x])
    density = np.exp((k - 1) * np.log(x) - x - scipy.special.gammaln(k))
    assert_close(dx, density, 1e-8, [k, x], 1e-280)
    assert_close(ex, -density, 1e-8, [k, x], 1e-280)


@pytest.mark.parametrize("order", [1, 2, 3, 7, 10, 11, 1.5])
def test_a_known_order_of_the_upper_function(order):
    """A whole one is a finite sum; awkward points are those of any order."""
    x = at.dvector("x")
    upper = at.gammaincc(np.float64(order), x)
    f = jaxprgen.compile([x], [upper, at.grad(upper.sum(), x)])
    points = np.array([0.0, 1e-300, 1e-30, 1e-5, 0.4, 1, 2.5, 9, 40, 700, 800, 1e5, 1e300, np.inf])
    (found, slope), (outside, _) = np.split(f(np.r_[points, -1, np.nan]), [len(points)], axis=1)
    wanted = scipy.special.gammaincc(order, points)
    normal = wanted > 1e-300
    np.testing.assert_allclose(found[normal], wanted[normal], rtol=2e-13)
    np.testing.assert_allclose(found[~normal], wanted[~normal], atol=1e-300)
    inside = points[1:-2]
    density = np.exp((order - 1) * np.log(inside) - inside - scipy.special.gammaln(order))
    np.testing.assert_allclose(slope[1:-2], -density, rtol=1e-10, atol=1e-300)
    assert np.isnan(outside).all()
    many = jaxprgen.compile([x], at.gammaincc(np.full((2, 1), float(order)), x))
    np.testing.assert_allclose(many(points), [found, found], rtol=2e-13, atol=1e-300)
    is_sum = "reduce_sum" not in str(jaxprgen.compile([x], upper).jaxpr(points))
    assert is_sum is (order in range(1, 11))


def test_derivatives_of_the_incomplete_beta_function():
    f = compiled(aem.betainc, 3, at.dscalar)
    (a, b, x), slope = stored("betainc_der_a")
    da, db, dx = gradients(f, a, b, x)
    assert_close(da, slope, 1e-8, [a, b, x])
    assert_close(db, stored("betainc_der_b")[1], 1e-8, [a, b, x])
    logarithm = (a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - scipy.special.betaln(a, b)
    assert_close(dx, np.exp(logarithm), 1e-8, [a, b, x], 1e-280)


def test_mixed_second_derivatives_commute():
    gamma, beta = compiled(aem.gammainc, 2, at.dscalar), compiled(aem.betainc, 3, at.dscalar)
    p, x = (2.5, 0.3, 40.0), (1.7, 0.6, 30.0)
    q, y = (0.7, 5.0, 12.0), (0.3, 0.9, 0.75)

    def twice(f, i, j):
        return jax.vmap(jax.grad(jax.grad(f, i), j))

    @jax.jit
    def both(first, second):
        of_gamma = twice(gamma, 0, 1)(*first), twice(gamma, 1, 0)(*first)
        return of_gamma, (twice(beta, 1, 2)(*second), twice(beta, 2, 1)(*second))

    args = [np.array(v) for v in (p, x)], [np.array(v) for v in (p, q, y)]
    for (one, other), points in zip(both(*args), args, strict=True):
        assert_close(one, other, 1e-8, points)


@pytest.mark.parametrize(
    ("op", "k", "x", "value"),
    [
        (aem.gammal, 200.0, 2.0, 1.0983049405654755e57),
        (aem.gammal, 50.0, 2.0, 3171765281387.1962),
        (aem.gammal, 33.80451, 0.59, 2.9921113098313529e-10),
        (aem.gammau, 200.0, 900.0, 1.3726978663307111e197),
        (aem.gammau, 40.0, 200.0, 943.70107135551001),
        (aem.gammau, 30.0, 80.0, 4.3353188733148716e20),
    ],
)
def test_what_is_not_regularized_does_not_need_that_to_be_a_number(op, k, x, value):
    """Quotients by the gamma function are too small, and that itself is too large (mpmath)."""
    np.testing.assert_allclose(compiled(op, 2, at.dscalar)(k, x), value, rtol=1e-12)
    if value < 1e30:
        single = compiled(op, 2, at.fscalar)(np.float32(k), np.float32(x))
        np.testing.assert_allclose(single, value, rtol=1e-4)


def test_derivatives_of_what_is_not_regularized():
    """By differences of the values, and of the integrand."""
    k, x = np.array([0.3, 2.5, 2.5, 40.0, 150.0]), np.array([0.7, 0.2, 9.0, 35.0, 20.0])
    step = 1e-5
    for op, sign in sample([(aem.gammal, 1), (aem.gammau, -1)], 1):
        f = compiled(op, 2, at.dscalar)
        above, below = ([f(a, b) for a, b in zip(k + d, x, strict=True)] for d in (step, -step))
        slope = np.subtract(above, below) / (2 * step)
        density = sign * np.exp((k - 1) * np.log(x) - x)
        dk, dx = gradients(f, k, x)
        assert_close(dk, slope, 1e-6, [k, x])
        assert_close(dx, density, 1e-10, [k, x])


def test_there_is_no_second_derivative_with_respect_to_parameters():
    f = compiled(aem.gammainc, 2, at.dscalar)
    with pytest.raises(
        UndefinedGradientError, match="no second derivative with respect to their order"
    ):
        jax.grad(jax.grad(f))(1.0, 2.0)
    f = compiled(aem.betainc, 3, at.dscalar)
    with pytest.raises(UndefinedGradientError, match="no second derivative"):
        jax.grad(jax.grad(f))(1.0, 2.0, 0.5)


INF, NAN = np.inf, np.nan
EDGES = [  # a, b, x, value: those of SciPy from 1.13 on, where parameters of 0 have limits.
    *[(0, 1, 0.5, 1), (1, 0, 0.5, 0), (0, 0, 0.5, NAN), (0, 1, 0, 0), (1, 0, 1, 1)],
    *[(1, 1, -1, NAN), (1, 1, 2, NAN), (-1, 1, 0.5, NAN), (1, -1, 0.5, NAN), (INF, 1, 0.5, NAN)],
    *[(1, INF, 0.5, NAN), (2, 3, 0, 0), (2, 3, 1, 1), (NAN, 1, 0.5, NAN), (1, NAN, 0.5, NAN)],
    *[(1, 1, NAN, NAN), (1e-300, 1, 0.5, 1), (1, 1, 1e-300, 1e-300), (1, 2, -0.0, 0)],
    *[(NAN, 1, 0, NAN), (1, NAN, 1, NAN), (NAN, 0, 0.5, NAN), (0, NAN, 0.5, NAN), (0, 1, NAN, NAN)],
]


def test_edges(evaluate):
    a, b, x, value = np.array(EDGES).T
    limits = [(0, 2), (1, 0), (INF, 1), (1, INF)]
    outside = [(-1, 1), (1, -1), (NAN, 1), (NAN, INF), (INF, NAN), (0, 0)]
    k, point = np.array([*limits, *outside]).T
    beta, gamma = [a, b, x], [k, point]
    _, found = evaluate(
        betainc=beta, betainc_der_a=beta, gammainc=gamma, gammaincc=gamma, gammainc_der=gamma
    )
    assert_close(found["betainc"], value, 1e-13, beta)
    slope = found["betainc_der_a"]
    assert np.isnan(slope[(a < 0) | (b < 0) | (x < 0) | (x > 1) | np.isnan(value)]).all()
    assert (slope[((x == 0) | (x == 1)) & (a > 0) & (b > 0)] == 0).all()
    lower = np.array([1, 0, 0, 1, *[NAN] * len(outside)])
    assert_close(found["gammainc"], lower, 0, gamma)
    assert_close(found["gammaincc"], 1 - lower, 0, gamma)
    slope = np.array([scipy.special.expi(-2.0), 0, 0, 0, *[NAN] * len(outside)])[:-1]
    assert_close(found["gammainc_der"][:-1], slope, 1e-13, [k[:-1], point[:-1]])


TOLERANCE = {"float64": 1e-13, "float32": 2e-5, "float16": 4e-3}
SMALL = [("bool", "int8", "float16"), ("float16",) * 3, ("float32",) * 3]
OF_DTYPES = {
    "betainc": aem.betainc,
    "betainc_der_a": aem.betainc_der,
    "gammainc_der": aem.gammainc_der,
}


@pytest.mark.parametrize("name", OF_DTYPES)
def test_dtypes(name, evaluate):
    """The declared dtype, and the values at double precision rounded."""
    op = OF_DTYPES[name]
    count, choice = min(op.nin, 3), [1] if op.nin == 4 else []
    args = [[1, 2.5, 3, 7, 12], [1.0, 3, 2, 9, 4.5], [0.5, 0.25, 0, 1, 0.75]][:count]
    inputs, given, outputs = [], [], []
    small = sample(SMALL, 1)
    for dtypes in small:
        xs = [at.vector(dtype=d) for d in dtypes[:count]]
        inputs += xs
        given.append([np.array(x).astype(v.dtype) for x, v in zip(args, xs, strict=True)])
        outputs.append(Elemwise(op)(*xs, *choice))
    ours = at_once(jaxprgen.compile(inputs, outputs), *itertools.chain(*given))
    exact = [np.concatenate(column).astype("float64") for column in zip(*given, strict=True)]
    _, found = evaluate(**{name: exact})
    for mine, out, yours in zip(ours, outputs, np.split(found[name], len(small)), strict=True):
        assert mine.dtype == out.dtype
        np.testing.assert_allclose(mine.astype("float64"), yours, *[TOLERANCE[out.dtype]] * 2)


def test_shapes_broadcast():
    k, x, choice = at.dscalar(), at.dmatrix(), at.bvector()
    outputs = [
        at.gammainc(k, x),
        Elemwise(aem.betainc)(k, k, x),
        Elemwise(aem.betainc_der)(k, 2.0, x, choice),
    ]
    f = jaxprgen.compile([k, x, choice], outputs)
    rows = np.array([[0.2, 0.5]])
    lower, beta, slopes = f(1.5, rows, np.array([1, 0], "int8"))
    assert lower.shape == beta.shape == slopes.shape == (1, 2)
    np.testing.assert_allclose(beta, scipy.special.betainc(1.5, 1.5, rows), rtol=1e-13)
    assert slopes[0, 0] < 0 < slopes[0, 1]
    for y in f.jaxpr(1.5, np.empty((0, 2)), np.array([1, 0], "int8")).out_avals:
        assert y.shape == (0, 2)
