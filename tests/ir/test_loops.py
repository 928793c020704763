"""Loops whose bodies are emitted: `jaxprgen.emit.control`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.emit import control
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import atoms
from jaxprgen.ir import Builder


def running(x, scale):
    """``scale`` times the sum of all rows up to each, and the sum of all, from a known zero."""
    b = Builder([jax.typeof(x), jax.typeof(scale)])

    def step(b, scale, total, row):
        total = ew.add(b, total, row)
        return [total], [ew.multiply(b, total, scale)], None

    zero = np.zeros(x.shape[1:])
    ended = control.scan(b, step, b.inputs[1:], [zero], b.inputs[:1], x.shape[0])
    closed = b.build(atoms(b, [*ended.carries, *ended.stacked]))
    check_jaxpr(closed.jaxpr)
    (body,) = (eqn.params["jaxpr"].jaxpr for eqn in closed.jaxpr.eqns if "jaxpr" in eqn.params)
    assert body.outvars[0].aval == body.invars[1].aval
    return tuple(jaxprgen.jaxpr_as_fun(closed)(x, scale))


@pytest.mark.parametrize("length", [0, 1, 4])
def test_scan(length):
    x, scale = np.arange(6.0 * length).reshape(length, 6), np.full(6, 2.0)
    last, sums = running(x, scale)
    np.testing.assert_allclose(last, x.sum(0))
    np.testing.assert_allclose(sums, 2 * x.cumsum(0))
    slope = jax.grad(lambda x: jnp.sum(running(x, scale)[1]))(x)
    np.testing.assert_allclose(slope, 2.0 * np.arange(length, 0, -1)[:, None] * np.ones(6))
    mapped = jax.vmap(running, (1, 0), (0, 1))(x, scale)
    np.testing.assert_allclose(mapped[1], 2 * x.cumsum(0))


def test_what_is_the_same_on_every_device_is_carried_along_what_is_not():
    mesh, split = Mesh(jax.devices()[:2], ("i",)), PartitionSpec(None, "i")
    x, scale = np.arange(24.0).reshape(4, 6), np.full(3, 2.0)
    out = (PartitionSpec("i"), split)
    specs = {"mesh": mesh, "in_specs": (split, PartitionSpec()), "out_specs": out}
    last, sums = jax.jit(jax.shard_map(running, **specs))(x, scale)
    np.testing.assert_allclose(last, x.sum(0))
    np.testing.assert_allclose(sums, 2 * x.cumsum(0))
