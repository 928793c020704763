"""Data that lives sharded stays so: shared variables, constants, and ``shardings``."""

from __future__ import annotations

import copy
import functools
import pickle
import threading

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.compile.builders import OpFromGraph
from aesara.ifelse import ifelse
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from laws import assert_same

import jaxprgen
from jaxprgen import _jax
from jaxprgen.arguments.shardings import placed

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
STEPS = {"function": jaxprgen.function, "mode": functools.partial(aesara.function, mode="JAXPR")}
EACH_WAY = pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)


class Placement:
    """Shardings on a mesh whose axes are of one kind."""

    def __init__(self, kind):
        self.mesh = jax.make_mesh((4, 2), ("rows", "cols"), axis_types=(kind,) * 2)
        self.rows, self.cols, self.both, self.whole = (
            NamedSharding(self.mesh, spec)
            for spec in (P("rows"), P("cols"), P("rows", "cols"), P())
        )


@pytest.fixture(params=[AxisType.Auto, AxisType.Explicit], ids=str)
def on(request):
    return Placement(request.param)


def held(shared):
    return shared.get_value(borrow=True)


def assert_split(array, sharding, expected):
    assert isinstance(array, jax.Array)
    assert array.sharding.is_equivalent_to(sharding, array.ndim), array.sharding
    assert array.sharding.mesh == sharding.mesh
    assert_same(np.asarray(array), expected)


def shared_of_numpy(array):
    shared = aesara.shared(np.zeros((8, 6)), name="data")
    shared.set_value(array)
    return shared


def compiled_before(array):
    shared = aesara.shared(np.zeros((8, 6)), name="data")
    aesara.function([], shared.sum(), mode="JAXPR")()
    shared.set_value(array, borrow=True)
    return shared


SHARED = {
    "made of it": lambda a: aesara.shared(a, name="data"),
    "borrowed": lambda a: aesara.shared(a, name="data", borrow=True),
    "set to it": shared_of_numpy,
    "set to it later": compiled_before,
}


@EACH_WAY
@pytest.mark.parametrize("build", SHARED.values(), ids=SHARED)
def test_shared_variables_keep_the_sharding_of_their_value(make, build, on):
    shared = build(jax.device_put(DATA, on.rows))
    f = make([b], (shared @ b).sum())
    for _ in range(2):
        assert np.allclose(f(PARAMETERS), (DATA @ PARAMETERS).sum())
    for borrow in (True, False):
        assert_split(shared.get_value(borrow=borrow), on.rows, DATA)
    for twin in (pickle.loads(pickle.dumps(shared)), copy.deepcopy(shared)):
        assert_split(held(twin), on.rows, DATA)


def test_a_shared_variable_does_not_lose_the_users_array(on):
    array = jax.device_put(DATA, on.rows)
    for shared in (aesara.shared(array), aesara.shared(DATA)):
        shared.set_value(array)
        jaxprgen.function([], None, updates={shared: shared + 1})()
        assert_split(array, on.rows, DATA)
        assert_split(held(shared), on.rows, DATA + 1)


def inner_graph(a):
    return OpFromGraph([x], [x * at.as_tensor_variable(a)])


CONSTANTS = {
    "operand": lambda a: m * a,
    "named": lambda a: m * at.as_tensor_variable(a, name="a"),
    "of another dtype": lambda a: m * at.as_tensor_variable(a, dtype="float32"),
    "with more axes": lambda a: m * at.as_tensor_variable(a, ndim=3),
    "used twice": lambda a: (m * a) @ at.as_tensor_variable(a).T,
    "in a loop": lambda a: aesara.scan(lambda v: v * at.as_tensor_variable(a), sequences=m)[0],
    "a loop leaves": lambda a: aesara.scan(
        lambda v: at.as_tensor_variable(a) + 0 * v[0], sequences=m
    )[0],
    "all that a loop leaves": lambda a: aesara.scan(
        lambda v: at.as_tensor_variable(a), sequences=m
    )[0],
    "in an inner graph": lambda a: inner_graph(a)(m),
    "an inner graph of a known value": lambda a: inner_graph(a)(at.ones((8, 6))) * m,
    "in a branch": lambda a: ifelse(m[0, 0] > 0, m * a, at.as_tensor_variable(a)),
    "alone": lambda a: at.as_tensor_variable(a) + 1,
}


