"""Gradients at a bound that a sum meets by cancelling, as distances of points from themselves."""

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprgen
from jaxprgen.passes import DEFAULT, GuardBranches


def points(n):
    random = np.random.default_rng(n)
    return random.normal(size=n), random.normal(size=(n, n))


def weighted(m, x, weights, factor):
    """A weighted sum of exponential kernels; their slopes at distance 0 are 500,000 or half."""
    x = x.reshape((-1, 1))
    squares = (x**2).sum(1)
    distances = -2 * m.dot(x, x.T) + squares.reshape((-1, 1)) + squares.reshape((1, -1))
    if factor != 1:
        distances *= factor
    return (weights * m.exp(-m.sqrt(m.clip(distances, 0, np.inf) + 1e-12))).sum()


def right(scale, x, weights, factor):
    distances = jnp.abs(x[:, None] - x) / scale
    return (weights * jnp.exp(-jnp.sqrt(factor * distances**2 + 1e-12))).sum()


SCALED = {"quotients": lambda x, scale: x / scale, "products": lambda x, scale: x * (1 / scale)}


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize(("n", "factor"), [(2, 1), (2, 0.5), (6, 1), (8, 1)])
def test_a_kernel_of_points(name, n, factor):
    """Kernels of XLA round the distance of a point from itself differently."""
    x, weights = points(n)
    scale = at.dscalar("scale")
    graph = weighted(at, SCALED[name](x, scale), weights, factor)
    found = {
        "by JAX": jax.grad(jaxprgen.compile([scale], graph)),
        "by Aesara": jaxprgen.compile([scale], aesara.grad(graph, scale)),
        "of a function": jax.grad(
            jaxprgen.transform(
                lambda s: weighted(jnp, SCALED[name](x, s), weights, factor), *DEFAULT
            )
        ),
    }
    for way, slope in found.items():
        slope = jax.jit(slope)
        for value in (0.3, 0.7, 1.1, 1.9, 2.7):
            true = jax.grad(right)(value, x, weights, factor)
            np.testing.assert_allclose(slope(value), true, rtol=1e-5, atol=1e-5, err_msg=way)


WAYS = {
    "of quotients": lambda d: jnp.maximum(d / 2, 0) * 2,
    "of multiples": lambda d: jnp.maximum(2 * d, 0) / 2,
    "of opposites": lambda d: -jnp.minimum(-d, 0),
    "chosen": lambda d: jnp.where(d > 0, d, 0),
}


@pytest.mark.parametrize("name", WAYS)
def test_bounds_of_other_forms(name):
    """Derivatives are no worse than those of JAX."""
    for n in (2, 6):
        x, weights = points(n)

        def kernel(scale, x=x, weights=weights):
            z = (x * (1 / scale))[:, None]
            square = (z**2).sum(1)
            distances = WAYS[name]((-2 * z) @ z.T + square[:, None] + square)
            return (weights * jnp.exp(-jnp.sqrt(distances + 1e-12))).sum()

        slopes = [jax.jit(jax.grad(f)) for f in (kernel, jaxprgen.transform(kernel, *DEFAULT))]
        for value in (0.3, 0.7, 1.1, 1.9, 2.7):
            true = jax.grad(right)(value, x, weights, 1)
            theirs, ours = (abs(slope(value) - true) for slope in slopes)
            assert ours <= theirs + 1e-4 * (1 + abs(true)), (n, value, ours, theirs)


def test_scalars_are_compared_as_they_are():
    f = jaxprgen.transform(lambda x, y: jnp.maximum(x * y - 1, 0), GuardBranches())
    assert "sqrt" not in str(jax.make_jaxpr(jax.grad(f))(1.0, 2.0))
