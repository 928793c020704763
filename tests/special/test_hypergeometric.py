"""Gauss's hypergeometric function: accuracy, derivatives, dtypes, edges."""

import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.special
from aesara.scalar import math as aem
from aesara.tensor.elemwise import Elemwise
from profiles import is_deep
from stored import assert_close, stored

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import UndefinedGradientError, UnsupportedOpError


def falls_short(a, b, c, z):
    return (z < -1) & (a > 30) & (b > 30) & (a > 2 * c)


def compiled(op, kind=at.dvector, *constants):
    xs = [kind() for _ in range(4)]
    return jaxprgen.compile(xs, Elemwise(op)(*xs, *constants))


PLACES = 32


@pytest.fixture(scope="module")
def evaluate():
    """One program for all tests of values: at points, and last at those that are stored.

    Which parameter a derivative is with respect to is an operand. What a test asks for is put into
    fixed places before what is stored, so that shapes stay.
    """
    tables = [stored(f"hyp2f1_der_{name}") for name in "abc"]
    columns = [np.concatenate(columns) for columns in zip(*[t[0] for t in tables], strict=True)]
    columns.append(np.repeat([0, 1, 2], [len(t[1]) for t in tables]))
    xs, ys = [at.dvector() for _ in range(4)], [at.dvector() for _ in range(5)]
    f = jaxprgen.compile([*xs, *ys], [Elemwise(aem.hyp2f1)(*xs), Elemwise(aem.hyp2f1_der)(*ys)])

    def run(points=((),) * 4, which=0):
        count = len(points[0])
        gap = np.zeros(PLACES - count)
        rows = [*points, np.full(count, which)]
        args = [np.r_[x, gap, t] for x, t in zip(points, stored("hyp2f1")[0], strict=True)]
        args += [np.r_[x, gap, t] for x, t in zip(rows, columns, strict=True)]
        check_jaxpr(f.jaxpr(*args).jaxpr)
        values, slopes = f(*args)
        return (values[:count], slopes[:count]), (values[PLACES:], slopes[PLACES:])

    return run


def assert_accurate(ours, values, args):
    short = falls_short(*args)
    for some, rtol in ((~short, 1e-10), (short, 1e-7)):
        if some.any():  # A quick run may have no values that fall short.
            assert_close(ours[some], values[some], rtol, [x[some] for x in args])


def test_accuracy_to_ten_digits(evaluate):
    _, (ours, _) = evaluate()
    args, values = stored("hyp2f1")
    assert_accurate(ours, values, args)


def test_derivatives_to_ten_digits(evaluate):
    _, (_, ours) = evaluate()
    tables = [stored(f"hyp2f1_der_{name}") for name in "abc"]
    args = [np.concatenate(columns) for columns in zip(*[t[0] for t in tables], strict=True)]
    assert_accurate(ours, np.concatenate([t[1] for t in tables]), args)


def test_gradients_by_jax(evaluate):
    f = compiled(aem.hyp2f1, at.dscalar)
    args, slope = stored("hyp2f1_der_a")
    some = ~falls_short(*args) & (np.arange(len(slope)) % 5 == 0)
    args = [x[some] for x in args]
    found = jax.jit(jax.vmap(jax.grad(f, range(4))))(*args)
    assert_close(found[0], slope[some], 1e-8, args)
    for i, name in ((1, "b"), (2, "c")):
        at_these, slopes = stored(f"hyp2f1_der_{name}")
        rows = {q: v for *q, v in zip(*at_these, slopes, strict=True) for q in [tuple(q)]}
        expected = [rows.get(q, g) for q, g in zip(zip(*args, strict=True), found[i], strict=True)]
        assert_close(found[i], np.array(expected), 1e-8, args)
    a, b, c, z = args
    (raised, _), _ = evaluate([a + 1, b + 1, c + 1, z])
    assert_close(found[3], a * b / c * raised, 1e-8, args)


def test_second_derivatives():
    f = compiled(aem.hyp2f1, at.dscalar)
    point = a, b, c, z = 0.7, -1.3, 2.2, 0.4
    pairs = (3, 3), (0, 3), (3, 0)
    by_point, one, other = jax.jit(
        lambda *xs: [jax.grad(jax.grad(f, i), j)(*xs) for i, j in pairs]
    )(*point)
    raised = scipy.special.hyp2f1(a + 2, b + 2, c + 2, z)
    expected = a * (a + 1) * b * (b + 1) / c / (c + 1) * raised
    np.testing.assert_allclose(by_point, expected, rtol=1e-10)
    np.testing.assert_allclose(one, other, rtol=1e-10)
    with pytest.raises(UndefinedGradientError, match="no second derivative"):
        jax.eval_shape(jax.grad(jax.grad(f, 0), 1), *point)


