"""No device, and not the host, ever holds all of the data that is split."""

from __future__ import annotations

import gc
import tracemalloc

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from profiles import sample

import jaxprgen

x = at.dmatrix("x")
LARGE = np.random.default_rng(0).normal(size=(1 << 17, 8))


@pytest.fixture(params=sample([AxisType.Auto, AxisType.Explicit], 1), ids=str)
def rows(request):
    mesh = jax.make_mesh((8,), ("rows",), axis_types=(request.param,))
    return NamedSharding(mesh, P("rows"))


class Memory:
    """The bytes of new arrays on each device, and the most bytes of NumPy arrays on the host."""

    def __enter__(self):
        gc.collect(1)  # Of what tests before made; all of the garbage would take seconds.
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


def minimize(make, where, rows):
    w = aesara.shared(np.zeros(8), name="w")
    cost = ((where @ w - 1) ** 2).mean()
    inputs = [where] if where is x else []
    options = {"shardings": {where: rows}} if make is jaxprgen.function else {"mode": "JAXPR"}
    return make(inputs, cost, updates={w: w - 0.1 * at.grad(cost, w)}, **options)


@pytest.mark.parametrize("make", [jaxprgen.function, aesara.function], ids=["function", "mode"])
@pytest.mark.parametrize("kind", ["argument", "shared", "constant"])
def test_no_device_and_not_the_host_ever_holds_all_the_data(make, kind, rows):
    jax.block_until_ready(jax.device_put(LARGE, rows) + 1)  # What JAX itself needs once.
    with Memory() as memory:
        array = jax.device_put(LARGE, rows)
        where = {
            "argument": lambda: x,
            "shared": lambda: aesara.shared(array, borrow=True, name="data"),
            "constant": lambda: at.as_tensor_variable(array),
        }[kind]()
        step = minimize(make, where, rows)
        calls = [((), {})] * 2
        if kind == "argument":
            calls = [((array,), {}), ((), {"x": array})]
        costs = [float(step(*args, **named)) for args, named in calls]
    memory.assert_is_split(1)
    residuals = -np.ones(len(LARGE))
    gradient = 2 * LARGE.T @ residuals / len(LARGE)
    assert np.allclose(costs, [1.0, ((-0.1 * LARGE @ gradient - 1) ** 2).mean()])


@pytest.mark.parametrize("kind", ["argument", "shared", "constant"])
def test_numpy_arrays_go_to_the_devices_in_parts(kind, rows):
    where = {
        "argument": lambda: x,
        "shared": lambda: aesara.shared(LARGE, borrow=True, name="data"),
        "constant": lambda: at.constant(LARGE),
    }[kind]()
    arguments = [LARGE] if kind == "argument" else []
    with Memory() as memory:
        f = jaxprgen.compile(arguments and [x], (where**2).sum(axis=1), shardings={where: rows})
        out = f(*arguments)
        analysis = f.lower(*arguments).compile().memory_analysis()
        f.jaxpr(*arguments)
    memory.assert_is_split(1.2)
    assert out.sharding.is_equivalent_to(rows, 1)
    assert np.allclose(out, (LARGE**2).sum(axis=1))
    assert analysis.argument_size_in_bytes == LARGE.nbytes // 8
    assert analysis.temp_size_in_bytes <= 1.1 * LARGE.nbytes / 8


def test_state_as_large_as_the_data_takes_its_memory_once(rows):
    state = aesara.shared(LARGE, borrow=True, name="state")
    step = jaxprgen.function([], None, updates={state: state * 0.5}, shardings={state: rows})
    with Memory() as memory:
        for _ in range(3):
            step()
    memory.assert_is_split(1)
    assert state.get_value(borrow=True).sharding.is_equivalent_to(rows, 2)
    assert np.array_equal(state.get_value(borrow=True), LARGE / 8)


@pytest.mark.parametrize("kind", ["shared", "constant"])
def test_derivatives_do_not_copy_the_data(kind, rows):
    array = jax.device_put(LARGE, rows)
    where = {
        "shared": lambda: aesara.shared(array, borrow=True, name="data"),
        "constant": lambda: at.as_tensor_variable(array),
    }[kind]()
    b = at.dvector("b")
    f = jaxprgen.compile([b], ((where @ b - 1) ** 2).mean())
    with jax.set_mesh(rows.mesh), Memory() as memory:
        value, gradient = jax.value_and_grad(f)(np.zeros(8))
        jax.block_until_ready(jax.vmap(f)(np.zeros((2, 8))))
    memory.assert_is_split(0.3)  # The residuals, two of eight columns.
    assert value == 1
    assert np.allclose(gradient, -2 * LARGE.mean(axis=0))


def test_what_jax_records_outlives_updates(rows):
    state = aesara.shared(jax.device_put(LARGE[:8], rows), name="state")
    b = at.dvector("b")
    step = jaxprgen.function([], None, updates={state: state * 2})
    value, pullback = jax.vjp(jaxprgen.compile([b], (state @ b).sum()), np.ones(8))
    for _ in range(2):
        old = state.get_value(borrow=True)
        step()
    assert np.allclose(old, 2 * LARGE[:8])
    assert np.allclose(value, LARGE[:8].sum())
    assert np.allclose(pullback(1.0)[0], LARGE[:8].sum(axis=0))
