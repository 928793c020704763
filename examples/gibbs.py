"""Compile a Gibbs sampler that aemcmc derives from a model to one JAX program.

The model is that of `horseshoe.py`. aemcmc finds the conditional distributions of its variables,
with the Pólya-Gamma variables of Polson, Scott and Windle, "Bayesian inference for logistic models
using Pólya-Gamma latent variables", JASA 108 (2013). It writes a graph that draws from each of them
in turn. The compiled graph is a JAX function of a key and a state: `jax.lax.scan` over keys makes a
chain, and `jax.vmap` makes several.

aemcmc 0.0.8 has three errors, because of which its sampler has another stationary distribution.
Comments below mark the three corrections.
"""

import jaxprgen  # noqa: I001  # First: it makes Aesara importable on current NumPy and Python.
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
from aemcmc.basic import construct_sampler

import figures
from horseshoe import COEFFICIENTS, simulate

jax.config.update("jax_enable_x64", True)

stream = at.random.RandomStream()
X = at.dmatrix("X")
tau = stream.halfcauchy(0, 1, name="tau")
lam = stream.halfcauchy(0, 1, size=X.shape[1], name="lambda")
beta = stream.normal(0, tau * lam, name="beta")
Y = stream.bernoulli(at.sigmoid(-(X @ beta)), name="Y")

CHAINS, WARMUP, DRAWS = 4, 500, 3000


class RateStream(at.random.RandomStream):
    """Correct the first error: aemcmc passes a rate where Aesara expects the scale."""

    def exponential(self, rate):
        return self.gen(at.random.exponential, 1 / rate)


def with_variance(step):
    """Correct the second error: aemcmc adds the inverse of a scale, not of a variance."""
    previous, scale, *rest = step.owner.inputs
    return step.owner.clone_with_new_inputs([previous, scale**2, *rest]).outputs[0]


def transition(seed=None):
    """Return a step as a graph: from points, outcomes, tau, lambda and beta to the next three.

    The seed is for Aesara's own generators; a JAX program takes a key instead.
    """
    y = at.lvector("y")
    # The third error: aemcmc assumes sigmoid(X @ beta), whose outcomes are 1 - y.
    sampler, starts = construct_sampler({Y: 1 - y}, RateStream(seed))
    steps = sampler.sample_steps
    after = [steps[tau], steps[lam], with_variance(steps[beta])]
    return [X, y, starts[tau], starts[lam], starts[beta]], tuple(after)


def start(count):
    """Return the start of a chain: tau, lambda and beta."""
    return jnp.ones(()), jnp.ones(count), jnp.zeros(count)


def sample(step, points, outcomes, key):
    """Draw tau, lambda and beta given the outcomes, in several chains."""

    def chain(key):
        def move(state, key):
            state = step(key, points, outcomes, *state)
            return state, state

        keys = jax.random.split(key, WARMUP + DRAWS)
        return jax.lax.scan(move, start(points.shape[1]), keys)[1]

    draws = jax.jit(jax.vmap(chain))(jax.random.split(key, CHAINS))
    return [x[:, WARMUP:] for x in draws]


def main():
    points, outcomes = simulate()
    step = jaxprgen.compile(*transition())
    arguments = points, outcomes, *start(points.shape[1])
    program = step.jaxpr(jax.random.key(0), *arguments)
    print(f"One program of {len(program.jaxpr.eqns)} equations, inner programs not counted")
    taus, lams, betas = sample(step, points, outcomes, jax.random.key(1))
    print("simulated", "".join(f"{b:8.2f}" for b in COEFFICIENTS))
    print("mean     ", "".join(f"{b:8.2f}" for b in np.mean(betas, (0, 1))))
    print("deviation", "".join(f"{b:8.2f}" for b in np.std(betas, (0, 1))))
    return {"tau": taus, "lambda": lams, "beta": betas}


def plot(draws):
    """Draw the traces of three coefficients, and the histograms of their draws."""
    figure, axes = figures.subplots(3, 2, size=(7, 3.8), width_ratios=[3, 1], sharey="row")
    for i, (trace, histogram) in enumerate(axes):
        drawn = np.asarray(draws["beta"][..., i])
        figures.traces(trace, drawn[:, :1000])
        histogram.hist(drawn.ravel(), bins=60, orientation="horizontal", density=True)
        histogram.axhline(COEFFICIENTS[i], color="k", lw=1)
        trace.set_ylabel(f"beta[{i}]")
    axes[0, 0].set_title("The first 1,000 draws of four chains")
    axes[0, 1].set_title("All draws")
    return figure


if __name__ == "__main__":
    figures.save(plot, main())
