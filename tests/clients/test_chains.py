"""Chains on one axis of a mesh and data on the other: the draws of one device."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P
from test_sampling import assert_alike, draws_by_numpyro

from jaxprgen import inspect

# aeppl asserts that scales are positive and probabilities are between 0 and 1.
pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
KEY = jax.random.key(1)


def numbers(chains, parts):
    """The log-likelihood and its gradient, for each chain of a device."""
    return chains.CHAINS // parts * (1 + chains.GROUPS + chains.COLUMNS)


@pytest.mark.compiles
def test_devices_sum_the_log_density_and_its_gradient(chains):
    mesh, data, positions = chains.mesh_of(2, 4), chains.simulate(), chains.starts(KEY)

    def of(log_density):
        return jax.jit(jax.vmap(jax.value_and_grad(log_density)))

    wanted = of(lambda position: sum(chains.log_densities(*position, *data)))(positions)
    split = jax.device_put(data, NamedSharding(mesh, P("data")))
    positions = jax.device_put(positions, NamedSharding(mesh, P("chains")))
    with jax.set_mesh(mesh):
        program = of(chains.log_density_of(split)).lower(positions).compile()
        found = program(positions)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    travelling = inspect.collectives(program)
    assert {(c.kind, c.along) for c in travelling} == {("all-reduce", "data=4")}
    assert sum(c.nbytes for c in travelling) == 8 * numbers(chains, 2)


def run(chains, shape):
    """The draws of a mesh of this shape, whether they diverged, and what its devices exchange."""
    program, arguments = chains.compiled(chains.mesh_of(*shape), KEY, warmup=3, draws=5)
    return *program(*arguments), inspect.collectives(program)


@pytest.mark.deep
@pytest.mark.compiles
@pytest.mark.parametrize("shape", [(2, 4), (4, 2)], ids=str)
def test_draws_on_a_mesh_are_those_of_one_device(chains, shape):
    *wanted, nothing = run(chains, (1, 1))
    *found, travelling = run(chains, shape)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert len(x.sharding.device_set) == 8
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10)
    assert nothing is None
    assert {(c.kind, c.along) for c in travelling} == {("all-reduce", f"data={shape[1]}")}
    for in_loop, times in [(False, 1), (True, 2)]:  # The warm-up has a loop, and the sampling.
        found = sum(c.nbytes for c in travelling if c.per_step == in_loop)
        assert found == 8 * numbers(chains, shape[0]) * times


def by_hand(outcomes, features, groups, size):
    """The model, by `numpyro.distributions` alone."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    alpha = numpyro.sample("alpha", dist.Normal(mu, tau).expand([size]))
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([features.shape[1]]))
    numpyro.sample("y", dist.Bernoulli(logits=alpha[groups] + features @ beta), obs=outcomes)


@pytest.mark.deep
def test_the_posterior_is_that_of_numpyro(chains, capsys):
    found = chains.main()
    printed = capsys.readouterr().out
    assert printed.startswith("2 × 4 devices")
    assert "all-gather" not in printed
    theirs = draws_by_numpyro(by_hand, 0, *chains.simulate(), chains.GROUPS, count=1000)
    columns = [theirs[name].reshape(4, 1000, -1) for name in ("mu", "tau", "alpha", "beta")]
    theirs = np.concatenate(columns, -1)
    for i in range(len(chains.NAMES)):
        assert_alike(found[..., i], theirs[..., i])
