"""Compare compiled loops with loops written by hand: ``python benchmarks/loops.py``.

The models are log-likelihoods of 1,000 observations, by `aesara.scan` and by `jax.lax.scan`. The
table has the value, the value with `jax.grad`, and the value with the gradient of `aesara.grad`;
the last one also with loops as they are emitted. Equations include those of inner programs. Times
are medians of the thread's processor time, in which the program runs as well.
"""

import warnings  # noqa: I001
from collections.abc import Callable
from typing import Any, NamedTuple

import jaxprgen  # First: it makes Aesara importable.
import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
from calls import cost, count

from jaxprgen.passes import Stabilize

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_cpu_enable_async_dispatch", False)

HALF_LOG = 0.5 * np.log(2 * np.pi)


class Model(NamedTuple):
    """A log-likelihood of observations and two parameters, as a graph and by hand."""

    graph: Callable[..., Any]
    by_hand: Callable[..., Any]


def normal(lib: Any, x: Any, mean: Any, deviation: Any) -> Any:
    """Return the normal log-density, of Aesara variables or of JAX arrays."""
    return -0.5 * ((x - mean) / deviation) ** 2 - lib.log(deviation) - HALF_LOG


def observed(y: Any, phi: Any, sigma: Any) -> Any:
    """Return the log-likelihood of an observed autoregression, which has no hidden state."""
    taps = {"input": y, "taps": [0, -1]}
    terms, _ = aesara.scan(
        lambda now, before, phi, sigma: normal(at, now, phi * before, sigma),
        taps,
        non_sequences=[phi, sigma],
    )
    return terms.sum()


def observed_by_hand(y: Any, phi: Any, sigma: Any) -> Any:
    """Return the same, written by hand."""

    def step(before: Any, now: Any) -> Any:
        return now, normal(jnp, now, phi * before, sigma)

    return jax.lax.scan(step, y[0], y[1:])[1].sum()


def latent(y: Any, phi: Any, sigma: Any) -> Any:
    """Return the log-likelihood of an autoregression with noise, whose mean is a state."""
    (_, terms), _ = aesara.scan(
        lambda now, mean, phi, sigma: (phi * mean + 0.1 * now, normal(at, now, mean, sigma)),
        y,
        [at.zeros(()), None],
        [phi, sigma],
    )
    return terms.sum()


def latent_by_hand(y: Any, phi: Any, sigma: Any) -> Any:
    """Return the same, written by hand."""

    def step(mean: Any, now: Any) -> Any:
        return phi * mean + 0.1 * now, normal(jnp, now, mean, sigma)

    return jax.lax.scan(step, 0.0, y)[1].sum()


def garch(y: Any, alpha: Any, beta: Any) -> Any:
    """Return the log-likelihood of GARCH(1, 1), whose variance is a state."""
    (_, terms), _ = aesara.scan(
        lambda now, variance, a, b: (
            0.1 + a * now**2 + b * variance,
            normal(at, now, 0.0, at.sqrt(variance)),
        ),
        y,
        [at.ones(()), None],
        [alpha, beta],
    )
    return terms.sum()


def garch_by_hand(y: Any, alpha: Any, beta: Any) -> Any:
    """Return the same, written by hand."""

    def step(variance: Any, now: Any) -> Any:
        new = 0.1 + alpha * now**2 + beta * variance
        return new, normal(jnp, now, 0.0, jnp.sqrt(variance))

    return jax.lax.scan(step, 1.0, y)[1].sum()


MEANS = np.array([-1.0, 0.0, 1.5])
MOVES = np.log(0.1 * np.ones((3, 3)) + 0.7 * np.eye(3))


def hidden(y: Any, scale: Any, sigma: Any) -> Any:
    """Return the log-likelihood of a hidden Markov chain of three states."""
    chain, _ = aesara.scan(
        lambda now, log, scale, sigma: (
            at.logsumexp(log[:, None] + MOVES, axis=0) + normal(at, now, scale * MEANS, sigma)
        ),
        y,
        at.zeros(3),
        [scale, sigma],
    )
    return at.logsumexp(chain[-1])


def hidden_by_hand(y: Any, scale: Any, sigma: Any) -> Any:
    """Return the same, written by hand."""

    def step(log: Any, now: Any) -> Any:
        moved = jax.nn.logsumexp(log[:, None] + MOVES, axis=0)
        return moved + normal(jnp, now, scale * MEANS, sigma), None

    return jax.nn.logsumexp(jax.lax.scan(step, jnp.zeros(3), y)[0])


MODELS = {
    "autoregression, observed": Model(observed, observed_by_hand),
    "autoregression, latent": Model(latent, latent_by_hand),
    "GARCH(1, 1)": Model(garch, garch_by_hand),
    "hidden Markov": Model(hidden, hidden_by_hand),
}


def main() -> None:
    """Print equations and microseconds for each model and way, beside those by hand."""
    warnings.simplefilter("ignore")
    args = np.random.default_rng(0).normal(size=1001) * 0.5, 0.3, 0.6
    print(f"{'':27}{'':14}{'equations':>10}{'by hand':>8}{'µs':>8}{'by hand':>8}{'ratio':>7}")
    for name, model in MODELS.items():
        inputs = [at.dvector("y"), at.dscalar("a"), at.dscalar("b")]
        density = model.graph(*inputs)
        slopes = aesara.grad(density, inputs[1:])
        value = jaxprgen.compile(inputs, density)
        ways = {
            "value": (value, model.by_hand),
            "jax.grad": tuple(jax.value_and_grad(f, (1, 2)) for f in (value, model.by_hand)),
            "aesara.grad": (
                jaxprgen.compile(inputs, [density, *slopes]),
                jax.value_and_grad(model.by_hand, (1, 2)),
            ),
            "loops stay": (
                jaxprgen.compile(inputs, [density, *slopes], passes=(Stabilize(),)),
                jax.value_and_grad(model.by_hand, (1, 2)),
            ),
        }
        for way, functions in ways.items():
            ours, by_hand = (jax.tree.leaves(f(*args)) for f in functions)
            np.testing.assert_allclose(ours, by_hand, rtol=1e-10)
            equations = [count(jax.make_jaxpr(f)(*args).jaxpr) for f in functions]
            timed = cost({str(i): jax.jit(f) for i, f in enumerate(functions)}, args)
            own, other = timed.values()
            print(
                f"{name:27}{way:14}{equations[0]:10}{equations[1]:8}{own:8.1f}{other:8.1f}"
                f"{own / other:7.2f}"
            )


if __name__ == "__main__":
    main()
