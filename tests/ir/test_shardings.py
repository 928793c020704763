"""The shardings that results get are those that JAX's typing rules give, where it has any."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from jaxprgen.ir.shardings import divisible, propagated

MESH = jax.make_mesh((2, 2, 2), ("n", "k", "b"), axis_types=(AxisType.Explicit,) * 3)

ALIKE = {
    "elementwise": (lambda x, y: jnp.exp(x) * y + 2.0, ["8@n,4@k", "8@n,4@k"]),
    "compared": (lambda x: x > 0, ["8@n,4@k"]),
    "broadcast": (lambda x, y: x * y[:, None], ["8@n,4@k", "8@n"]),
    "transposed": (lambda x: lax.transpose(x, (2, 0, 1)), ["2@b,8@n,4@k"]),
    "summed": (lambda x: (x.sum(0), x.sum((0, 2)), x.max(1)), ["2@b,8@n,4@k"]),
    "squeezed": (lambda x: lax.squeeze(x[:, None], (1,)), ["8@n,4@k"]),
    "positions of maxima": (lambda x: lax.argmax(x, 1, np.int32), ["8@n,4@k"]),
    "half": (lambda x: x[:4], ["8@n"]),
    "every other": (lambda x: lax.slice(x, (0,), (8,), (2,)), ["8@n"]),
    "padded": (lambda x: lax.pad(x, 0.0, [(0, 8, 0), (0, 0, 0)]), ["8@n,4@k"]),
    "reversed": (lambda x: lax.rev(x, (1,)), ["8@n,4"]),
    "joined": (lambda x, y: lax.concatenate([x, y], 1), ["8@n,4", "8@n,4"]),
    "rows flattened": (lambda x: lax.reshape(x, (32,)), ["8@n,4"]),
    "product": (lambda x, y: x @ y, ["8@n,4", "4,2@b"]),
    "products of stacks": (lambda x, y: jnp.einsum("bnk,bk->bn", x, y), ["2@b,8@n,4", "2@b,4"]),
    "cumulative": (lambda x: lax.cumsum(x, 1), ["8@n,4"]),
    "sorted": (lambda x: lax.sort(x, dimension=1), ["8@n,4"]),
    "cast": (lambda x: x.astype(np.float32), ["8@n,4@k"]),
    "branches": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), ["8@n,4@k"]),
    "jitted": (lambda x: jax.jit(lambda x: x.T * 2)(x), ["8@n,4@k"]),
    "checkpointed": (lambda x: jax.checkpoint(jnp.sin)(x), ["8@n,4@k"]),
    "loop": (lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x), ["8@n,4@k"]),
    "scan": (lambda x, y: lax.scan(lambda c, y: (c + y, c * y), x, y), ["8@n", "4,8@n"]),
    "softmax": (lambda x: jax.nn.softmax(x, axis=1), ["8@n,4"]),
}
"""Functions and types of their arguments. Axes of a mesh stand after the sizes that they split."""


def read(text):
    """The sizes of an array, and the axes that split it."""
    axes = [part.split("@") for part in text.split(",")]
    return [int(size) for size, *_ in axes], P(*[split[0] if split else None for _, *split in axes])


def written(shape, split):
    return ",".join(f"{n}@{axis}" if axis else str(n) for n, axis in zip(shape, split, strict=True))


def inferred(function, types):
    """The types of results that follow from those of arguments."""
    shapes, specs = zip(*map(read, types), strict=True)
    program = jax.make_jaxpr(function)(*map(np.ones, shapes))
    found = zip(program.out_avals, propagated(program, list(map(tuple, specs))), strict=True)
    return [written(x.shape, divisible(x.shape, s, MESH.abstract_mesh)) for x, s in found]


@pytest.mark.parametrize("name", ALIKE)
def test_results_are_split_as_the_types_of_jax_say(name):
    function, types = ALIKE[name]
    with jax.set_mesh(MESH):
        given = [
            jax.device_put(np.ones(shape), NamedSharding(MESH, spec))
            for shape, spec in map(read, types)
        ]
        theirs = jax.tree.leaves(jax.jit(function)(*given))
    wanted = [written(x.shape, tuple(jax.typeof(x).sharding.spec)) for x in theirs]
    assert inferred(function, types) == wanted


BEYOND = {
    "differences": (lambda x: x[1:] - x[:-1], ["8@n"], "7"),
    "halves": (lambda x: lax.reshape(x, (2, 4)), ["8@n"], "2@n,4"),
    "differences and a zero": (lambda x: lax.pad(x[1:] - x[:-1], 0.0, [(0, 1, 0)]), ["8@n"], "8@n"),
    "sum over rows": (lambda x, y: x.T @ y, ["8@n,4@k", "8@n"], "4@k"),
    "rows of a table": (lambda t, i: t[i.astype(int)], ["3,4@k", "8@n"], "8@n,4@k"),
    "one element of each row": (
        lambda x, i: jnp.take_along_axis(x, i.astype(int), 1),
        ["8@n,4", "8,1"],
        "8@n,1",
    ),
    "into a table": (
        lambda t, i, x: t.at[i.astype(int)].add(x),
        ["3,4", "8@n", "8@n,4@k"],
        "3,4@k",
    ),
    "one axis twice": (lambda x, y: x[:, None] * y, ["8@n", "8@n"], "8@n,8"),
    "two layouts": (lambda x, y: x + y, ["8@n,4", "8,4@k"], "8@n,4@k"),
    "Cholesky factors": (lax.linalg.cholesky, ["2@b,4,4"], "2@b,4,4"),
    "states": (
        lambda c, x: lax.scan(lambda c, x: (c + x, c), c, x)[1],
        ["4@k", "8@n,4"],
        "8@n,4@k",
    ),
    "images": (
        lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
        ["8@n,2,4,4", "2@k,2,3,3"],
        "8@n,2@k,4,4",
    ),
}
"""Functions that JAX's types refuse or leave to a choice, and the types that results get."""


@pytest.mark.parametrize("name", BEYOND)
def test_results_are_split_where_jax_has_no_rule(name):
    function, types, wanted = BEYOND[name]
    assert inferred(function, types) == [wanted]