def unreadable(x):
    """What JAX does to give the values of an array to NumPy, for arrays that are in parts."""
    assert x.is_fully_replicated
    return READ(x)


READ = _jax.ArrayImpl._value.fget


@pytest.mark.parametrize("n", [1, 2])
def test_no_pass_reads_constants(n, on, monkeypatch):
    """Small ones, and numbers, on one device are folded and merged."""
    a, c = (at.as_tensor_variable(jax.device_put(DATA[:, :n], on.rows)) for _ in range(2))
    f = jaxprgen.compile([m], [m * (a + 1) * 2, m * a, m * c, a.sum() * m])
    monkeypatch.setattr(_jax.ArrayImpl, "_value", property(unreadable))
    results = f(DATA[:, :n])
    f.report(DATA[:, :n])
    jaxprgen.pretty(f, DATA[:, :n])
    monkeypatch.undo()
    assert_same(np.asarray(results[0]), DATA[:, :n] * (DATA[:, :n] + 1) * 2)


@pytest.mark.parametrize("build", CONSTANTS.values(), ids=CONSTANTS)
def test_constants_keep_the_sharding_of_their_array(build, on):
    inputs = [m] if m in aesara.graph.basic.graph_inputs([build(DATA)]) else []
    values = [DATA[:, ::-1].copy() for _ in inputs]
    array = jax.device_put(DATA, on.both)
    f = jaxprgen.compile(inputs, build(array))
    expected = build(DATA).eval(dict(zip(inputs, values, strict=True)))
    assert_same(np.asarray(f(*values)), expected)
    (constant,) = [c for c in f.jaxpr(*values).consts if c.shape[-1] == 6]
    assert constant.sharding.num_devices == 8
    again = pickle.loads(pickle.dumps(f))
    assert_same(np.asarray(again(*values)), expected)


def test_a_constant_on_several_devices_equals_only_itself(on):
    array = jax.device_put(DATA, on.rows)
    one, two = at.as_tensor_variable(array), at.as_tensor_variable(array)
    other = at.as_tensor_variable(jax.device_put(DATA, on.rows))
    assert one.equals(two)
    assert one.signature() == two.signature() != other.signature()
    assert not one.equals(other)
    assert str(one).startswith("SpreadConstant{float64[8")
    assert copy.deepcopy(one).data is array


# --- The option ---------------------------------------------------------------------------


def test_arguments_and_results_are_placed(on):
    f = jaxprgen.compile(
        [x, b], [residual, loss], shardings={x: on.both, "residual": on.rows, b: on.whole}
    )
    for given in (
        DATA,
        jnp.asarray(DATA),
        jax.device_put(DATA, on.rows),
        jax.device_put(DATA, on.both),
    ):
        out, total = f(given, PARAMETERS)
        assert out.sharding.is_equivalent_to(on.rows, 1)
        assert np.allclose(out, DATA @ PARAMETERS)
        assert np.allclose(total, ((DATA @ PARAMETERS) ** 2).sum())
    lowered = f.lower(DATA, jax.ShapeDtypeStruct((6,), "float64"))
    assert lowered.compile().memory_analysis().argument_size_in_bytes == DATA.nbytes // 8 + 48
    assert str(f.jaxpr(DATA, PARAMETERS)).count("sharding_constraint") == 3
    assert f.report(DATA, PARAMETERS).equations == len(f.jaxpr(DATA, PARAMETERS).eqns)


