"""First and second derivatives of guarded functions from JAX's issues and from libraries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprgen
from jaxprgen.passes import DEFAULT

optax = pytest.importorskip("optax")
dist = pytest.importorskip("numpyro.distributions")

special, stats = jax.scipy.special, jax.scipy.stats

REPORTED = {
    # github.com/jax-ml/jax/issues, by number.
    347: (
        lambda x: (lambda r: jnp.where(r > 0.5, r, 1.0).sum())(jnp.sqrt((x**2).sum(1))),
        [[3.0, 4.0], [0.0, 0.0]],
        [[0.6, 0.8], [0.0, 0.0]],
    ),
    1052: (
        lambda x: jnp.where(jnp.array([0.0, 1.0, 0.0]) > 0.5, 0.0, jnp.arctan2(x, x)).sum(),
        [3.0, 0.0, -5.0],
        [0.0, 0.0, 0.0],
    ),
    2630: (lambda x: jnp.where(x > 0, 0.0, x * jnp.inf), 1.0, 0.0),
    5798: (lambda x: jnp.where(x < 1, x, jnp.sqrt(x)), 0.0, 1.0),
}


def derivatives(f):
    """First and second derivatives of a function with the default passes, in several ways."""
    f = jaxprgen.transform(f, *DEFAULT)
    second = [of(of(f)) for of in (jax.jacrev, jax.jacfwd)] + [jax.hessian(f)]
    return jax.jit(
        lambda x: [[g(x) for g in ways] for ways in ([jax.grad(f), jax.jacfwd(f)], second)]
    )


@pytest.mark.parametrize("number", REPORTED)
def test_reported_gradients(number):
    f, x, gradient = REPORTED[number]
    slopes, twice = derivatives(f)(jnp.asarray(x))
    np.testing.assert_allclose(slopes, [gradient] * 2, atol=1e-12)
    assert np.isfinite(twice).all()


def _censored(loc):
    normal = dist.Normal(loc, 1.0)
    kind = dist.LeftCensoredDistribution
    return kind(normal, censored=jnp.array(1), validate_args=False).log_prob(0.0)


def _truncated(loc):
    return dist.TruncatedNormal(loc, 1.0, low=0.0, validate_args=False).log_prob(1.0)


def _kl(p):
    return optax.kl_divergence(jnp.log(jnp.array([0.5, 0.5])), jnp.array([p, 1 - p]))


def _gamma(x):
    return stats.gamma.logpdf(x, 2.0)


def _pareto(x):
    return stats.pareto.logpdf(x, 2.0)


def _log(x):
    return jnp.nan_to_num(jnp.log(x))


def _norm(x):
    return jnp.where(x == 0, 0.0, jnp.linalg.norm(jnp.array([x, x])))


# A function, points, and first and second derivatives there.
LIBRARIES = {
    "jax.scipy.special.entr": (special.entr, [-1.0, 1.0], [0.0, -1.0], [0.0, -1.0]),
    "jax.scipy.special.rel_entr": (
        lambda x: special.rel_entr(x, 2.0),
        [1.0, 2.0],
        [1 - np.log(2), 1.0],
        [1.0, 0.5],
    ),
    "jax.scipy.stats.gamma": (
        lambda x: stats.gamma.logpdf(x, 2.0),
        [-1.0, 2.0],
        [0, -0.5],
        [0, -0.25],
    ),
    "jax.scipy.stats.beta": (
        lambda x: stats.beta.logpdf(x, 3.0, 2.0),
        [-1.0, 0.5, 2.0],
        [0.0, 2.0, 0.0],
        [0.0, -12.0, 0.0],
    ),
    "jax.scipy.stats.pareto": (
        lambda x: stats.pareto.logpdf(x, 2.0),
        [-1.0, 2.0],
        [0, -1.5],
        [0, 0.75],
    ),
    "jax.scipy.stats.truncnorm": (
        lambda x: stats.truncnorm.logpdf(x, -1.0, 1.0),
        [-2.0, 0.5],
        [0.0, -0.5],
        [0.0, -1.0],
    ),
    "jax.numpy.sinc": (jnp.sinc, [0.0, 1.0], [0.0, -1.0], [-(np.pi**2) / 3, 2.0]),
    "jax.numpy.nan_to_num": (
        lambda x: jnp.nan_to_num(jnp.log(x)),
        [-1.0, 2.0],
        [0.0, 0.5],
        [0.0, -0.25],
    ),
    "jax.nn.elu": (jax.nn.elu, [800.0, -1.0], [1.0, np.exp(-1)], [0.0, np.exp(-1)]),
    "jax.numpy.linalg.norm": (_norm, [0.0, 2.0], [0.0, np.sqrt(2)], [0.0, 0.0]),
    "optax.kl_divergence": (_kl, [0.25], [np.log(1 / 3)], [16 / 3]),
    "optax.huber_loss": (optax.huber_loss, [0.0, 0.5, 3.0], [0.0, 0.5, 1.0], [1.0, 1.0, 0.0]),
    "numpyro.TruncatedNormal": (
        _truncated,
        [-9.0, 9.0],
        [0.8914768949971297, -8.0],
        [-0.01151479065472, -1.0],
    ),
    "numpyro.LeftCensoredDistribution": (  # It bounds the logarithm of the tail.
        _censored,
        [0.0, 40.0],
        [-np.sqrt(2 / np.pi), 0.0],
        [-2 / np.pi, 0.0],
    ),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_functions_of_libraries(name):
    f, points, first, second = LIBRARIES[name]
    found = derivatives(f)
    for x, *wanted in zip(points, first, second, strict=True):
        for ways, one in zip(found(x), wanted, strict=True):
            np.testing.assert_allclose(ways, [one] * len(ways), rtol=1e-6, atol=1e-9)
