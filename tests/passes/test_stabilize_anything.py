"""`Stabilize` and `Simplify` keep unusual programs correct."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxprgen._jax import check_jaxpr
from jaxprgen.passes import Simplify, Stabilize

NUMBERS = (0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 3.0, -30.0, 30.0)
exp, log = jnp.exp, jnp.log


def both(stage, fun, *args):
    """Evaluate a program before and after a pass, equation by equation."""
    closed = jax.make_jaxpr(fun)(*args)
    after = stage(closed)
    check_jaxpr(after.jaxpr)
    assert [v.aval for v in after.jaxpr.outvars] == [v.aval for v in closed.jaxpr.outvars]
    leaves = jax.tree.leaves(args)
    with jax.disable_jit():
        return [jax.core.eval_jaxpr(c.jaxpr, c.consts, *leaves) for c in (closed, after)]


def bits(x):
    """Return real and imaginary parts, and their signs unless they are NaN."""
    x = np.asarray(x)
    parts = np.stack([x.real, x.imag])
    return parts, np.where(np.isnan(parts), False, np.signbit(parts))


def every_formula(x):
    sure = log(1 + exp(x)), log(1 - exp(-abs(x))), log(lax.erfc(x)), log(lax.logistic(x))
    rows = log(lax.reduce_sum(exp(x), [0])), log(exp(x) + exp(-x)), 1 / (1 + exp(x))
    ratios = exp(x) / (1 + exp(x)), exp(-x * x) / lax.erfc(x), exp(x) / (1 - exp(x))
    return *sure, *rows, *ratios, lax.sqrt(x * x), log(1 + x), 1 - lax.erf(x)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_formulas_of_any_precision(dtype):
    args = jnp.asarray(NUMBERS, dtype)
    for before, after in zip(*both(Stabilize(), every_formula, args), strict=True):
        before, after = np.asarray(before, float), np.asarray(after, float)
        finite = np.isfinite(before)
        rounding = 8 * float(jnp.finfo(dtype).eps)
        np.testing.assert_allclose(after[finite], before[finite], rounding, rounding)


def test_complex_algebra_is_exact():
    """In a complex product, infinity times a zero part gives NaN, and -0 becomes 0."""
    x = np.array([complex(a, b) for a in NUMBERS for b in NUMBERS])

    def fun(x):
        return x * 1, x / 1, x - 0.0, x + -0.0, x + (-0.0 - 0j), jnp.negative(-x), x - -x, abs(-x)

    for before, after in zip(*both(Simplify(), fun, x), strict=True):
        for wanted, found in zip(bits(before), bits(after), strict=True):
            np.testing.assert_array_equal(found, wanted)
    closed = jax.make_jaxpr(lambda x: (x * 1, x / 1, x - 0.0))(x)
    assert not Simplify(reassociate=True)(closed).jaxpr.eqns


@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_sums_of_empty_arrays(axis):
    """An empty array has no maximum to subtract."""

    def fun(x):
        total = exp(x).sum(axis, keepdims=True)
        return log(exp(x).sum(axis)), exp(x) / total, log(exp(x) / total), total / total

    for before, after in zip(*both(Stabilize(), fun, np.zeros((3, 0))), strict=True):
        np.testing.assert_array_equal(after, before)


def test_traced_constants_are_not_folded():
    def fun(x, y):
        closed = Stabilize()(jax.make_jaxpr(lambda x: log(1 + exp(x)) * y)(x))
        return jax.core.eval_jaxpr(closed.jaxpr, closed.consts, x)[0]

    x = np.linspace(-1, 1, 3)
    wanted = np.logaddexp(0, x) * x
    np.testing.assert_allclose(jax.jit(fun)(x, x), wanted, 1e-14)
    np.testing.assert_allclose(jax.vmap(fun)(x, x), wanted, 1e-14)


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(257.0, "int8"), (256.0, "uint8"), (np.nan, "int32"), (np.inf, "int32"), (1e39, "float16")],
)
def test_converted_numbers(number, dtype):
    """Compilers convert numbers that are out of range differently than NumPy."""

    def fun(x):
        y = lax.convert_element_type(lax.broadcast(number, (3,)), dtype)
        return x * y, x + y

    for before, after in zip(*both(Simplify(), fun, np.arange(3).astype(dtype)), strict=True):
        np.testing.assert_array_equal(after, before)


def test_remaining_factors_keep_their_order():
    """Another order may overflow or underflow."""

    def fun(x, a, b):
        top, bottom = exp(x), 1 + exp(x)
        first = (a / a) * top * ((a / a) / bottom), top * (b * (b * a)) / bottom
        second = top * (b / (a * b)) / bottom, top * (b / (b / b)) / bottom
        third = -(b * top * a * a) / -(bottom * a), 1 / (1 / (a * top) * bottom) / a
        return *first, *second, *third, (a * (top / (bottom * a))) * a, (a * top) / (top * a)

    args = np.linspace(0.5, 2, 3), np.full(3, 1e200), np.full(3, 1e-200)
    for before, after in zip(*both(Stabilize(), fun, *args), strict=True):
        np.testing.assert_allclose(after, before, 1e-14)
    primitives = [e.primitive.name for e in Stabilize()(jax.make_jaxpr(fun)(*args)).jaxpr.eqns]
    assert primitives.count("logistic") == 1 and "exp" not in primitives


def test_products_of_thousands_of_divisions():
    def fun(x):
        y = exp(x)
        for _ in range(3000):
            y = 1 / y
        return y / (1 + exp(x))

    for before, after in zip(*both(Stabilize(), fun, np.ones(3)), strict=True):
        np.testing.assert_allclose(after, before, 1e-14)


def test_arrays_with_explicit_sharding():
    sharding = jax.sharding
    mesh = jax.make_mesh((1,), ("i",), axis_types=(sharding.AxisType.Explicit,))
    placed = sharding.NamedSharding(mesh, sharding.PartitionSpec("i"))
    with jax.set_mesh(mesh):
        closed = jax.make_jaxpr(lambda x: log(1 + exp(x)))(jax.device_put(np.ones(3), placed))
        check_jaxpr(Stabilize()(closed).jaxpr)
