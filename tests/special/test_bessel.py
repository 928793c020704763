"""Bessel functions beyond the tables of aesara/test_scalar.py."""

import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.special
from laws import assert_same
from stored import whole

import jaxprgen
from jaxprgen.errors import UndefinedGradientError

# The orders and arguments are the doubles that are written.
JV, IV = whole("jv"), whole("iv")


def bound(v):
    return np.maximum(1e-12, 1e-15 * np.abs(v))


def error(ours, theirs, v, x):
    """Relative to the value, or where the function oscillates to the size of its waves."""
    waves = np.sqrt(2 / np.pi / np.maximum(np.abs(x), 1)) * (np.abs(x) > np.abs(v))
    return np.abs(ours - theirs) / np.maximum(np.abs(theirs), waves)


def scalar_of(op, *orders):
    x = at.scalar("x")
    return jaxprgen.compile([x], op(*orders, x))


# --- Values -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def extremes():
    return np.ravel(np.meshgrid(ORDERS, ARGUMENTS)).reshape(2, -1)


@pytest.fixture(scope="module")
def values(extremes):
    """Of one program: J at the points of its table, I at those of its own, both at extremes."""
    of_j, of_i = (np.r_["1", t.T[:2], extremes] for t in (JV, IV))
    xs = [at.vector() for _ in range(4)]
    f = jaxprgen.compile(xs, [at.jv(*xs[:2]), at.iv(*xs[2:])])
    j, i = f(*of_j, *of_i)
    return (j[: len(JV)], i[: len(IV)]), (j[len(JV) :], i[len(IV) :])


def test_values_of_the_first_kind(values):
    v, x, theirs = JV.T
    assert (error(values[0][0], theirs, v, x) < bound(v)).all()


def test_modified_values(values):
    v, _, theirs = IV.T
    assert (np.abs(values[0][1] / theirs - 1) < bound(v)).all()


@pytest.mark.parametrize(("order", "op"), [(0, at.j0), (1, at.j1)], ids=["j0", "j1"])
def test_values_of_orders_0_and_1(order, op):
    v, x, theirs = JV[JV[:, 0] == order].T
    argument = at.vector("x")
    assert error(jaxprgen.compile([argument], op(argument))(x), theirs, v, x).max() < 1e-13


def test_modified_values_where_the_exponential_overflows():
    x = at.scalar("x")
    ours = jaxprgen.compile([x], [at.i0(x), at.i1(x)])(712.0)
    # `mpmath.besseli(n, 712)`.
    theirs = [2.4684110577627523e307, 2.4666770135246153e307]
    assert_same(ours, theirs)


ORDERS = [-np.inf, -3, -1.5, -1, -0.5, 0, 0.5, 1, 2, 1e9, np.inf, np.nan]
ARGUMENTS = [0, -0.0, 1e-300, -1, np.inf, -np.inf, np.nan]


def test_extremes(values, extremes):
    v, x = extremes
    apart = np.isinf(v) & (x == -1)  # NaN for J in SciPy, 0 for I.
    v, x = v[~apart], x[~apart]
    ours = [np.asarray(y)[~apart] for y in values[1]]
    assert_same(ours[0], scipy.special.jv(v, x))
    # SciPy says inf where the limit at zero is -inf.
    theirs = scipy.special.iv(v, x)
    assert_same(ours[1], np.where((v == -1.5) & np.isinf(theirs), -np.inf, theirs))


@pytest.mark.parametrize("shape", [(), (0,), (1, 3)])
def test_shapes(shape):
    x = at.TensorType("float64", [None] * len(shape))("x")
    ours = jaxprgen.compile([x], [at.j1(x), at.iv(0.5, x)])(np.ones(shape))
    theirs = scipy.special.j1(1), scipy.special.iv(0.5, 1)
    for mine, yours in zip(ours, theirs, strict=True):
        assert_same(mine, np.full(shape, yours))


def test_single_precision_without_64_bits():
    home = jax if hasattr(jax, "enable_x64") else jax.experimental
    v, x, theirs = JV[(abs(JV[:, 0]) < 40) & (abs(JV[:, 1]) < 1e4)].T
    order, argument = at.fvector("v"), at.fvector("x")
    with home.enable_x64(False):
        f = jaxprgen.compile([order, argument], at.jv(order, argument))
        ours = f(v.astype("float32"), x.astype("float32"))
    assert ours.dtype == np.float32
    kept = np.abs(theirs) < 1e30
    assert error(ours, theirs, v, x)[kept].max() < 1e-3


# --- Derivatives --------------------------------------------------------------------------

POINTS = np.array([0.0, 1e-3, 0.5, 3.0, 7.99, 8.01, 20.0, 100.0])


FIRST = {
    "j0": (scalar_of(at.j0), lambda x: -scipy.special.j1(x)),
    "j1": (scalar_of(at.j1), lambda x: scipy.special.jvp(1, x)),
    "i1": (scalar_of(at.i1), lambda x: scipy.special.ivp(1, x)),
    "jv(2)": (scalar_of(at.jv, 2), lambda x: scipy.special.jvp(2, x)),
    "iv(1.5)": (scalar_of(at.iv, 1.5), lambda x: scipy.special.ivp(1.5, x)),
}


@pytest.fixture(scope="module")
def derivatives():
    """At POINTS, of one program: the first derivatives by name, and the second one of j0."""

    @jax.jit
    def program(x):
        first = {name: jax.vmap(jax.grad(f))(x) for name, (f, _) in FIRST.items()}
        j0 = FIRST["j0"][0]
        return first, jax.vmap(j0)(x), jax.vmap(jax.grad(jax.grad(j0)))(x)

    return program(POINTS)


@pytest.mark.parametrize("name", FIRST)
def test_first_derivatives(name, derivatives):
    theirs = FIRST[name][1](POINTS)
    np.testing.assert_allclose(derivatives[0][name], theirs, rtol=1e-9, atol=1e-13)


def test_the_second_derivative_solves_the_equation(derivatives):
    """``x² y'' + x y' + x² y = 0``: DLMF 10.2.1."""
    first, y, second = derivatives
    rest = second[2:] + first["j0"][2:] / POINTS[2:] + y[2:]
    np.testing.assert_allclose(rest, 0, atol=1e-11)
    assert_same(second[0], np.float64(-0.5))


def test_there_is_no_derivative_by_the_order():
    v, x = at.scalar("v"), at.scalar("x")
    for op in (at.jv, at.iv):
        with pytest.raises(UndefinedGradientError) as caught:
            jax.grad(jaxprgen.compile([v, x], op(v, x)))(0.5, 2.0)
        assert str(caught.value).splitlines() == [
            "Bessel functions have no derivative with respect to their order here, as in Aesara. "
            "Differentiate with respect to the argument, or stop the gradient of the order with "
            "disconnected_grad."
        ]


def test_the_order_may_vary_beside_the_argument():
    v, x = at.scalar("v"), at.scalar("x")
    f = jax.grad(jaxprgen.compile([v, x], at.jv(v, x)), 1)
    orders, points = np.array([0.25, 2.0, 12.5]), np.array([3.0, 9.0, 11.0])
    theirs = scipy.special.jvp(orders, points)
    np.testing.assert_allclose(jax.jit(jax.vmap(f))(orders, points), theirs, rtol=1e-9)


def test_complex_arguments_are_refused():
    x = at.zvector("x")
    f = jaxprgen.compile([x], at.jv(1, x))
    with pytest.raises(jaxprgen.errors.UnsupportedOpError, match="no jv of complex numbers"):
        f(np.ones(2, complex))
