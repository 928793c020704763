"""Compile aehmc's HMC and NUTS kernels, each to one JAX program.

aehmc writes a whole transition of a sampler as an Aesara graph, with the loops and random draws of
its trajectories. The compiled graph is a JAX function of a key and a state: `jax.lax.scan` over
keys makes a chain, and `jax.vmap` makes several. The model is that of `eight_schools.py`, whose
posterior means are known.
"""

import jaxprgen  # noqa: I001  # First: it makes Aesara importable on current NumPy and Python.
import aehmc.hmc
import aehmc.nuts
import aesara.tensor as at
import jax
import numpy as np

import figures
from eight_schools import EFFECTS, ERRORS, NAMES, exact_means, quantities

jax.config.update("jax_enable_x64", True)

CHAINS, WARMUP, DRAWS = 8, 200, 800
SIZES = {"HMC": 0.25, "NUTS": 0.35}


def log_density(q):
    """Return the log-density of mu / 5, log(tau) and z, up to a constant."""
    mu, log_tau, z = 5 * q[0], q[1], q[2:]
    scaled = at.exp(log_tau) / 5
    prior = log_tau - at.log1p(scaled**2) - (at.sum(z**2) + q[0] ** 2) / 2
    return prior - at.sum(((EFFECTS - mu - 5 * scaled * z) / ERRORS) ** 2) / 2


def transition(module, *settings):
    """Return a transition as a graph: its inputs, the next position, and updates."""
    q, size = at.dvector("q"), at.dscalar("size")
    stream = at.random.RandomStream()
    kernel = module.new_kernel(stream, log_density)
    mass = at.ones(q.shape[0])
    results, updates = kernel(*module.new_state(q, log_density), size, mass, *settings)
    return [q, size], results[0], updates


def sample(step, size, key):
    """Draw mu, log(tau) and z, in several chains."""
    starting, running = jax.random.split(key)

    def chain(key, start):
        def move(q, key):
            q = step(key, q, size)
            return q, q

        return jax.lax.scan(move, start, jax.random.split(key, WARMUP + DRAWS))[1]

    starts = jax.random.normal(starting, (CHAINS, 10))
    draws = jax.jit(jax.vmap(chain))(jax.random.split(running, CHAINS), starts)[:, WARMUP:]
    return 5 * draws[..., 0], draws[..., 1], draws[..., 2:]


def main():
    kernels = {"HMC": transition(aehmc.hmc, 12), "NUTS": transition(aehmc.nuts)}
    exact = exact_means()
    found = {}
    for number, (name, (inputs, output, _)) in enumerate(kernels.items()):
        step = jaxprgen.compile(inputs, output)  # It takes a key, a position and the step size.
        program = step.jaxpr(jax.random.key(0), np.zeros(10), SIZES[name])
        found[name] = quantities(sample(step, SIZES[name], jax.random.key(number)))
        print(f"{name}: one program of {len(program.jaxpr.eqns)} equations, inner ones not counted")
    print("mean of     exact   " + "   ".join(f"{name:>8}" for name in found))
    for i, name in enumerate(NAMES):
        row = "   ".join(f"{draws[..., i].mean():8.3f}" for draws in found.values())
        print(f"{name:9} {exact[i]:7.3f}   {row}")
    return found


def plot(found):
    """Draw the traces of mu and tau in four chains of each kernel."""
    figure, axes = figures.subplots(2, 2, size=(7, 3.4), sharex=True, sharey="row")
    for column, (name, draws) in zip(axes.T, found.items(), strict=True):
        figures.traces(column[0], draws[:4, :, 0])
        figures.traces(column[1], draws[:4, :, 1])
        column[0].set_title(name)
        column[1].set(yscale="log", ylim=(0.05, 50), xlabel="draw")
    axes[0, 0].set_ylabel("mu")
    axes[1, 0].set_ylabel("tau")
    return figure


if __name__ == "__main__":
    figures.save(plot, main())
