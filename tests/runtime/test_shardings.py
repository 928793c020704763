"""Data that lives sharded stays so: shared variables, constants, and ``shardings``."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import tracemalloc

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from laws import assert_same

import jaxprgen
from jaxprgen.arguments.shardings import PortableSharding
from jaxprgen.errors import (
    ArgumentShapeError,
    ArgumentTypeError,
    InvalidGraphError,
    ShardingError,
)

MESH = jax.make_mesh((4, 2), ("rows", "cols"), axis_types=(AxisType.Auto,) * 2)
ROWS, BOTH, WHOLE = (NamedSharding(MESH, spec) for spec in (P("rows"), P("rows", "cols"), P()))
DATA = np.arange(48.0).reshape(8, 6)
PARAMETERS = np.linspace(-1, 1, 6)

x, m = at.dmatrices("x", "m")
b = at.dvector("b")
residual = (x @ b).copy(name="residual")
loss = at.sum(residual**2)

WAYS = {
    "compile": jaxprgen.compile,
    "function": jaxprgen.function,
    "mode": lambda *graph: aesara.function(*graph, mode="JAXPR"),
}
STEPS = {
    "function": jaxprgen.function,
    "mode": functools.partial(aesara.function, mode="JAXPR"),
}
EACH_WAY = pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)


def split(value, sharding=ROWS):
    return jax.device_put(value, sharding)


def held(shared):
    return shared.get_value(borrow=True)


def assert_split(array, sharding, expected):
    assert isinstance(array, jax.Array)
    assert array.sharding.is_equivalent_to(sharding, array.ndim), array.sharding
    assert_same(np.asarray(array), expected)


def shared_of_numpy():
    shared = aesara.shared(np.zeros((8, 6)), name="data")
    shared.set_value(split(DATA))
    return shared


def compiled_before():
    shared = aesara.shared(np.zeros((8, 6)), name="data")
    aesara.function([], shared.sum(), mode="JAXPR")()
    shared.set_value(split(DATA), borrow=True)
    return shared


SHARED = {
    "made of it": lambda: aesara.shared(split(DATA), name="data"),
    "borrowed": lambda: aesara.shared(split(DATA), name="data", borrow=True),
    "set to it": shared_of_numpy,
    "set to it later": compiled_before,
}


@EACH_WAY
@pytest.mark.parametrize("build", SHARED.values(), ids=SHARED)
def test_shared_variables_keep_the_sharding_of_their_value(make, build):
    shared = build()
    f = make([b], (shared @ b).sum())
    for _ in range(2):
        assert np.allclose(f(PARAMETERS), (DATA @ PARAMETERS).sum())
    for borrow in (True, False):
        assert_split(shared.get_value(borrow=borrow), ROWS, DATA)
    assert pickle.loads(pickle.dumps(shared)).get_value().sharding == ROWS
    assert copy.deepcopy(shared).get_value().sharding == ROWS


def test_a_shared_variable_does_not_lose_the_users_array():
    array = split(DATA)
    for shared in (aesara.shared(array), aesara.shared(DATA)):
        shared.set_value(array)
        jaxprgen.function([], None, updates={shared: shared + 1})()
        assert_split(array, ROWS, DATA)
        assert_split(held(shared), ROWS, DATA + 1)


def test_values_of_another_type_are_converted_or_refused():
    shared = aesara.shared(np.zeros((8, 6)), name="data")
    shared.set_value(split(DATA.astype("float32")))
    assert_split(held(shared), ROWS, DATA)
    with pytest.raises(ArgumentTypeError, match="variable 'data' has dtype float64, which cannot"):
        shared.set_value(split(DATA.astype(complex)))
    with pytest.raises(ArgumentShapeError, match=r"variable 'data' .* array of shape \(8,\)"):
        shared.set_value(split(DATA[:, 0]))


CONSTANTS = {
    "operand": lambda a: m * a,
    "named": lambda a: m * at.as_tensor_variable(a, name="a"),
    "of another dtype": lambda a: m * at.as_tensor_variable(a, dtype="float32"),
    "with more axes": lambda a: m * at.as_tensor_variable(a, ndim=3),
    "used twice": lambda a: (m * a) @ at.as_tensor_variable(a).T,
    "in a loop": lambda a: aesara.scan(lambda v: v * at.as_tensor_variable(a), sequences=m)[0],
    "alone": lambda a: at.as_tensor_variable(a) + 1,
}


@pytest.mark.parametrize("build", CONSTANTS.values(), ids=CONSTANTS)
def test_constants_keep_the_sharding_of_their_array(build):
    inputs = [m] if m in aesara.graph.basic.graph_inputs([build(DATA)]) else []
    values = [DATA[:, ::-1].copy() for _ in inputs]
    array = split(DATA, BOTH)
    f = jaxprgen.compile(inputs, build(array))
    expected = build(DATA).eval(dict(zip(inputs, values, strict=True)))
    assert_same(np.asarray(f(*values)), expected)
    (constant,) = [c for c in f.jaxpr(*values).consts if c.shape[-1] == 6]
    assert constant.sharding.num_devices == 8
    again = pickle.loads(pickle.dumps(f))
    assert_same(np.asarray(again(*values)), expected)


def test_a_constant_on_several_devices_equals_only_itself():
    array = split(DATA)
    one, two = at.as_tensor_variable(array), at.as_tensor_variable(array)
    other = at.as_tensor_variable(split(DATA))
    assert one.equals(two)
    assert one.signature() == two.signature() != other.signature()
    assert not one.equals(other)
    assert str(one) == "SpreadConstant{float64[8,6]}"
    assert copy.deepcopy(one).data is array


# --- The option ---------------------------------------------------------------------------


def test_arguments_and_results_are_placed():
    f = jaxprgen.compile([x, b], [residual, loss], shardings={x: BOTH, "residual": ROWS, b: WHOLE})
    for given in (DATA, jnp.asarray(DATA), split(DATA), split(DATA, BOTH)):
        out, total = f(given, PARAMETERS)
        assert out.sharding.is_equivalent_to(ROWS, 1)
        assert np.allclose(out, DATA @ PARAMETERS)
        assert np.allclose(total, ((DATA @ PARAMETERS) ** 2).sum())
    lowered = f.lower(DATA, jax.ShapeDtypeStruct((6,), "float64"))
    assert lowered.compile().memory_analysis().argument_size_in_bytes == DATA.nbytes // 8 + 48
    assert str(f.jaxpr(DATA, PARAMETERS)).count("sharding_constraint") == 3
    assert f.report(DATA, PARAMETERS).equations == len(f.jaxpr(DATA, PARAMETERS).eqns)


def test_shared_variables_and_constants_are_placed():
    data, scale = aesara.shared(DATA, name="data"), at.constant(PARAMETERS, name="scale")
    where = {data: BOTH, "scale": P("cols"), b: WHOLE}
    f = jaxprgen.compile([b], data @ (b * scale), shardings=where)
    for _ in range(2):
        assert_same(np.asarray(f(PARAMETERS)), DATA @ (PARAMETERS * PARAMETERS))
        assert_split(held(data), BOTH, DATA)
        data.set_value(DATA)
    lowered = f.lower(PARAMETERS).compile()
    assert lowered.memory_analysis().argument_size_in_bytes == DATA.nbytes // 8 + 48 // 2 + 48
    (constant,) = [c for c in f.jaxpr(PARAMETERS).consts if c.ndim == 1]
    assert_split(constant, NamedSharding(MESH, P("cols")), PARAMETERS)


def test_a_spec_alone_is_for_the_mesh_that_is_set():
    with use(MESH):
        f = jaxprgen.compile([x, b], residual, shardings={"x": P("rows")})
    assert f.lower(DATA, PARAMETERS).compile().memory_analysis().argument_size_in_bytes == (
        DATA.nbytes // 4 + PARAMETERS.nbytes
    )


def use(mesh):
    return jax.set_mesh(mesh) if hasattr(jax, "set_mesh") else jax.sharding.use_mesh(mesh)


def test_to_tracers_it_is_a_constraint():
    f = jaxprgen.compile([x, b], [residual, loss], shardings={x: BOTH, residual: ROWS})
    assert jax.jit(f)(DATA, PARAMETERS)[0].sharding.is_equivalent_to(ROWS, 1)
    for function in (jax.grad, lambda f: jax.jit(jax.grad(f))):
        gradient = function(lambda x: f(x, PARAMETERS)[1])(DATA)
        expected = 2 * np.outer(DATA @ PARAMETERS, PARAMETERS)
        assert gradient.sharding.is_equivalent_to(BOTH, 2)
        assert np.allclose(gradient, expected)
    many = np.stack([PARAMETERS, -PARAMETERS])
    out, _ = jax.vmap(f, in_axes=(None, 0))(DATA, many)
    assert out.sharding.is_equivalent_to(NamedSharding(MESH, P(None, "rows")), 2)


@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
def test_updates_keep_the_sharding_and_the_memory(make):
    shared = aesara.shared(split(DATA), name="data")
    updated = at.tanh(shared.T).T + x.sum()
    step, expected = make([x], shared.sum(), updates={shared: updated}), DATA
    for _ in range(3):
        old = held(shared)
        assert np.allclose(step(DATA[:1]), expected.sum())
        expected = np.tanh(expected) + DATA[:1].sum()
        assert old.is_deleted()
        assert held(shared).sharding == ROWS
        assert np.allclose(held(shared), expected)


def test_state_is_placed_and_stays():
    total = aesara.shared(np.zeros(8), name="total")
    step = jaxprgen.function(
        [aesara.In(x, name="rows"), b],
        residual,
        updates={total: total + residual},
        shardings={"total": P("rows"), "rows": BOTH, residual: P("rows")},
    )
    twin = pickle.loads(pickle.dumps(step))
    for f in (step, twin):
        for i in range(1, 3):
            assert_split(f(DATA, PARAMETERS), ROWS, DATA @ PARAMETERS)
            value = f.state()["total"]
            assert value.sharding.is_equivalent_to(ROWS, 1)
            assert np.allclose(value, i * DATA @ PARAMETERS)
    _, state = step.pure({"total": np.zeros(8)}, DATA, PARAMETERS)
    assert_split(state["total"], ROWS, DATA @ PARAMETERS)


# --- Memory -------------------------------------------------------------------------------

LARGE = np.random.default_rng(0).normal(size=(1 << 17, 8))
SPLIT = NamedSharding(Mesh(jax.devices(), "rows"), P("rows"))


class Memory:
    """The bytes of new arrays on each device, and the most bytes of NumPy arrays on the host."""

    def __enter__(self):
        gc.collect()
        self._before = {id(array) for array in jax.live_arrays()}
        tracemalloc.start()
        return self

    def __exit__(self, *_):
        self.host = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self.device = dict.fromkeys(jax.devices(), 0)
        for array in jax.live_arrays():
            for shard in array.addressable_shards if id(array) not in self._before else ():
                self.device[shard.device] += shard.data.nbytes

    def assert_is_split(self, copies):
        assert max(self.device.values()) < 1.1 * copies * LARGE.nbytes / 8
        assert self.host < LARGE.nbytes / 2


def minimize(make, where):
    w = aesara.shared(np.zeros(8), name="w")
    cost = ((where @ w - 1) ** 2).mean()
    inputs = [where] if where is x else []
    options = {"shardings": {where: SPLIT}} if make is jaxprgen.function else {"mode": "JAXPR"}
    return make(inputs, cost, updates={w: w - 0.1 * at.grad(cost, w)}, **options)


@pytest.mark.parametrize("make", [jaxprgen.function, aesara.function], ids=["function", "mode"])
@pytest.mark.parametrize("kind", ["argument", "shared", "constant"])
def test_no_device_and_not_the_host_ever_holds_all_the_data(make, kind):
    jax.block_until_ready(split(LARGE, SPLIT) + 1)  # What JAX itself needs once.
    with Memory() as memory:
        array = split(LARGE, SPLIT)
        where = {
            "argument": lambda: x,
            "shared": lambda: aesara.shared(array, borrow=True, name="data"),
            "constant": lambda: at.as_tensor_variable(array),
        }[kind]()
        step = minimize(make, where)
        costs = [float(step(*([array] if kind == "argument" else []))) for _ in range(2)]
    memory.assert_is_split(1)
    residuals = -np.ones(len(LARGE))
    gradient = 2 * LARGE.T @ residuals / len(LARGE)
    assert np.allclose(costs, [1.0, ((-0.1 * LARGE @ gradient - 1) ** 2).mean()])


@pytest.mark.parametrize("kind", ["argument", "shared", "constant"])
def test_numpy_arrays_go_to_the_devices_in_parts(kind):
    where = {
        "argument": lambda: x,
        "shared": lambda: aesara.shared(LARGE, borrow=True, name="data"),
        "constant": lambda: at.constant(LARGE),
    }[kind]()
    arguments = [LARGE] if kind == "argument" else []
    with Memory() as memory:
        f = jaxprgen.compile(arguments and [x], (where**2).sum(axis=1), shardings={where: SPLIT})
        out = f(*arguments)
        analysis = f.lower(*arguments).compile().memory_analysis()
        f.jaxpr(*arguments)
    memory.assert_is_split(1.2)
    assert out.sharding.is_equivalent_to(SPLIT, 1)
    assert np.allclose(out, (LARGE**2).sum(axis=1))
    assert analysis.argument_size_in_bytes == LARGE.nbytes // 8
    assert analysis.temp_size_in_bytes <= 1.1 * LARGE.nbytes / 8


def test_state_as_large_as_the_data_takes_its_memory_once():
    state = aesara.shared(LARGE, borrow=True, name="state")
    step = jaxprgen.function([], None, updates={state: state * 0.5}, shardings={state: SPLIT})
    with Memory() as memory:
        for _ in range(3):
            step()
    memory.assert_is_split(1)
    assert_split(held(state), SPLIT, LARGE / 8)


# --- Errors -------------------------------------------------------------------------------

PARTS = "PartitionSpec('rows')"
ERRORS = {
    "no mesh": (
        {x: P("rows")},
        f"shardings: input 'x', float64[?, ?], cannot be split by {PARTS}: no mesh is set.\n"
        "Compile it within jax.set_mesh(mesh), or give jax.sharding.NamedSharding(mesh, "
        f"{PARTS}).",
    ),
    "unknown axis": (
        {x: P("lines"), b: WHOLE},
        "shardings: input 'x', float64[?, ?], cannot be split by PartitionSpec('lines') on the "
        "mesh of 'rows': 4, 'cols': 2, which has no axis 'lines'.\nName one that it has.",
    ),
    "too many axes": (
        {b: BOTH},
        "shardings: input 'b', float64[?], cannot be split by PartitionSpec('rows', 'cols') on the "
        "mesh of 'rows': 4, 'cols': 2: it has 1 dimension, the spec 2.\nGive at most one entry for "
        "each dimension.",
    ),
    "an axis twice": (
        {x: P("rows", "rows"), b: WHOLE},
        "shardings: input 'x', float64[?, ?], cannot be split by PartitionSpec('rows', 'rows') on "
        "the mesh of 'rows': 4, 'cols': 2: an axis comes twice.\nSplit one dimension along each "
        "axis.",
    ),
    "nowhere": (
        {x: P(P.UNCONSTRAINED), b: WHOLE},
        "shardings: input 'x', float64[?, ?], cannot be split by PartitionSpec(UNCONSTRAINED) on "
        "the mesh of 'rows': 4, 'cols': 2: data lives somewhere.\nGive axes or None for "
        "UNCONSTRAINED.",
    ),
    "unknown name": (
        {"weights": ROWS},
        "shardings: 'weights' is not an input, an output, a shared variable or a constant of this "
        "graph.",
    ),
    "unknown variable": (
        {m: ROWS},
        "shardings: m is not an input, an output, a shared variable or a constant of this graph.",
    ),
    "no sharding": (
        {x: "rows"},
        "shardings: input 'x' got 'rows'. Give a jax.sharding.PartitionSpec, or a NamedSharding of "
        "a mesh and a PartitionSpec.",
    ),
}


@pytest.mark.parametrize(("shardings", "text"), ERRORS.values(), ids=ERRORS)
def test_what_cannot_be_split_is_refused(shardings, text):
    kinds = (ShardingError, InvalidGraphError, ArgumentTypeError)
    for make in (jaxprgen.compile, jaxprgen.function):
        with pytest.raises(kinds) as caught:
            make([x, b], [residual], shardings=shardings)
        assert str(caught.value) == text


UNEVEN = (
    "{} has shape (9, 6), which PartitionSpec('rows') on the mesh of 'rows': 4, 'cols': 2 cannot "
    "split evenly: 4 does not divide 9, the size along axis 0.\nPad it to a size of 12, or split "
    "another axis."
)


def test_sizes_that_the_mesh_does_not_divide_are_refused():
    uneven = np.zeros((9, 6))
    y = (x * 2).copy(name="y")
    shared = aesara.shared(uneven, name="held")
    constant = at.constant(uneven, name="fixed")
    for what, variable, graph in [
        ("Input 'x'", x, ([x], y)),
        ("Output 'y'", y, ([x], y)),
        ("Shared variable 'held'", shared, ([], shared + 1)),
        ("Constant 'fixed'", constant, ([], constant + 1)),
    ]:
        with pytest.raises(ShardingError) as caught:
            jaxprgen.compile(*graph, shardings={variable: ROWS})(*([uneven] if graph[0] else []))
        assert str(caught.value) == UNEVEN.format(what)
    with pytest.raises(ShardingError, match="Input 'x' has shape"):
        jax.jit(jaxprgen.compile([x], y, shardings={x: ROWS}))(uneven)


def test_data_cannot_be_on_a_mesh_without_devices():
    f = jaxprgen.compile(
        [x], x * 2, shardings={x: NamedSharding(AbstractMesh((4,), ("i",)), P("i"))}
    )
    with pytest.raises(ShardingError, match="Input 'x' cannot be put on the mesh of 'i': 4, which"):
        f(DATA)


def test_a_function_is_unpickled_where_its_devices_are():
    where = PortableSharding.of(BOTH)
    assert where.restored() == BOTH
    with pytest.raises(ShardingError, match=r"on 8 devices; this process has 8, and none with nu"):
        where._replace(devices=(*range(7), 99)).restored()
