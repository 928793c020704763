"""The error functions and Owen's T function beyond the tables of aesara/test_scalar.py."""

import aesara.tensor as at
import jax
import mpmath
import numpy as np
import pytest
import scipy.special
from laws import assert_same
from stored import whole

import jaxprgen

# With 400 digits: argument, `exp(x²) erfc(x)` and its derivative; argument and inverse; and with 50
# digits h, a and the integral that defines T.
ERFCX, ERFCINV, ERFINV, OWENS_T = map(whole, ["erfcx", "erfcinv", "erfinv", "owens_t"])


def scalar_of(op):
    x = at.scalar("x")
    return jaxprgen.compile([x], op(x))


def values_and_derivatives(op, x):
    """A function's values, first and second derivatives, of one program."""
    f = scalar_of(op)
    orders = f, jax.grad(f), jax.grad(jax.grad(f))
    return jax.jit(lambda x: [jax.vmap(g)(x) for g in orders])(x)


def test_erfcx_and_its_derivative():
    x, value, slope = ERFCX.T
    ours = values_and_derivatives(at.erfcx, x)
    np.testing.assert_allclose(ours[0], value, rtol=1e-13)
    np.testing.assert_allclose(ours[1], slope, rtol=1e-11)
    curvature = ours[2][1:10]
    theirs = 2 * value[1:10] + 2 * x[1:10] * slope[1:10]
    np.testing.assert_allclose(curvature, theirs, rtol=1e-9, atol=1e-9)


def test_the_slope_of_erfcx_does_not_cancel():
    points = np.concatenate([np.linspace(0, 30, 200), np.logspace(1.5, 4, 20)])
    slope = jax.vmap(jax.grad(scalar_of(at.erfcx)))(points)
    with mpmath.workdps(60):
        exact = [
            2 * x * mpmath.exp(x * x) * mpmath.erfc(x) - 2 / mpmath.sqrt(mpmath.pi)
            for x in map(mpmath.mpf, points)
        ]
    np.testing.assert_allclose(slope, np.array(exact, float), rtol=2e-15)


@pytest.mark.parametrize(
    ("op", "table", "sign"),
    [(at.erfinv, ERFINV, 1), (at.erfcinv, ERFCINV, -1)],
    ids=["erfinv", "erfcinv"],
)
def test_inverses_and_their_derivatives(op, table, sign):
    x, value = table.T
    ours = values_and_derivatives(op, x)
    np.testing.assert_allclose(ours[0], value, rtol=2e-15)
    slope = sign * np.sqrt(np.pi) / 2 * np.exp(value**2)
    np.testing.assert_allclose(ours[1], slope, rtol=1e-11)
    middle = np.abs(value) < 5
    curvature = ours[2][middle]
    theirs = 2 * value[middle] * slope[middle] ** 2
    np.testing.assert_allclose(curvature, theirs, rtol=1e-11)


def test_extremes_of_inverses():
    x = np.array([0, 1, -1, 2, -0.5, 2.5, np.inf, -np.inf, np.nan])
    y = at.vector("y")
    ours = jaxprgen.compile([y], [at.erfinv(y), at.erfcinv(y), at.erfcx(y)])(x)
    theirs = [f(x) for f in (scipy.special.erfinv, scipy.special.erfcinv, scipy.special.erfcx)]
    for mine, yours in zip(ours, theirs, strict=True):
        assert_same(mine, yours)


@pytest.fixture(scope="module")
def owens_t():
    h, a = at.scalar("h"), at.scalar("a")
    return jaxprgen.compile([h, a], at.owens_t(h, a))


def test_owens_t(owens_t):
    h, a, value = OWENS_T.T
    np.testing.assert_allclose(jax.vmap(owens_t)(h, a), value, rtol=1e-12)


def test_extremes_of_owens_t(owens_t):
    points = [0, -0.0, 1, -2, 1e-300, 1e200, np.inf, -np.inf, np.nan]
    h, a = np.ravel(np.meshgrid(points, points)).reshape(2, -1)
    ours = jax.vmap(owens_t)(h, a)
    assert_same(ours, scipy.special.owens_t(h, a))


def test_derivatives_of_owens_t(owens_t):
    kept = (abs(OWENS_T[:, 0]) > 0.05) & (abs(OWENS_T[:, 0]) < 5) & (abs(OWENS_T[:, 1]) < 10)
    h, a, _ = OWENS_T[kept].T
    orders = jax.grad(owens_t, (0, 1)), jax.hessian(owens_t, (0, 1))
    (by_h, by_a), hessian = jax.jit(lambda *xs: [jax.vmap(g)(*xs) for g in orders])(h, a)
    step = 1e-5
    # Differences, extrapolated from two steps.
    for ours, direction in ((by_h, (1, 0)), (by_a, (0, 1))):
        wide, narrow = (
            (
                scipy.special.owens_t(h + k * direction[0], a + k * direction[1])
                - scipy.special.owens_t(h - k * direction[0], a - k * direction[1])
            )
            / (2 * k)
            for k in (100 * step, 50 * step)
        )
        np.testing.assert_allclose(ours, narrow + (narrow - wide) / 3, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(hessian[0][1], hessian[1][0], rtol=1e-12, atol=1e-15)
    assert_same(hessian[0][1], -h * np.exp(-0.5 * (1 + a**2) * h**2) / (2 * np.pi), 1e-12)


def test_functions_that_loop_on_several_devices():
    """Sums that start at known numbers, and an operand that is the same on every device."""
    h, a = at.scalar("h"), at.vector("a")
    betainc, hyp2f1 = at.betainc(h, 2.0, a), at.hyp2f1(h, 2.0, 1.5, a)
    f = jaxprgen.compile([h, a], [at.jv(h, a), at.iv(1.5, a), betainc, hyp2f1])
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("i",))
    parts = jax.sharding.PartitionSpec("i")
    mapped = jax.shard_map(lambda x: f(0.5, x), mesh=mesh, in_specs=parts, out_specs=parts)
    x = np.linspace(0.1, 0.9, 4)
    scipys = scipy.special.jv, scipy.special.betainc, scipy.special.hyp2f1
    jv, betainc, hyp2f1 = (
        g(0.5, *rest, x) for g, rest in zip(scipys, ((), (2,), (2, 1.5)), strict=True)
    )
    for ours, theirs in zip(
        jax.jit(mapped)(x), (jv, scipy.special.iv(1.5, x), betainc, hyp2f1), strict=True
    ):
        assert_same(ours, theirs)


def test_derivatives_on_several_devices():
    """An operand that is the same on every device beside one that is not."""
    h, a = at.scalar("h"), at.vector("a")
    f = jaxprgen.compile([h, a], at.owens_t(h, a))
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("i",))
    parts = jax.sharding.PartitionSpec("i")
    mapped = jax.shard_map(lambda x: f(0.5, x), mesh=mesh, in_specs=parts, out_specs=parts)
    x = np.linspace(-2, 2, 4)
    ours = jax.grad(lambda x: mapped(x).sum())(x)
    assert_same(ours, np.exp(-0.125 * (1 + x**2)) / (2 * np.pi * (1 + x**2)), 1e-12)
