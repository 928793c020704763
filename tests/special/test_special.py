"""Special functions beyond the tables of aesara/test_scalar.py."""

import aesara
import aesara.tensor as at
import jax
import mpmath
import numpy as np
import pytest
from aesara.scalar import math as aem
from aesara.tensor.elemwise import Elemwise
from laws import assert_agrees, assert_same
from profiles import sample

import jaxprgen
from jaxprgen.errors import UnsupportedOpError

ORDERS = [0.5, 1, 2.5, 7, 20, 0, np.inf, -1]
POINTS = [0.25, 1, 3.5, 8, 30, 0, np.inf, -1]
PAIRS = [("float64", "float64"), ("float32", "float32"), ("int8", "float32"), ("bool", "float64")]


def as_dtype(x, dtype):
    return x.astype(dtype) if dtype.startswith("float") else np.ceil(np.minimum(x, 9)).astype(dtype)


def compare(op, grid, kinds, rtol=None):
    """One program with an output per combination of dtypes, at all points of the grid."""
    inputs, args, outputs = [], [], []
    for dtypes in kinds:
        xs = [at.vector(dtype=dtype) for dtype in dtypes]
        inputs += xs
        args += [as_dtype(x, dtype) for x, dtype in zip(grid, dtypes, strict=True)]
        outputs.append(Elemwise(op)(*xs))
    assert_agrees(inputs, outputs, args, rtol=rtol)


INCOMPLETE = [aem.gammainc, aem.gammaincc, aem.gammau, aem.gammal, aem.chi2sf]


@pytest.mark.parametrize("op", INCOMPLETE, ids=str)
def test_incomplete_gamma_functions(op):
    grid = np.ravel(np.meshgrid(ORDERS, POINTS)).reshape(2, -1)
    grid = grid[:, ~np.isinf(grid).all(0)]  # Both infinite: there is no limit.
    compare(op, grid, sample(PAIRS, 2))


@pytest.mark.parametrize("op", [aem.gammainc_der, aem.gammaincc_der], ids=str)
def test_derivatives_of_incomplete_gamma_functions(op):
    # Aesara's series end at a relative error of about 1e-6 if operands are double precision
    # numbers, positive and finite.
    grid = np.ravel(np.meshgrid(ORDERS[:5], POINTS[:5])).reshape(2, -1)
    compare(op, grid, PAIRS[:1], rtol=1e-5)


def test_incomplete_beta_function():
    grid = np.meshgrid([0.5, 1, 7, 20], [0.5, 2, 30], [0, 0.25, 0.5, 0.99, 1])
    kinds = [("float64",) * 3, ("float32",) * 3, ("int8", "float32", "float32")]
    compare(aem.betainc, np.ravel(grid).reshape(3, -1), sample(kinds, 1))


# SciPy has these of complex numbers, JAX does not.
@pytest.mark.parametrize("op", [aem.erf, aem.gamma, aem.psi], ids=str)
def test_special_functions_of_complex_numbers_are_unsupported(op):
    x = at.zvector("x")
    f = jaxprgen.compile([x], Elemwise(op)(x))
    with pytest.raises(UnsupportedOpError, match=f"of complex numbers.\n  in Elemwise{{{op}}}"):
        f(np.ones(2, complex))


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
def test_integral_powers_of_two_are_exact(dtype):
    x, exponents = at.vector("x", dtype=dtype), np.arange(-120, 121).astype(dtype)
    f = assert_agrees([x], at.exp2(x), [exponents])
    np.testing.assert_array_equal(f(exponents), [2.0 ** int(n) for n in exponents])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hyperbolic_functions_are_as_exact_as_exponentials(dtype):
    x = at.vector("x", dtype=dtype)
    limit = np.log(np.finfo(dtype).max)  # That of results is farther off by log(2).
    steps = np.concatenate([np.linspace(-limit, limit, 2001), np.linspace(-2, 2, 2001)])
    points = np.array([*steps, limit + 0.6, -limit - 0.6, 0.0, -0.0, np.inf, -np.inf], dtype)
    ours = jaxprgen.compile([x], [at.sinh(x), at.cosh(x)])(points)
    for mine, function in zip(ours, (np.sinh, np.cosh), strict=True):
        wanted = function(points.astype(np.longdouble))
        np.testing.assert_allclose(mine, wanted, rtol=4 * np.finfo(dtype).eps)
        np.testing.assert_array_equal(np.signbit(mine), np.signbit(wanted))
    f = jaxprgen.compile([x], at.sinh(x).sum() + 2 * at.cosh(x).sum())
    points = np.array([-limit + 1, -3, -1.5, -0.3, 0.0, 0.3, 1.5, limit - 1], dtype)
    wanted = np.cosh(points) + 2 * np.sinh(points)
    np.testing.assert_allclose(jax.grad(f)(points), wanted, rtol=1e-5)