def test_shared_variables_and_constants_are_placed(on):
    data, scale = aesara.shared(DATA, name="data"), at.constant(PARAMETERS, name="scale")
    where = {data: on.both, "scale": P("cols"), b: on.whole}
    f = jaxprgen.compile([b], data @ (b * scale), shardings=where)
    for _ in range(2):
        assert_same(np.asarray(f(PARAMETERS)), DATA @ (PARAMETERS * PARAMETERS))
        assert_split(held(data), on.both, DATA)
        data.set_value(DATA)
    lowered = f.lower(PARAMETERS).compile()
    assert lowered.memory_analysis().argument_size_in_bytes == DATA.nbytes // 8 + 48 // 2 + 48
    (constant,) = [c for c in f.jaxpr(PARAMETERS).consts if c.ndim == 1]
    assert_split(constant, on.cols, PARAMETERS)


def test_in_shard_map_values_are_parts_already(on):
    f = jaxprgen.compile([x, b], residual, shardings={x: on.both, residual: on.rows})
    mapped = jax.shard_map(
        lambda x: f(x, PARAMETERS), mesh=on.mesh, in_specs=P("rows"), out_specs=P("rows")
    )
    assert_split(jax.jit(mapped)(jax.device_put(DATA, on.rows)), on.rows, DATA @ PARAMETERS)


def test_shard_map_along_one_axis_leaves_the_others(on):
    f = jaxprgen.compile([x], x * 2, shardings={x: on.both})
    mapped = jax.shard_map(
        f, mesh=on.mesh, in_specs=P("rows"), out_specs=P("rows"), axis_names={"rows"}
    )
    with jax.set_mesh(on.mesh):
        array = jax.device_put(DATA, on.rows)
        program = jax.jit(mapped).lower(array)
        assert '"cols"' in program.as_text() or "devices=[1,2" in program.as_text()
        assert_same(np.asarray(jax.jit(mapped)(array)), DATA * 2)


def test_results_come_as_asked_whatever_the_arguments_imply(on):
    f = jaxprgen.compile([x, b], residual, shardings={residual: on.rows})
    with jax.set_mesh(on.mesh):
        for given in (DATA, jax.device_put(DATA, on.cols)):
            for out in (f(given, PARAMETERS), jax.jit(f)(given, PARAMETERS)):
                assert out.sharding.is_equivalent_to(on.rows, 1)
                assert np.allclose(out, DATA @ PARAMETERS)


def test_a_value_that_does_not_keep_its_size_need_not_keep_its_sharding(on):
    rows = aesara.shared(jax.device_put(DATA, on.rows), name="rows")
    step = jaxprgen.function([x], None, updates={rows: at.concatenate([rows, x])})
    for count in (9, 10):
        step(DATA[:1])
        assert held(rows).shape == (count, 6)
    assert_same(np.asarray(held(rows)), np.concatenate([DATA, DATA[:1], DATA[:1]]))


def test_a_spec_alone_is_for_the_mesh_that_is_set(on):
    with jax.set_mesh(on.mesh):
        f = jaxprgen.compile([x, b], residual, shardings={"x": P("rows")})
    assert f.lower(DATA, PARAMETERS).compile().memory_analysis().argument_size_in_bytes == (
        DATA.nbytes // 4 + PARAMETERS.nbytes
    )


def test_to_tracers_it_is_a_constraint(on):
    f = jaxprgen.compile([x, b], [residual, loss], shardings={x: on.both, residual: on.rows})
    assert jax.jit(f)(DATA, PARAMETERS)[0].sharding.is_equivalent_to(on.rows, 1)
    for function in (jax.grad, lambda f: jax.jit(jax.grad(f))):
        gradient = function(lambda x: f(x, PARAMETERS)[1])(DATA)
        expected = 2 * np.outer(DATA @ PARAMETERS, PARAMETERS)
        assert gradient.sharding.is_equivalent_to(on.both, 2)
        assert np.allclose(gradient, expected)
    many = np.stack([PARAMETERS, -PARAMETERS])
    out, _ = jax.vmap(f, in_axes=(None, 0))(DATA, many)
    assert out.sharding.is_equivalent_to(NamedSharding(on.mesh, P(None, "rows")), 2)


UPDATES = {
    "of the value": lambda value: at.tanh(value.T).T + x.sum(),
    "of other values": lambda value: x + 0 * value[0],  # Which XLA would not split by itself.
}


