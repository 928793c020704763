"""The error functions and Owen's T function beyond the tables of aesara/test_scalar.py."""

import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.special
from laws import assert_same

import jaxprgen

# Computed with mpmath and 400 digits: argument, `exp(x²) erfc(x)` and its derivative; argument and
# inverse; and with 50 digits h, a and the integral that defines T.
ERFCX = [
    (-26.5, 1.924553162418569e305, -1.0200131760818414e307),
    (-5.25, 1867547484791.3345, -19609248590310.14),
    (-1.0, 5.008980080762283, -11.14633932862008),
    (-1e-10, 1.000000000112838, -1.1283791672955126),
    (1e-300, 1.0, -1.1283791670955126),
    (0.125, 0.8732218450821508, -0.9100737058249748),
    (0.75, 0.5069376502931449, -0.3679726916557954),
    (2.0, 0.25539567631050575, -0.1067964618534896),
    (5.5, 0.10096221839949909, -0.017794764701022602),
    (12.0, 0.04685422101489376, -0.003877862738062271),
    (50.0, 0.011281536265323773, -0.00022554056313532387),
    (10000.0, 5.641895807268084e-05, -5.641895750849127e-09),
    (10000000000.0, 5.641895835477563e-11, -5.6418958354775626e-21),
    (1e300, 5.641895835477562e-301, -0.0),
]
ERFCINV = [
    (1e-307, 26.514955020853616),
    (1e-100, 15.065574702592645),
    (1e-20, 6.601580622355143),
    (1e-08, 4.05223724387139),
    (0.01, 1.8213863677184496),
    (0.0749999, 1.2589788420989665),
    (0.15, 1.0179024648320276),
    (0.5, 0.4769362762044699),
    (0.85, 0.13372692166481973),
    (0.9999999999990905, 8.060186932677953e-13),
    (1.0000000000000002, -1.9678190753608283e-16),
    (1.25, -0.2253120550121781),
    (1.9, -1.1630871536766738),
    (1.99999, -3.1234132743398733),
    (1.9999999999990905, -5.05125408524939),
    (1.9999999999999998, -5.805018683193453),
]
ERFINV = [
    (1e-300, 8.86226925452758e-301),
    (1e-08, 8.86226925452758e-09),
    (0.5, 0.4769362762044699),
    (-0.5, -0.4769362762044699),
    (0.8499, 1.0176527650769829),
    (0.8501, 1.018152291584008),
    (-0.9, -1.1630871536766743),
    (0.999, 2.3267537655135246),
    (-0.99999999, -4.052237243268763),
    (0.9999999999990905, 5.05125408524939),
    (0.9999999999999999, 5.8635847487551676),
]
OWENS_T = [
    (0.0, 0.5, 0.07379180882521663),
    (0.0, 3.0, 0.19879180882521663),
    (1e-10, 0.75, 0.10241638234956672),
    (0.0625, 0.25, 0.03891193023470137),
    (0.25, 1.0, 0.1201285306350883),
    (1.0, 0.5, 0.04306469112078536),
    (1.0, -2.0, -0.0784681869930841),
    (-2.0, 0.99, 0.011101337081657992),
    (2.0, 1.01, 0.011130497529015319),
    (0.5, 40.0, 0.15426876936299344),
    (3.0, 10000.0, 0.0006749490158150473),
    (6.0, 0.3, 4.612562332286112e-10),
    (6.5, 4.0, 2.008000291929559e-11),
    (10.0, 0.001, 3.069648538798428e-26),
    (14.0, 0.4375, 3.8967684066397764e-45),
    (26.5, 1.828125, 2.423081330151735e-155),
    (37.0, 0.5, 2.862785611262393e-300),
    (0.001, 500.0, 0.24964271047455944),
    (0.02, 100.0, 0.24597697957543957),
]


def columns(table):
    return [np.array(column) for column in zip(*table, strict=True)]


def scalar_of(op):
    x = at.scalar("x")
    return jaxprgen.compile([x], op(x))


def values_and_derivatives(op, x):
    """A function's values, first and second derivatives, of one program."""
    f = scalar_of(op)
    orders = f, jax.grad(f), jax.grad(jax.grad(f))
    return jax.jit(lambda x: [jax.vmap(g)(x) for g in orders])(x)


def test_erfcx_and_its_derivative():
    x, value, slope = columns(ERFCX)
    ours = values_and_derivatives(at.erfcx, x)
    np.testing.assert_allclose(ours[0], value, rtol=1e-13)
    np.testing.assert_allclose(ours[1], slope, rtol=1e-11)
    curvature = ours[2][1:10]
    theirs = 2 * value[1:10] + 2 * x[1:10] * slope[1:10]
    np.testing.assert_allclose(curvature, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("op", "table", "sign"),
    [(at.erfinv, ERFINV, 1), (at.erfcinv, ERFCINV, -1)],
    ids=["erfinv", "erfcinv"],
)
def test_inverses_and_their_derivatives(op, table, sign):
    x, value = columns(table)
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
    h, a, value = columns(OWENS_T)
    np.testing.assert_allclose(jax.vmap(owens_t)(h, a), value, rtol=1e-12)


def test_extremes_of_owens_t(owens_t):
    points = [0, -0.0, 1, -2, 1e-300, 1e200, np.inf, -np.inf, np.nan]
    h, a = np.ravel(np.meshgrid(points, points)).reshape(2, -1)
    ours = jax.vmap(owens_t)(h, a)
    assert_same(ours, scipy.special.owens_t(h, a))


def test_derivatives_of_owens_t(owens_t):
    h, a, _ = columns([row for row in OWENS_T if 0.05 < abs(row[0]) < 5 and abs(row[1]) < 10])
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