# --- Gradients: what is emitted as a choice among branches must differentiate too ---------

INSIDE = [0.2, 0.5, 0.9]
FUNCTIONS = {
    **dict.fromkeys([at.exp, at.exp2, at.expm1, at.log, at.log2, at.log10, at.log1p], INSIDE),
    **dict.fromkeys([at.sqrt, at.square, at.reciprocal, at.abs, at.neg, at.sgn, at.floor], INSIDE),
    **dict.fromkeys([at.sin, at.cos, at.tan, at.sinh, at.cosh, at.tanh, at.deg2rad], INSIDE),
    **dict.fromkeys([at.arcsin, at.arccos, at.arctan, at.arcsinh, at.arctanh], INSIDE),
    at.arccosh: [1.5, 3.0],
    at.gamma: [0.3, 1.7, 4.2, -0.5, -1.5],
    at.gammaln: [0.3, 1.7, 4.2],
    at.psi: [0.3, 1.7, 4.2],
    at.erf: [-1.5, 0.0, 0.3],
    at.erfc: [-1.5, 0.0, 0.3],
    at.erfinv: [-0.5, 0.0, 0.3],
    at.i0: [-2.0, 0.0, 0.5],
    at.sigmoid: [-40.0, 0.0, 40.0],
    at.softplus: [-800.0, -0.5, 0.0, 0.5, 800.0],
    at.log1mexp: [-30.0, -1.0, -0.7, -0.01, -1e-18],
    at.xlogx.xlogx: [0.3, 2.0],
    (lambda x: at.xlogx.xlogy0(2.0, x)): [0.3, 2.0],
    (lambda x: at.xlogx.xlogy0(0.0, x)): [0.3],
    (lambda x: at.gammainc(2.5, x)): [0.3, 4.0],
    (lambda x: at.gammaincc(2.5, x)): [0.3, 4.0],
    (lambda x: at.clip(x, -1.0, 1.0)): [-2.0, 0.5, 2.0],
    (lambda x: at.power(x, 3)): [-2.0, 0.0, 2.0],
    (lambda x: at.power(x, 0.5)): INSIDE,
    (lambda x: at.power(np.float64(2.5), x)): INSIDE,
    (lambda x: at.mod(x, 1.5)): [-2.0, 0.5, 2.0],
    (lambda x: at.mod(2.0, x)): [-0.3, 0.7],
    (lambda x: at.arctan2(x, 0.5)): [-0.3, 0.0, 0.7],
    (lambda x: at.switch(x > 0, at.sqrt(at.abs(x)), x**2)): [-0.5, 0.5],
}


def test_gradients_by_aesara_and_by_jax_agree():
    functions, points = zip(*sample(FUNCTIONS.items(), len(FUNCTIONS) // 2), strict=True)
    xs = [at.vector() for _ in functions]
    values = [function(x) for function, x in zip(functions, xs, strict=True)]
    cost = sum(value.sum() for value in values)
    args = [np.array(x) for x in points]
    gradients = aesara.grad(cost, xs)
    ours = assert_agrees(xs, gradients, args)(*args)
    theirs = jax.jit(jax.grad(jaxprgen.compile(xs, cost), range(len(xs))))(*args)
    for mine, yours, value in zip(ours, theirs, values, strict=True):
        assert_same(mine, yours, 1e-9, where=str(value.owner))


def test_the_second_derivative_of_softplus():
    x = at.scalar("x")
    f = jaxprgen.compile([x], at.softplus(x))
    assert_same(jax.grad(f)(0.0), 0.5)
    assert_same(jax.grad(jax.grad(f))(0.0), 0.25)


@pytest.mark.parametrize("at_most", [1e-3, 1, 2, 40, 700])
def test_log1mexp_is_accurate_to_the_last_places(at_most):
    """Also where JAX's `log1p` is not; so are the derivatives."""
    x = at.vector("x")
    points = -np.geomspace(at_most / 20, at_most, 200)
    f = jaxprgen.compile([x], at.log1mexp(x))
    with mpmath.workdps(400):
        powers = [mpmath.exp(mpmath.mpf(v)) for v in points]
        value = np.array([mpmath.log(1 - p) for p in powers], float)
        slope = np.array([p / (p - 1) for p in powers], float)
        bend = np.array([-p / (p - 1) ** 2 for p in powers], float)
    np.testing.assert_allclose(f(points), value, rtol=1e-15)
    by_jax = jax.grad(lambda x: f(x).sum())
    np.testing.assert_allclose(by_jax(points), slope, rtol=1e-15)
    np.testing.assert_allclose(jax.grad(lambda x: by_jax(x).sum())(points), bend, rtol=2e-15)
    written = jaxprgen.compile([x], aesara.grad(at.log1mexp(x).sum(), x))
    np.testing.assert_allclose(written(points), slope, rtol=1e-15)
