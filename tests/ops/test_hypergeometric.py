"""Gauss's hypergeometric function: accuracy, derivatives, dtypes, edges."""

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
from jaxprgen.errors import UndefinedGradientError, UnsupportedOpError

SHORTFALLS = {
    "Hyp2F1, Hyp2F1Der": "Accurate to 1e-10 for c > 0 and parameters up to 300, and for c > -5 and "
    "|a|, |b| <= 5. To 1e-7 only where z < -1 and a and b are both above 30 and above 2 c. With "
    "lower c digits are lost as parameters grow: 1e-8 at (9, 9; -9), all of them below -20. What "
    "overflows on the way, beyond parameters of about 500, is infinite or NaN, and so is what "
    "takes more than 20,000 steps.",
}


def falls_short(a, b, c, z):
    return (z < -1) & (a > 30) & (b > 30) & (a > 2 * c)


def compiled(op, kind=at.dvector, *constants):
    xs = [kind() for _ in range(4)]
    return jaxprgen.compile(xs, Elemwise(op)(*xs, *constants))


def test_accuracy_to_ten_digits():
    args, values = stored("hyp2f1")
    f = compiled(aem.hyp2f1)
    check_jaxpr(f.jaxpr(*args).jaxpr)
    assert len(values) > 200
    ours = f(*args)
    short = falls_short(*args)
    assert_close(ours[~short], values[~short], 1e-10, [x[~short] for x in args])
    assert_close(ours[short], values[short], 1e-7, [x[short] for x in args])


def test_derivatives_to_ten_digits():
    """One program for all three: which parameter is meant is an operand."""
    tables = [stored(f"hyp2f1_der_{name}") for name in "abc"]
    args = [np.concatenate(columns) for columns in zip(*[t[0] for t in tables], strict=True)]
    values = np.concatenate([t[1] for t in tables])
    which = np.repeat([0, 1, 2], [len(t[1]) for t in tables])
    xs = [*(at.dvector() for _ in range(4)), at.lvector()]
    f = jaxprgen.compile(xs, Elemwise(aem.hyp2f1_der)(*xs))
    ours, short = f(*args, which), falls_short(*args)
    assert_close(ours[~short], values[~short], 1e-10, [x[~short] for x in args])
    assert_close(ours[short], values[short], 1e-7, [x[short] for x in args])


def test_gradients_by_jax():
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
    raised = compiled(aem.hyp2f1)(a + 1, b + 1, c + 1, z)
    assert_close(found[3], a * b / c * raised, 1e-8, args)


def test_second_derivatives():
    f = compiled(aem.hyp2f1, at.dscalar)
    point = 0.7, -1.3, 2.2, 0.4
    second = jax.grad(jax.grad(f, 3), 3)(*point)
    a, b, c, z = point
    raised = scipy.special.hyp2f1(a + 2, b + 2, c + 2, z)
    np.testing.assert_allclose(second, a * (a + 1) * b * (b + 1) / c / (c + 1) * raised, rtol=1e-10)
    one, other = jax.grad(jax.grad(f, 0), 3)(*point), jax.grad(jax.grad(f, 3), 0)(*point)
    np.testing.assert_allclose(one, other, rtol=1e-10)
    with pytest.raises(UndefinedGradientError, match="no second derivative"):
        jax.grad(jax.grad(f, 0), 1)(*point)


INF, NAN = np.inf, np.nan
EDGES = [
    *[(1, 1, 2, 1.5), (0.5, 0.3, 0.7, 2), (-2, 1, 2, 1.5), (1, 1, 2, 1), (-2, 1, 2, 1)],
    *[(1, 1, -2, 0.5), (-1, 1, -2, 0.5), (-3, 1, -2, 0.5), (1, -2, -2, 0.5), (0, 1, -2, 0.5)],
    *[(1, 1, 0, 0.5), (0.5, 0.5, 2, 1), (1, 1, 1, 1), (1, 2, 3, NAN), (NAN, 2, 3, 0.5)],
    *[(1, -0.5, 1, 1), (1, 2, 3, 0), (1, 2, 3, -0.0), (0, 2, 3, 0.5), (3, 1, 2, -0.5)],
    *[(1, 2, -3, 1.5), (-4, 2.5, 1.5, 3), (2, 3, 6.5, 1), (1e-300, 1, 1, 0.5)],
]


def test_edges():
    args = np.array(EDGES).T
    ours = compiled(aem.hyp2f1)(*args)
    assert_close(ours, scipy.special.hyp2f1(*args), 1e-13, args, 1e-10)
    slopes = compiled(aem.hyp2f1_der, at.dvector, 0)(*args)
    assert (slopes[args[3] == 0] == 0).all()
    assert np.isnan(slopes[np.isinf(ours)]).all()
    assert np.isnan(compiled(aem.hyp2f1_der, at.dvector, 3)(*args)[0])  # Aesara raises.


TOLERANCE = {"float64": 1e-13, "float32": 2e-5, "float16": 4e-3}
DTYPES = [("bool", "int8", "uint8", "float16")]


@pytest.mark.parametrize("op", [aem.hyp2f1, aem.hyp2f1_der], ids=str)
def test_dtypes(op):
    """The declared dtype, and the values at double precision rounded."""
    choice = [] if op.nin == 4 else [1]
    points = [1.0, 2, 3], [2.0, 1, 1], [1.0, 3, 4], [0.5, -2, 0]
    inputs, given, outputs = [], [], []
    for dtypes in DTYPES:
        xs = [at.vector(dtype=d) for d in dtypes]
        inputs += xs
        given += [np.array(p).astype(d) for p, d in zip(points, dtypes, strict=True)]
        outputs.append(Elemwise(op)(*xs, *choice))
    ours = jaxprgen.compile(inputs, outputs)(*given)
    f = compiled(op, at.dvector, *choice)
    for i, (mine, out) in enumerate(zip(ours, outputs, strict=True)):
        exact = [x.astype("float64") for x in given[4 * i : 4 * i + 4]]
        assert mine.dtype == out.dtype
        yours = np.asarray(f(*exact))
        np.testing.assert_allclose(mine.astype("float64"), yours, *[TOLERANCE[out.dtype]] * 2)


def test_shapes_broadcast():
    a, z = at.dscalar("a"), at.dmatrix("z")
    f = jaxprgen.compile([a, z], Elemwise(aem.hyp2f1)(a, 2.0, 1.5, z))
    points = np.array([[0.3], [-4.0]])
    np.testing.assert_allclose(
        f(0.5, points), scipy.special.hyp2f1(0.5, 2, 1.5, points), rtol=1e-13
    )
    assert f(0.5, np.empty((0, 3))).shape == (0, 3)


def test_complex_numbers_are_unsupported():
    z = at.zvector("z")
    f = jaxprgen.compile([z], Elemwise(aem.hyp2f1)(1.0, 2.0, 3.0, z))
    with pytest.raises(UnsupportedOpError, match="JAX has no hyp2f1 of complex numbers"):
        f(np.ones(2, complex))
