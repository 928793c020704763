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
    """XLA rounds the distance of a point from itself otherwise in each kernel that compares it."""
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


def test_other_comparisons_stay():
    """Of an argument, of numbers, and of sums without products."""
    f = jaxprgen.transform(
        lambda x, y: jnp.maximum(x, 0) + jnp.maximum(x + y, 0) + jnp.maximum(x[0] * y[0] + 1, 0),
        GuardBranches(),
    )
    program = str(jax.make_jaxpr(jax.grad(lambda x, y: f(x, y).sum()))(np.ones(2), np.ones(2)))
    assert "sqrt" not in program
