"""Programs on several devices: values, gradients and types are those of one device."""

import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue import models
from catalogue.sizes import GRAPHS, SHAPES, operands
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from laws import assert_same
from profiles import sample

import jaxprgen

pytestmark = pytest.mark.filterwarnings(
    "ignore::jaxprgen.errors.RuntimeCheckWarning", "ignore::jaxprgen.errors.ProfileWarning"
)

SIZES = {"n": 8, "k": 4, "b": 2}
MESH = jax.make_mesh((2, 2, 2), tuple(SIZES), axis_types=(AxisType.Explicit,) * 3)


def spec_of(name):
    """An operand's axes are split by the mesh axes of their letters; one axis splits only once."""
    letters = SHAPES[name]
    return P(*[x if x not in letters[:i] else None for i, x in enumerate(letters)])


def total(f):
    """The sum of a function's floating-point results."""

    def summed(*args):
        results = [x for x in jax.tree.leaves(f(*args)) if jnp.issubdtype(x.dtype, jnp.floating)]
        return sum(jnp.sum(x) for x in results)

    return summed


def assert_alike(ours, theirs):
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert_same(np.asarray(x), np.asarray(y), 1e-9)


def gradient_of(f, key, values):
    """The gradients by all floating-point arguments after the key; None if JAX makes none."""
    floats = [i for i, x in enumerate(values, len(key)) if x.dtype.kind == "f"]
    if not floats:
        return None
    try:
        return jax.jit(jax.grad(total(f), floats))(*key, *values)
    except (TypeError, jaxprgen.errors.ReverseModeError):  # Of integers, or a loop with an end.
        return None


@pytest.mark.parametrize("graph", sample(GRAPHS, 16), ids=lambda g: f"{g.family}: {g.name}")
def test_explicit_axes(graph):
    inputs, outputs = graph.variables()
    values = operands(graph.inputs, SIZES)
    f = jaxprgen.compile(inputs, outputs)
    key = [jax.random.key(0)] if f.inputs[: -len(inputs)] else []
    wanted = gradient_of(f, key, values)
    with jax.set_mesh(MESH):
        pairs = zip(values, graph.inputs, strict=True)
        split = [jax.device_put(x, spec_of(name)) for x, name in pairs]
        ours = f(*key, *split)
        gradients = None if wanted is None else gradient_of(f, key, split)
    assert_alike(ours, f(*key, *values))
    assert_alike(gradients, wanted)
    if gradients is not None:
        floats = [x for x in split if x.dtype.kind == "f"]
        for gradient, x in zip(gradients, floats, strict=True):
            assert jax.typeof(gradient).sharding == jax.typeof(x).sharding


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_explicit_axes_and_another_mesh(kind):
    def split(kind, **sizes):
        mesh = jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(kind,) * len(sizes))
        return jax.device_put(np.arange(8.0), NamedSharding(mesh, P(next(iter(sizes)))))

    x, y = at.dvectors("x", "y")
    f = jaxprgen.compile([x, y], x * y)
    one, two = split(AxisType.Explicit, rows=8), split(kind, a=2, b=4)
    with pytest.raises(jaxprgen.errors.ShardingError) as caught:
        f(one, two)
    assert str(caught.value) == (
        "Data is on two meshes: that of 'x' has axes rows=8 (Explicit); "
        f"that of 'y', a=2 ({kind.name}), b=4 ({kind.name}).\n"
        "Put both on one mesh by jax.device_put, or let all axes be AxisType.Auto."
    )
    with pytest.raises(jaxprgen.errors.ShardingError, match="that of 'y', rows=8"):
        f(two, one)


# --- Models -------------------------------------------------------------------------------


def value_and_gradient(build):
    """A model's log-density with its gradient, arguments, and how many of them are parameters."""
    model = models.built(build)
    f = jaxprgen.compile(model.inputs, model.log_density)
    return jax.value_and_grad(f, tuple(range(model.free))), model.arguments, model.free


def rows(x, free):
    """Data are split by rows where the mesh's four devices divide them."""
    return P("rows") if not free and x.ndim and x.shape[0] % 4 == 0 else P()


@pytest.mark.parametrize("build", sample(models.MODELS, 4), ids=lambda build: build.__name__)
def test_models_with_split_data_are_those_of_one_device(build):
    f, arguments, free = value_and_gradient(build)
    wanted = jax.jit(f)(*arguments)
    specs = [rows(x, i < free) for i, x in enumerate(arguments)]
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = jax.make_mesh((4,), ("rows",), axis_types=(kind,))
        shardings = [NamedSharding(mesh, spec) for spec in specs]
        split = [jax.device_put(x, s) for x, s in zip(arguments, shardings, strict=True)]
        with jax.set_mesh(mesh):
            assert_alike(f(*split), wanted)
            assert_alike(jax.jit(f, in_shardings=shardings)(*arguments), wanted)


@pytest.mark.parametrize("build", sample(models.MODELS, 3), ids=lambda build: build.__name__)
def test_chains_on_their_own_devices_are_those_of_one_device(build):
    f, arguments, free = value_and_gradient(build)
    chains = [
        np.stack([x + np.asarray(i / 100, x.dtype) for i in range(4)]) for x in arguments[:free]
    ]
    mesh = jax.make_mesh((4,), ("chains",), axis_types=(AxisType.Auto,))
    batched = jax.vmap(f, in_axes=(*[0] * free, *[None] * (len(arguments) - free)))
    specs = (*[P("chains")] * free, *[P()] * (len(arguments) - free))
    # With `check_vma`, JAX 0.12 refuses its own derivative of `erfc`.
    mapped = jax.shard_map(
        batched, mesh=mesh, in_specs=specs, out_specs=P("chains"), check_vma=False
    )
    wanted = jax.jit(batched)(*chains, *arguments[free:])
    assert_alike(jax.jit(mapped)(*chains, *arguments[free:]), wanted)
