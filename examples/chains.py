"""Sample a hierarchical regression with chains on one axis of a mesh and data on the other.

The model is a logistic regression with an intercept for each group. BlackJAX's No-U-Turn Sampler,
all chains and all devices are one program. Devices that share a chain evaluate the log-density of
their own rows. In each leapfrog step, they sum it and its gradient. Other devices, which run other
chains, do not wait for them.

It runs on the devices that there are. For eight devices made of one CPU:
``XLA_FLAGS=--xla_force_host_platform_device_count=8 python chains.py``.
"""

import jaxprgen  # noqa: I001  # First: it makes Aesara importable on current NumPy and Python.
import aeppl
import aesara.tensor as at
import jax
import numpy as np
from aeppl.transforms import LogTransform, TransformValuesRewrite
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

from sampling import chain

jax.config.update("jax_enable_x64", True)

GROUPS, COLUMNS, ROWS = 20, 3, 4800
CHAINS, WARMUP, DRAWS = 4, 500, 1000
COEFFICIENTS = np.array([1.0, -0.5, 0.25])
NAMES = [
    "mu",
    "tau",
    *(f"alpha[{i}]" for i in range(GROUPS)),
    *(f"beta[{i}]" for i in range(COLUMNS)),
]

stream = at.random.RandomStream()
X, group = at.dmatrix("X"), at.lvector("group")
mu = stream.normal(0, 2, name="mu")
tau = stream.halfnormal(0, 1, name="tau")
alpha = stream.normal(mu, tau, size=GROUPS, name="alpha")
beta = stream.normal(0, 1, size=COLUMNS, name="beta")
y = stream.bernoulli(at.sigmoid(alpha[group] + X @ beta), name="y")

# A sampler needs an unbounded variable: log(tau).
unbounded = TransformValuesRewrite({tau: LogTransform()})
terms, values = aeppl.conditional_logprob(mu, tau, alpha, beta, y, extra_rewrites=unbounded)
prior = sum(terms[variable].sum() for variable in (mu, tau, alpha, beta))
log_densities = jaxprgen.compile([*values, X, group], [prior, terms[y].sum()])


def mesh_of(chains, data):
    """Return a mesh with so many parts of the chains, and of the data."""
    axes, kinds = ("chains", "data"), (AxisType.Auto,) * 2
    return jax.make_mesh((chains, data), axes, kinds, devices=jax.devices()[: chains * data])


def simulate():
    """Simulate outcomes, features and groups."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(ROWS, COLUMNS))
    groups = rng.integers(0, GROUPS, ROWS)
    intercepts = rng.normal(0.5, 0.7, GROUPS)
    chances = 1 / (1 + np.exp(-intercepts[groups] - features @ COEFFICIENTS))
    return (rng.uniform(size=ROWS) < chances).astype(int), features, groups


def starts(key):
    """Draw the starts of chains near zero: mu, log(tau), alpha and beta."""
    draws = 0.1 * jax.random.normal(key, (CHAINS, 2 + GROUPS + COLUMNS))
    return draws[:, 0], draws[:, 1], draws[:, 2:-COLUMNS], draws[:, -COLUMNS:]


def log_density_of(data):
    """Return the log-density, to which each device contributes the likelihood of its rows."""

    def of_own_rows(position, data):
        prior, likelihood = log_densities(*position, *data)
        return prior + jax.lax.psum(likelihood, "data")

    of_all_rows = jax.shard_map(
        of_own_rows, in_specs=(P(), P("data")), out_specs=P(), axis_names={"data"}
    )
    return lambda position: of_all_rows(position, data)


def compiled(mesh, key, warmup, draws):
    """Return the program that samples on a mesh, and its arguments: keys, starts and data.

    It returns draws, with leading axes for chains and draws, and tells which of them diverged.
    """

    def own_chains(keys, starts, data):
        return jax.vmap(chain(log_density_of(data), warmup, draws))(keys, starts)

    starting, sampling = jax.random.split(key)
    chains = jax.random.split(sampling, CHAINS), starts(starting)
    arguments = (
        *jax.device_put(chains, NamedSharding(mesh, P("chains"))),
        jax.device_put(simulate(), NamedSharding(mesh, P("data"))),
    )
    all_chains = jax.shard_map(
        own_chains,
        mesh=mesh,
        in_specs=(P("chains"), P("chains"), P()),
        out_specs=P("chains"),
        axis_names={"chains"},
        check_vma=False,  # BlackJAX has branches of which one varies between chains, and one not.
    )
    return jax.jit(all_chains).lower(*arguments).compile(), arguments


def quantities(draws):
    """Return the quantities of `NAMES` along a last axis."""
    mu, log_tau, alpha, beta = map(np.asarray, draws)
    scalars = np.stack([mu, np.exp(log_tau)], -1)
    return np.concatenate([scalars, alpha, beta], -1)


def main():
    devices = len(jax.devices())
    parts = 2 - devices % 2
    mesh = mesh_of(parts, devices // parts)
    print(f"{mesh.shape['chains']} × {mesh.shape['data']} devices; between them go")
    program, arguments = compiled(mesh, jax.random.key(1), WARMUP, DRAWS)
    for found in jaxprgen.inspect.collectives(program) or ():
        when = "in each step of a loop" if found.per_step else "once"
        print(f"  {found.kind} of {found.nbytes} bytes along {found.along}, {when}")
    draws, diverged = program(*arguments)
    draws = quantities(draws)
    sizes, ratios = effective_sample_size(draws), split_gelman_rubin(draws)
    print(f"{int(diverged.sum())} of {diverged.size} draws diverged.\n")
    print(f"{'':10}{'mean':>8}{'sd':>8}{'size':>8}{'R-hat':>8}")
    for i, name in enumerate(NAMES):
        mean, deviation = draws[..., i].mean(), draws[..., i].std()
        print(f"{name:10}{mean:8.3f}{deviation:8.3f}{sizes[i]:8.0f}{ratios[i]:8.3f}")
    return draws


if __name__ == "__main__":
    main()
