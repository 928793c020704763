"""`FewerKernels`: joined rows and gamma functions, their values and derivatives."""

import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from laws import in_one_program, primitives
from profiles import in_turn, sample

import jaxprgen
from jaxprgen.passes import FewerKernels

N = 12
EVERY = tuple(range(N))


def theirs(*xs):
    return jnp.concatenate([x[None] for x in xs])


ours = jaxprgen.transform(theirs, FewerKernels())


TRANSFORMATIONS = {
    "value": lambda f: f,
    "grad": lambda f: jax.grad(f, EVERY),
    "grad of some": lambda f: jax.grad(f, (1, 4, N - 1)),
    "jacfwd of one": lambda f: jax.jacfwd(f, 3),
    "hessian": lambda f: jax.hessian(f, (0, N - 1)),
    "reverse over reverse": lambda f: jax.jacrev(jax.grad(f, EVERY), 2),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f, EVERY)),
    "vmap of grad along the last axis": lambda f: jax.vmap(jax.grad(f, EVERY), -1),
    "vmap of hessian over one": lambda f: (
        lambda x, *xs: jax.vmap(jax.hessian(f, (0, 1)), (0, *[None] * (N - 1)))(
            x, *(y[0] for y in xs)
        )
    ),
    "jit of grad": lambda f: jax.jit(jax.grad(f, EVERY)),
}


EMPTY = [(name, (2, 0)) for name in sample(TRANSFORMATIONS, 4)]


@pytest.mark.parametrize(("name", "shape"), [*in_turn(TRANSFORMATIONS, [(2,), (3, 2)]), *EMPTY])
def test_stacked_values(name, shape):
    def loss(stack):
        def f(*xs):
            y = stack(*xs)
            return jnp.sum(jnp.sin(y).T * jnp.arange(1.0, N + 1))

        return f

    xs = np.random.default_rng(0).normal(size=(N, *shape))
    found, expected = in_one_program(
        [TRANSFORMATIONS[name](loss(stack)) for stack in (ours, theirs)], *xs
    )
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


def test_scalars_and_other_dtypes_are_stacked():
    np.testing.assert_array_equal(ours(*np.arange(N)), np.arange(N))
    scalars = tuple(np.linspace(0.1, 1, N))
    found = jax.grad(lambda *xs: jnp.prod(ours(*xs)), EVERY)(*scalars)
    np.testing.assert_allclose(found, np.prod(scalars) / scalars, rtol=1e-12)


def test_positions_of_cotangents_are_hidden_from_xla():
    scalars = tuple(np.linspace(0.1, 1, N))
    text = jax.jit(jax.grad(lambda *xs: jnp.prod(ours(*xs)), EVERY)).lower(*scalars).as_text()
    assert text.count("stablehlo.dynamic_slice") == N
    assert text.count("stablehlo.optimization_barrier") == 1


def test_lgamma_of_a_number_stays():
    program = jax.make_jaxpr(lambda: jax.lax.lgamma(3.5))()
    assert FewerKernels()(program) is program


lgamma, digamma = (jaxprgen.transform(f, FewerKernels()) for f in (jax.lax.lgamma, jax.lax.digamma))

# Beside the bounds at which another formula takes over, and away from them.
BOUNDS = np.array([0.5, 1.0, 1.5, 2.0, 2.5, 3.5, 4.5, 5.0])
RANGES = {
    "tiny": np.geomspace(1e-290, 1e-3, 40),
    "bounds": np.concatenate([BOUNDS, *np.nextafter(BOUNDS, [[0], [9]]), BOUNDS + 0.01]),
    "small": np.linspace(1e-3, 5.2, 211),
    "middle": np.geomspace(5, 1e3, 60),
    "large": np.geomspace(1e3, 1e290, 40),
    "negative": -np.linspace(1e-3, 12.9, 151),
    "far below zero": -np.geomspace(13, 1e4, 40) - 0.01,
    "below zero": -np.geomspace(1e-290, 1e-3, 40),
}


def worst(found, exact, x):
    """Return the worst error, in units of the last place, of values of at least one."""
    found, eps = np.asarray(found, np.float64), float(np.finfo(x.dtype).eps)
    errors = [
        abs(mpmath.mpf(y) - z) / max(1, abs(z)) for y, z in zip(found.tolist(), exact, strict=True)
    ]
    return float(max(errors)) / eps


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", RANGES)
def test_gamma_functions_are_those_of_mpmath(name, dtype):
    x = RANGES[name]
    x = x[(abs(x) > np.finfo(dtype).tiny * 1e3) & (abs(x) < np.finfo(dtype).max * 1e-3)]
    x = np.unique(x.astype(dtype))
    x = x[(x > 0) | (x != np.round(x))]
    with mpmath.workdps(40):
        points = list(map(mpmath.mpf, x.tolist()))
        logarithms = [mpmath.re(mpmath.loggamma(p)) for p in points]
        slopes = list(map(mpmath.digamma, points))
        # Between the zeros of lgamma and poles that are negative, its condition is bad.
        assert worst(lgamma(x), logarithms, x) < (8 if name == "negative" else 2)
        if name != "far below zero":
            assert worst(digamma(x), slopes, x) < 6
        if name not in ("negative", "far below zero"):
            near_zeros = [(v, z) for v, z in zip(lgamma(x).tolist(), logarithms, strict=True) if z]
            relative = max(abs(v / z - 1) for v, z in near_zeros)
            assert relative < 200 * np.finfo(dtype).eps  # XLA's: 1e4 times as much.


