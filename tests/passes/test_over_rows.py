"""Programs on rows: they compute what `jax.vmap` computes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprgen
from jaxprgen import _jax
from jaxprgen.passes.batching import over_rows

X = np.random.default_rng(1).normal(size=(3, 4, 4)).astype(np.float32)

FUNCTIONS = {
    "svd": lambda x, y: jnp.linalg.svd(x, full_matrices=False)[1],
    "qr": lambda x, y: jnp.linalg.qr(x)[1],
    "eig": lambda x, y: jax.lax.linalg.eig(x)[0],
    "schur": lambda x, y: jax.lax.linalg.schur(x)[0],
    "solve": lambda x, y: jnp.linalg.solve(x, y),
    "convolve": lambda x, y: jax.lax.conv(x[None, None], y[None, None, :2, :3], (1, 1), "SAME"),
    "channels": lambda x, y: jax.lax.conv(x[None, :, :], y[:, :, None], (1,), "VALID"),
    "scatter": lambda x, y: y.at[jnp.array([0, 2])].add(x[:2]),
    "while": lambda x, y: jax.lax.while_loop(lambda a: a.sum() < 50, lambda a: a + abs(y), x),
    "count": lambda x, y: jax.lax.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * y, c[2] + c[0]), (0, x, 1.0)
    )[1:],
    "limit": lambda x, y: jax.lax.while_loop(
        lambda c: c[0] < y[0, 0], lambda c: (c[0] + 1, c[1]), (x[0, 0], x)
    ),
    "scan": lambda x, y: jax.lax.scan(
        lambda c, r: ((c[0] + r @ y, c[1] + 1), (r * c[1], c[0])), (x[0] * 0, 0.0), x, reverse=True
    ),
    "scan over shared rows": lambda x, y: jax.lax.scan(
        lambda c, r: (jnp.tanh(c + r), 1.0), x[0], jnp.eye(4, dtype=x.dtype)
    ),
    "write": lambda x, y: jax.lax.dynamic_update_slice(
        x, y[:2, :3], (jnp.argmax(y[0]), jnp.argmax(x[1]))
    ),
    "write at one place": lambda x, y: jax.lax.dynamic_update_slice(x, y[:1], (2, 1)),
    "scatter at rows' places": lambda x, y: y.at[jnp.argsort(x[0])[:2], 1].mul(x[:2, 0]),
    "cond": lambda x, y: jax.lax.cond(x[0, 0] > 0, lambda a: a + y, lambda a: a * 2, x),
    "shared": lambda x, y: y * 2,
    "constant": lambda x, y: x @ jnp.arange(16.0).reshape(4, 4),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
def test_results_are_those_of_vmap(name, batched):
    function = FUNCTIONS[name]
    arguments = [X + i if own else X[i] + i for i, own in enumerate(batched)]
    axes = [0 if own else None for own in batched]
    program = jax.make_jaxpr(function)(X[0], X[1])
    types = [_jax.array_type(x.shape, x.dtype) for x in arguments]
    rows = jaxprgen.jaxpr_as_fun(over_rows(program, types, batched, 3))
    found = jax.jit(rows)(*arguments)
    expected = jax.jit(jax.vmap(function, axes))(*arguments)
    for ours, theirs in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
