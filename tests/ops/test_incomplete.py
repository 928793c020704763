"""Gamma functions, incomplete gamma and beta functions: accuracy, derivatives, dtypes, edges."""

import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.special
from aesara.scalar import math as aem
from aesara.tensor.elemwise import Elemwise
from stored import assert_close, stored

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import UndefinedGradientError


def compiled(op, arity, kind=at.dvector, *constants):
    xs = [kind() for _ in range(arity)]
    return jaxprgen.compile(xs, Elemwise(op)(*xs, *constants))


SINGLE = {"gamma": aem.gamma, "gammaln": aem.gammaln, "psi": aem.psi, "tri_gamma": aem.tri_gamma}
DOUBLE = {"gammainc": aem.gammainc, "gammaincc": aem.gammaincc, "gammainc_der": aem.gammainc_der}


def test_accuracy_to_ten_digits():
    """Near zeros of lgamma and digamma the absolute error counts."""
    cases = [(op, name, []) for name, op in {**SINGLE, **DOUBLE}.items()]
    cases += [(aem.betainc, "betainc", [])]
    cases += [
        (aem.betainc_der, "betainc_der_a", [1]),
        (aem.betainc_der, "betainc_der_b", [0]),
    ]
    inputs, outputs, args, tables = [], [], [], []
    for op, name, constants in cases:
        points, values = stored(name)
        xs = [at.dvector() for _ in points]
        inputs, args = inputs + xs, args + points
        outputs.append(Elemwise(op)(*xs, *constants))
        tables.append((name, points, values))
    f = jaxprgen.compile(inputs, outputs)
    check_jaxpr(f.jaxpr(*args).jaxpr)
    for ours, (name, points, values) in zip(f(*args), tables, strict=True):
        assert len(values) > 10
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

    pairs = [
        (twice(gamma, 0, 1), twice(gamma, 1, 0), (p, x)),
        (twice(beta, 1, 2), twice(beta, 2, 1), (p, q, y)),
    ]
    for first, second, points in pairs:
        args = [np.array(v) for v in points]
        assert_close(first(*args), second(*args), 1e-8, args)


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
]


def test_edges():
    a, b, x, value = np.array(EDGES).T
    assert_close(compiled(aem.betainc, 3)(a, b, x), value, 1e-13, [a, b, x])
    slope = compiled(aem.betainc_der, 3, at.dvector, 1)(a, b, x)
    assert np.isnan(slope[(a < 0) | (b < 0) | (x < 0) | (x > 1) | np.isnan(value)]).all()
    assert (slope[((x == 0) | (x == 1)) & (a > 0) & (b > 0)] == 0).all()
    k, x = np.array([(0, 2), (1, 0), (INF, 1), (1, INF), (-1, 1), (1, -1), (NAN, 1), (0, 0)]).T
    lower = [1, 0, 0, 1, NAN, NAN, NAN, NAN]
    assert_close(compiled(aem.gammainc, 2)(k, x), lower, 0, [k, x])
    assert_close(compiled(aem.gammaincc, 2)(k, x), 1 - np.array(lower), 0, [k, x])
    slope = [scipy.special.expi(-2.0), 0, 0, 0, NAN, NAN, NAN, NAN]
    assert_close(compiled(aem.gammainc_der, 2)(k, x)[:7], slope[:7], 1e-13, [k[:7], x[:7]])


TOLERANCE = {"float64": 1e-13, "float32": 2e-5, "float16": 4e-3}
SMALL = [("bool", "int8", "float16"), ("float16",) * 3, ("float32",) * 3]


@pytest.mark.parametrize("op", [aem.betainc, aem.betainc_der, aem.gammainc_der], ids=str)
def test_dtypes(op):
    """The declared dtype, and the values at double precision rounded."""
    args = (
        np.array([1, 2.5, 3, 7, 12]),
        np.array([1.0, 3, 2, 9, 4.5]),
        np.array([0.5, 0.25, 0, 1, 0.75]),
    )
    names = ["float64"] * 3
    inputs, given, outputs = [], [], []
    for dtypes in [*SMALL, names]:
        xs = [at.vector(dtype=d) for d in dtypes][: min(op.nin, 3)]
        inputs += xs
        given += [x.astype(v.dtype) for x, v in zip(args, xs, strict=False)]
        outputs.append(Elemwise(op)(*xs, *([1] if op.nin == 4 else [])))
    exact = [x.astype("float64") for x in given]
    ours = jaxprgen.compile(inputs, outputs)(*given)
    f = jaxprgen.compile(*_double(op))
    for i, (mine, out) in enumerate(zip(ours, outputs, strict=True)):
        count = min(op.nin, 3)
        yours = f(*exact[count * i : count * (i + 1)])
        assert mine.dtype == out.dtype
        np.testing.assert_allclose(mine.astype("float64"), yours, *[TOLERANCE[out.dtype]] * 2)


def _double(op):
    xs = [at.dvector() for _ in range(min(op.nin, 3))]
    return xs, Elemwise(op)(*xs, *([1] if op.nin == 4 else []))


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
    for y in f(1.5, np.empty((0, 2)), np.array([1, 0], "int8")):
        assert y.shape == (0, 2)