@pytest.mark.parametrize("build", UPDATES.values(), ids=UPDATES)
@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
def test_updates_keep_the_sharding(make, build, on):
    shared = aesara.shared(jax.device_put(DATA, on.rows), name="data")
    step, expected = make([x], shared.sum(), updates={shared: build(shared)}), DATA
    for _ in range(3):
        old = held(shared)
        assert np.allclose(step(DATA / 9), expected.sum())
        expected = build(at.as_tensor_variable(expected)).eval({x: DATA / 9})
        assert not old.is_deleted()  # It was handed out.
        assert_split(held(shared), on.rows, np.asarray(held(shared)))
        assert np.allclose(held(shared), expected)


def test_functions_of_split_state_pickle_and_copy(on):
    for make in STEPS.values():
        state = aesara.shared(jax.device_put(DATA, on.rows), name="state")
        step = make([x], state.sum(), updates={state: state + x})
        for twin in (pickle.loads(pickle.dumps(step)), copy.deepcopy(step)):
            assert [float(twin(DATA)) for _ in range(2)] == [DATA.sum(), 2 * DATA.sum()]
            assert_split(twin.state()["state"], on.rows, 3 * DATA)
        assert_split(held(state), on.rows, DATA)


def test_the_state_of_a_loop_has_one_type(on):
    total = aesara.shared(jax.device_put(np.zeros((8, 6)), on.rows), name="total")
    step = jaxprgen.function([b], total.sum(), updates={total: total + b})

    def body(state, b):
        out, state = step.pure(state, b)
        return state, out

    with jax.set_mesh(on.mesh):
        state, sums = jax.jit(lambda state, bs: jax.lax.scan(body, state, bs))(
            step.state(), np.ones((3, 6))
        )
    assert_same(np.asarray(sums), np.array([0.0, 48, 96]))
    assert_split(state["total"], on.rows, np.full((8, 6), 3.0))


def test_a_mask_on_several_devices_decides_a_shape(on):
    mask = at.bvector("mask")
    f = jaxprgen.compile([x, mask], x[mask.astype(bool)].sum(axis=1))
    bits = (np.arange(8) % 3 == 0).astype("int8")
    out = f(jax.device_put(DATA, on.rows), jax.device_put(bits, on.rows))
    assert_same(np.asarray(out), DATA[bits > 0].sum(axis=1))


def test_data_on_several_devices_are_exported_for_one(on):
    shared = aesara.shared(jax.device_put(DATA, on.rows), name="data")
    exported = jaxprgen.compile([b], shared @ b).export("f64[6]")
    assert exported.nr_devices == 1
    assert_same(exported.data["data"], DATA)
    assert np.allclose(exported.call(PARAMETERS), DATA @ PARAMETERS)


def test_state_is_placed_and_stays(on):
    total = aesara.shared(np.zeros(8), name="total")
    step = jaxprgen.function(
        [aesara.In(x, name="rows"), b],
        residual,
        updates={total: total + residual},
        shardings={"total": P("rows"), "rows": on.both, residual: P("rows")},
    )
    twin = pickle.loads(pickle.dumps(step))
    for f in (step, twin):
        for i in range(1, 3):
            assert_split(f(DATA, PARAMETERS), on.rows, DATA @ PARAMETERS)
            value = f.state()["total"]
            assert value.sharding.is_equivalent_to(on.rows, 1)
            assert np.allclose(value, i * DATA @ PARAMETERS)
    _, state = step.pure({"total": np.zeros(8)}, DATA, PARAMETERS)
    assert_split(state["total"], on.rows, DATA @ PARAMETERS)


def test_no_update_comes_while_a_reader_places_a_value(on, monkeypatch):
    total = aesara.shared(np.zeros(8), name="total")
    read = jaxprgen.compile([], total * 2, shardings={total: on.rows})
    cell, found = total.container.cell, []

    def place(*args):
        def write():
            found.append(cell.lock.acquire(blocking=False))

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        return placed(*args)

    monkeypatch.setattr("jaxprgen.graphs.cells.placed", place)
    read(), read.jaxpr()
    assert found and not any(found)