# Parameters, argument and value, by mpmath; all digits are lost on the way, up to 167 of them.
LOST = [
    (-2000.5, 3, 2, 0.2, -3.3715322673384518e-192),
    (-116.984375, 25.203125, -1.63125, 0.38762737, -7.956821625529948e-07),
    (-2.296875, -99.046875, -21.11875, 0.67416831, -9.646753430011703),
    (1.015625, -178.984375, -2.95625, -1.50743518, -1.323385880079676e80),
]
# Ill conditioned or tiny, and yet all digits are there; the last one is a zero of the function.
KEPT = [
    (40, 60, 10, -3, 2.331643835832818e-40),
    (800.3, 900.1, 5, -0.7, -8.911640937439925e-208),
    (600, -700.5, 400, 0.5, -3.8000276134703897e-255),
    (-60, 90.5, 2.5, 0.6, 26.609987113673455),
    (2, 3, -40.3, 0.9, -1.6656922962037962e50),
    (-1, 2, 1, 0.5, 0),
]


def test_what_is_lost_to_rounding_is_nan(evaluate):
    (ours, _), _ = evaluate(np.array(LOST).T[:4])
    assert np.isnan(ours).all()
    *args, values = np.array(KEPT).T
    (ours, _), _ = evaluate(args)
    assert_close(ours[:-1], values[:-1], 1e-12, [x[:-1] for x in args])
    assert abs(ours[-1]) < 1e-15


INF, NAN = np.inf, np.nan
EDGES = [
    *[(1, 1, 2, 1.5), (0.5, 0.3, 0.7, 2), (-2, 1, 2, 1.5), (1, 1, 2, 1), (-2, 1, 2, 1)],
    *[(1, 1, -2, 0.5), (-1, 1, -2, 0.5), (-3, 1, -2, 0.5), (1, -2, -2, 0.5), (0, 1, -2, 0.5)],
    *[(1, 1, 0, 0.5), (0.5, 0.5, 2, 1), (1, 1, 1, 1), (1, 2, 3, NAN), (NAN, 2, 3, 0.5)],
    *[(1, -0.5, 1, 1), (1, 2, 3, 0), (1, 2, 3, -0.0), (0, 2, 3, 0.5), (3, 1, 2, -0.5)],
    *[(1, 2, -3, 1.5), (-4, 2.5, 1.5, 3), (2, 3, 6.5, 1), (1e-300, 1, 1, 0.5)],
]


def test_edges(evaluate):
    args = np.array(EDGES).T
    (ours, slopes), _ = evaluate(args)
    assert_close(ours, scipy.special.hyp2f1(*args), 1e-13, args, 1e-10)
    assert (slopes[args[3] == 0] == 0).all()
    assert np.isnan(slopes[np.isinf(ours)]).all()
    (_, slopes), _ = evaluate(args, which=3)
    assert np.isnan(slopes).all()  # Aesara raises.


TOLERANCE = {"float64": 1e-13, "float32": 2e-5, "float16": 4e-3}
DTYPES = "bool", "int8", "uint8", "float16"


def test_dtypes(evaluate):
    """The declared dtype, and the values at double precision rounded."""
    points = [1.0, 2, 3], [2.0, 1, 1], [1.0, 3, 4], [0.5, -2, 0]
    xs = [at.vector(dtype=d) for d in DTYPES]
    given = [np.array(p).astype(d) for p, d in zip(points, DTYPES, strict=True)]
    outputs = [Elemwise(aem.hyp2f1)(*xs), Elemwise(aem.hyp2f1_der)(*xs, 1)]
    f = jaxprgen.compile(xs, outputs)
    assert [x.dtype for x in f.jaxpr(*given).out_avals] == [out.dtype for out in outputs]
    if not is_deep():  # XLA takes seconds for each program that computes these functions.
        return
    theirs, _ = evaluate([x.astype("float64") for x in given], which=1)
    for mine, out, yours in zip(f(*given), outputs, theirs, strict=True):
        np.testing.assert_allclose(mine.astype("float64"), yours, *[TOLERANCE[out.dtype]] * 2)


def test_shapes_broadcast():
    a, z = at.dscalar("a"), at.dmatrix("z")
    f = jaxprgen.compile([a, z], Elemwise(aem.hyp2f1)(a, 2.0, 1.5, z))
    points = np.array([[0.3], [-4.0]])
    np.testing.assert_allclose(
        f(0.5, points), scipy.special.hyp2f1(0.5, 2, 1.5, points), rtol=1e-13
    )
    assert f.jaxpr(0.5, np.empty((0, 3))).out_avals[0].shape == (0, 3)


def test_complex_numbers_are_unsupported():
    z = at.zvector("z")
    f = jaxprgen.compile([z], Elemwise(aem.hyp2f1)(1.0, 2.0, 3.0, z))
    with pytest.raises(UnsupportedOpError, match="JAX has no hyp2f1 of complex numbers"):
        f(np.ones(2, complex))
