"""Many draws in chunks: the same numbers as all at once, in less memory."""

import subprocess
import sys

import jax
import numpy as np
import pytest

pytest.importorskip("pymc.model")  # Not "pymc", which is also the name of this folder.

import pymc as pm

import jaxprgen.pymc
from jaxprgen.errors import ArgumentShapeError
from jaxprgen.pymc import many

samplers = pytest.importorskip("pymc.sampling.jax")

with pm.Model() as MODEL:
    slope = pm.Normal("slope")
    line = pm.Deterministic("line", slope * np.arange(3.0))
    pm.Dirichlet("shares", np.ones(3))  # Its value variable has one element less.
    pm.Normal("y", line, pm.HalfNormal("sigma"), observed=np.zeros(3))

KEYS = jax.random.split(jax.random.key(0), 7)
POINTS = {
    "slope": np.linspace(-1, 1, 7),
    "shares": np.full((7, 3), 1 / 3),
    "sigma": np.full(7, 0.5),
}


@pytest.mark.parametrize("memory", [0, 200, 1000, many.MEMORY])  # few, and all at once
@pytest.mark.parametrize("kind", ["prior", "posterior_predictive"])
def test_chunks_give_the_draws_of_vmap(kind, memory):
    f = getattr(jaxprgen.pymc, kind)(MODEL)
    args = (KEYS,) if kind == "prior" else (KEYS, POINTS)
    found = jax.jit(jaxprgen.pymc.over_draws(f, memory=memory))(*args)
    wanted = jax.vmap(f)(*args)
    assert found.keys() == wanted.keys()
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-14), found, wanted)


def test_chunks_have_gradients_and_may_be_empty():
    f = jaxprgen.pymc.logp(MODEL)
    points = {"slope": POINTS["slope"], "sigma_log__": POINTS["sigma"]}
    points["shares_simplex__"] = np.linspace(-1, 1, 14).reshape(7, 2)
    small = jaxprgen.pymc.over_draws(f, memory=0)
    found = jax.grad(lambda p: small(p).sum())(points)
    wanted = jax.vmap(jax.grad(f))(points)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-14), found, wanted)
    assert small({name: x[:0] for name, x in points.items()}).shape == (0,)


@pytest.mark.parametrize("points", [{**POINTS, "slope": 1.0}, {**POINTS, "slope": np.ones(6)}])
def test_arrays_of_other_lengths_are_refused(points):
    f = jaxprgen.pymc.over_draws(jaxprgen.pymc.posterior_predictive(MODEL))
    with pytest.raises(ArgumentShapeError, match=r"leading axis.*\(7,\)"):
        f(KEYS, points)


@pytest.mark.parametrize("how", ["vmap", "scan"])
def test_variables_of_a_trace_are_those_of_pymc(how, monkeypatch):
    monkeypatch.setattr(many, "MEMORY", 0)
    names = [MODEL[name] for name in ("slope", "shares", "sigma", "line")]
    graph = MODEL.replace_rvs_by_values(names)
    draw = np.random.default_rng(0).normal
    samples = [draw(size=(2, 5, *x.shape)) for x in MODEL.initial_point().values()]
    wanted = samplers._postprocess_samples(
        samplers.get_jaxified_graph(MODEL.value_vars, graph), samples, None, how
    )
    with jaxprgen.pymc.sampling():
        found = samplers._postprocess_samples(
            samplers.get_jaxified_graph(MODEL.value_vars, graph), samples, None, how, True
        )
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-14)


LARGE = """
import resource
import jax, numpy as np, pymc as pm, jaxprgen.pymc
jax.config.update("jax_enable_x64", True)
x = np.linspace(-1, 1, 100_000)
with pm.Model() as model:
    pm.Normal("y", pm.math.exp(pm.math.sin(pm.Normal("slope") * x)), 1, observed=x)
f = jaxprgen.pymc.posterior_predictive(model)
points = {"slope": np.linspace(-1, 1, 4000)}
keys = jax.random.split(jax.random.key(0), 4000)
f(keys[0], {"slope": 0.0})
used = lambda: 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = used()
found = jax.block_until_ready(jax.jit(jaxprgen.pymc.over_draws(f))(keys, points))
print(used() - before - found["y"].nbytes)
"""


@pytest.mark.deep
def test_predictions_take_little_more_memory_than_they_return():
    run = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 2**30