def test_gamma_functions_at_infinities_and_poles():
    x = np.array([0.0, -0.0, -1, -2, -(2.0**53), -1e308, np.inf, -np.inf, np.nan, 2.6e305])
    np.testing.assert_array_equal(lgamma(x), jax.lax.lgamma(x))
    np.testing.assert_allclose(digamma(x)[2:], jax.lax.digamma(x)[2:], rtol=1e-15)
    np.testing.assert_array_equal(digamma(x)[:2], [-np.inf, -np.inf])  # XLA's was NaN.
    np.testing.assert_array_equal(lgamma(np.array([1.0, 2.0])), [0.0, 0.0])


@pytest.mark.parametrize("dtype", ["float16", jnp.bfloat16])
def test_gamma_functions_of_other_dtypes(dtype):
    x = jnp.asarray([-0.5, 0.25, 1.5, 3, 9], dtype)
    for ours, theirs in ((lgamma, jax.lax.lgamma), (digamma, jax.lax.digamma)):
        assert ours(x).dtype == theirs(x).dtype
        np.testing.assert_allclose(
            ours(x).astype("float32"), theirs(x.astype("float32")), rtol=jnp.finfo(dtype).eps * 4
        )


@pytest.mark.parametrize("shape", [(), (5,)])
def test_derivatives_of_lgamma(shape):
    def f(x):
        return jnp.sum(jax.lax.lgamma(jnp.exp(x)) * 2.0)

    found = jaxprgen.transform(f, FewerKernels())
    x = np.random.default_rng(0).normal(size=shape)
    ways = [
        *(lambda f: f, jax.grad, jax.hessian, lambda f: jax.jacfwd(jax.hessian(f))),
        lambda f: lambda x: jax.vmap(f)(x[None]),
    ]
    ours, theirs = in_one_program([lambda x, g=g: [of(g)(x) for of in ways] for g in (found, f)], x)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_polygamma_functions_are_derivatives_of_lgamma(order):
    f, points = jax.grad(lgamma), np.array([-3.3, -0.2, -1e-20, 0.7, 4.0, 4.5, 30.0])
    for _ in range(order):
        f = jax.grad(f)
    exact = [float(mpmath.psi(order, p)) for p in points]
    np.testing.assert_allclose(jax.jit(jax.vmap(f))(points), exact, rtol=1e-12)


# --- Small matrices ---------------------------------------------------------------------------

DERIVATIVES = {
    "value": lambda f, count: f,
    "forward": lambda f, count: jax.jacfwd(f, tuple(range(count))),
    "reverse": lambda f, count: jax.jacrev(f, tuple(range(count))),
    "second": lambda f, count: jax.jacfwd(jax.jacrev(f)),
    "batch": lambda f, count: (
        lambda *args: jax.vmap(f, -1, -1)(*(jnp.stack([x, 2 * x], -1) for x in args))
    ),
}
rng = np.random.default_rng(0)


def agree(f, *args):
    """Values and derivatives are those of the library."""
    ours = jaxprgen.transform(f, FewerKernels())
    assert set(primitives(jax.make_jaxpr(f)(*args))) & {"cholesky", "triangular_solve"}
    assert not set(primitives(jax.make_jaxpr(ours)(*args))) & {"cholesky", "triangular_solve"}
    ways = [of(g, len(args)) for of in DERIVATIVES.values() for g in (ours, f)]
    results = in_one_program(ways, *args)
    for name, *both in zip(DERIVATIVES, results[::2], results[1::2], strict=True):
        for x, y in zip(*both, strict=True):
            np.testing.assert_allclose(x, y, 1e-12, 1e-13, err_msg=name)


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (4, 2, 2), (2, 0, 3, 3)])
def test_factors_of_small_matrices(shape):
    x = rng.normal(size=shape)
    agree(jnp.linalg.cholesky, x @ np.swapaxes(x, -1, -2) + 0.1 * np.eye(shape[-1]))


SIDES = itertools.product(*[[True, False]] * 4)


@pytest.mark.parametrize(("options", "shape"), in_turn(SIDES, [(2, 2), (3, 3), (4, 2, 2)]))
def test_small_triangular_systems(options, shape):
    keys = "left_side", "lower", "transpose_a", "unit_diagonal"
    options = dict(zip(keys, options, strict=True))
    *batch, n, _ = shape
    y = rng.normal(size=(*batch, *((n, 5) if options["left_side"] else (5, n))))
    x = rng.normal(size=shape) + 2 * np.eye(n)
    agree(lambda x, y: jax.lax.linalg.triangular_solve(x, y, **options), x, y)


def test_small_matrices_that_are_not_definite_have_no_factor():
    awkward = [0, 1, -1, 2, 1e-300, 1e300, np.inf, np.nan]
    each = np.array([*itertools.product(awkward, repeat=3)])
    x = each[:, [0, 1, 1, 2]].reshape(-1, 2, 2)
    found = jaxprgen.transform(jnp.linalg.cholesky, FewerKernels())(x)
    wanted = np.asarray(jnp.linalg.cholesky(x))
    is_finite = np.isfinite(x).all((1, 2))
    np.testing.assert_array_equal(np.isnan(found)[is_finite], np.isnan(wanted)[is_finite])
    np.testing.assert_allclose(found[is_finite], wanted[is_finite], 1e-14)


@pytest.mark.parametrize("x", [np.eye(4), np.eye(1), np.eye(2) * (1 + 0j)])
def test_factors_of_other_matrices_stay(x):
    program = jax.make_jaxpr(jnp.linalg.cholesky)(x)
    assert str(FewerKernels()(program)) == str(program)
