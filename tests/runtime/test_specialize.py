"""One program per kind of arguments, emitted once."""

from __future__ import annotations

import functools
import gc
import weakref

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from laws import assert_same
from transactions import at_once

import jaxprgen
from jaxprgen.runtime.specialize import MOST_PROGRAMS, CacheInfo

x, y = at.dvectors("x", "y")
n = at.lscalar("n")
ONES = np.ones(3)


def compiled():
    return jaxprgen.compile([x, n], x * 2 + n)


def misses(f, *calls):
    """How many programs each of some calls makes ``f`` emit."""
    counts = []
    for call in calls:
        before = f.cache_info().misses
        call()
        counts.append(f.cache_info().misses - before)
    return counts


# --- The cache ----------------------------------------------------------------------------


def test_the_cache_counts_and_is_cleared():
    f = compiled()
    assert f.cache_info() == CacheInfo(misses=0, maxsize=MOST_PROGRAMS, currsize=0)
    f(ONES, 1)
    f(2 * ONES, 2)
    f(jnp.ones(3), np.int64(1))
    f(np.ones(4), 1)
    assert f.cache_info() == CacheInfo(misses=2, maxsize=MOST_PROGRAMS, currsize=2)
    f.cache_clear()
    assert f.cache_info() == CacheInfo(misses=0, maxsize=MOST_PROGRAMS, currsize=0)
    assert_same(f(ONES, 1), 3 * ONES)
    assert f.cache_info() == CacheInfo(misses=1, maxsize=MOST_PROGRAMS, currsize=1)


def test_all_programs_are_dropped_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr("jaxprgen.runtime.specialize.MOST_PROGRAMS", 2)
    f = compiled()
    calls = [lambda k=k: f(np.ones(k), 1) for k in range(1, 4)]
    assert misses(f, calls[0], calls[1], calls[0]) == [1, 1, 0]
    assert f.cache_info().currsize == f.cache_info().maxsize == 2
    calls[2]()
    assert f.cache_info() == CacheInfo(misses=1, maxsize=2, currsize=1)
    g = jaxprgen.compile([x, n], at.tile(x[:1], n))  # The same for values that decide shapes.
    for k in (1, 2, 1, 3, 2, 1):
        assert_same(g(ONES, k), np.ones(k))
        assert g.cache_info().currsize <= 2


def test_a_program_that_is_dropped_is_freed(monkeypatch):
    """And with it what XLA made of it, and its data on the device."""
    gc.collect(1)  # Of young objects: of all, it would take seconds.
    monkeypatch.setattr("jaxprgen.runtime.specialize.MOST_PROGRAMS", 2)
    data = at.constant(np.arange(1.0, 2.0**17))
    f = jaxprgen.compile([x], x + at.sum(at.tanh(data * x[0])))

    def executables():
        gc.collect(1)
        return len(jax.devices()[0].client.live_executables())

    def on_device():
        return [weakref.ref(x) for x in jax.live_arrays() if x.shape == (2**17 - 1,)]

    before = executables()
    for size in (1, 2):
        f(np.ones(size))
    programs = [weakref.ref(f.program([np.ones(size)])) for size in (1, 2)]
    (held,) = on_device()
    at_most = executables()
    for size in (3, 4):
        f(np.ones(size))
    gc.collect(1)
    assert [program() for program in programs] == [None, None]
    assert executables() <= at_most
    f.cache_clear()
    assert executables() <= before
    assert held() is None
    assert not on_device()


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.SharedValueWarning")
def test_every_way_to_a_program_finds_the_same_one():
    f = compiled()
    struct = jax.ShapeDtypeStruct((3,), np.float64), jax.ShapeDtypeStruct((), np.int64)
    program = f.jaxpr(*struct).jaxpr.eqns
    for call in (f, f.lower, jax.jit(f), jax.grad(lambda v, m: f(v, m).sum()), f.jaxpr):
        assert misses(f, lambda call=call: call(ONES, np.int64(1))) == [0]
    assert f.jaxpr(jnp.ones(3), np.int64(5)).jaxpr.eqns is program
    assert f(ONES, 1).shape == (3,)
    f.report(ONES, np.int64(1))
    assert f.cache_info().misses == 1


def test_shapes_dtypes_and_weak_types_tell_arguments_apart():
    f = compiled()
    calls = [
        lambda: f(ONES, np.int64(1)),
        lambda: f(ONES, 1),  # A Python scalar has its input's dtype.
        lambda: f(np.ones(4), 1),
        lambda: f(np.ones(3, "float32"), 1),
        lambda: f(np.ones(3, "int8"), 1),
        lambda: f(ONES, np.int8(1)),
        lambda: f(ONES, jnp.asarray(1)),  # Weakly typed
        lambda: f(ONES, jnp.asarray(2)),
    ]
    weak = jnp.asarray(1).weak_type
    assert misses(f, *calls) == [1, 0, 1, 1, 1, 1, int(weak), 0]


def test_a_batch_has_the_type_of_its_elements():
    f = compiled()
    f(ONES, 1)
    batch = np.ones((5, 3))
    assert misses(f, lambda: jax.vmap(f, (0, None))(batch, 1)) == [0]
    assert misses(f, lambda: jax.vmap(jax.vmap(f, (0, None)), (0, None))(batch[None], 1)) == [0]


def test_settings_that_change_programs_tell_them_apart():
    m = at.fmatrix("m")
    f = jaxprgen.compile([m], at.dot(m, m))
    a = np.eye(2, dtype="float32")
    home = jax if hasattr(jax, "enable_x64") else jax.experimental

    def precisely():
        with jax.default_matmul_precision("float32"):
            (eqn,) = f.jaxpr(a).jaxpr.eqns
            assert eqn.params["precision"] == (jax.lax.Precision.HIGHEST,) * 2

    def without_x64():
        with home.enable_x64(False):
            f(a)

    calls = [lambda: f(a), precisely, without_x64]
    assert misses(f, *calls, *calls) == [1, 1, 1, 0, 0, 0]
    assert f.jaxpr(a).jaxpr.eqns[0].params["precision"] is None


def test_shardings_tell_arguments_apart():
    f = jaxprgen.compile([x], x * 2)
    mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Explicit,))
    value = np.arange(4.0)

    def sharded(spec):
        with jax.set_mesh(mesh):
            argument = jax.device_put(value, NamedSharding(mesh, spec))
            result = f(argument)
            assert jax.typeof(result).sharding.spec == spec
            assert_same(result, 2 * value)

    calls = [lambda: f(value), lambda: sharded(P("i")), lambda: sharded(P(None))]
    assert misses(f, *calls, *calls) == [1, 1, 1, 0, 0, 0]


def test_values_that_decide_shapes_tell_arguments_apart_and_no_others_do():
    m = at.lscalar("m")
    f = jaxprgen.compile([x, n, m], at.tile(x[:1], n) * m)
    calls = [lambda a=a, b=b: f(ONES, a, b) for a, b in ((1, 1), (2, 1), (2, 2), (1, 3))]
    assert misses(f, *calls, lambda: f(np.ones(4), 1, 1)) == [1, 1, 0, 0, 1]
    for size in (3, 0, 1):
        assert_same(f(ONES, np.int8(size), 5), np.full(size, 5.0))


def test_a_value_that_decides_has_its_input_s_dtype():
    """The argument's own would overflow in between."""
    f = jaxprgen.compile([n], at.arange(n * 2))
    assert_same(f(np.int8(100)), np.arange(200))


def test_values_that_decide_one_after_the_other():
    m = at.lscalar("m")
    f = jaxprgen.compile([n, m], at.ones(n).sum() + at.arange(m))
    for a, b in ((2, 3), (3, 3), (2, 4), (2, 3)):
        assert_same(f(a, b), a + np.arange(float(b)))
    assert f.cache_info().misses == 3


def test_shapes_of_shared_variables_tell_programs_apart_and_values_do_not():
    shared = aesara.shared(ONES)
    f = jaxprgen.compile([x], x.sum() + shared)
    calls = [lambda v=v: shared.set_value(v) or f(ONES) for v in (ONES, 2 * ONES, np.ones(2))]
    assert misses(f, *calls, calls[0]) == [1, 0, 1, 0]


def test_functions_have_caches_of_their_own():
    f, g = compiled(), compiled()
    f(ONES, 1)
    assert g.cache_info().misses == 0


def test_what_failed_is_not_kept():
    f = jaxprgen.compile([x, y], x + y)
    for _ in range(2):
        with pytest.raises(jaxprgen.JaxprGenError):
            f(ONES, np.ones(2))
    assert f.cache_info().currsize == f.cache_info().misses == 0


# --- Threads ------------------------------------------------------------------------------


def in_threads(count, work):
    """Run ``work(i)`` in threads that start together; what they return."""
    return at_once(*(functools.partial(work, i) for i in range(count)))


@pytest.mark.parametrize("sizes", [[3] * 8, list(range(1, 9))], ids=["same", "different"])
def test_threads_agree_and_each_program_is_emitted_once(sizes):
    f = jaxprgen.compile([x, n], at.tanh(x)[::-1] * at.arange(n + 1)[-1])

    def work(i):
        return [np.asarray(f(np.arange(float(sizes[i])), 2)) for _ in range(5)]

    for size, results in zip(sizes, in_threads(8, work), strict=True):
        for result in results:
            assert_same(result, 2 * np.tanh(np.arange(float(size)))[::-1])
    info = f.cache_info()
    assert info.misses == info.currsize == len(set(sizes))


def test_threads_set_shared_variables_and_call():
    """A call sees one value or another, of one shape or another, and never a mixture."""
    shared = aesara.shared(np.ones(1))
    f = jaxprgen.compile([], [shared.sum(), shared.shape[0] * 1.0])

    def work(i):
        for k in range(20):
            if i % 2:
                shared.set_value(np.ones(1 + (i + k) % 3))
            else:
                total, size = f()
                assert total == size
        return True

    assert all(in_threads(8, work))


# --- Lowering -----------------------------------------------------------------------------


def test_a_program_is_lowered_and_compiled_ahead():
    f = jaxprgen.compile([x], at.tanh(x) * at.constant(2 * ONES), name="model")
    for argument in (ONES, jnp.ones(3), jax.ShapeDtypeStruct((3,), np.float64)):
        lowered = f.lower(argument)
        text = lowered.as_text()
        assert "@jit_model" in text
        assert "stablehlo.tanh" in text
        assert lowered.cost_analysis()["flops"] > 0


def test_names_reach_the_program():
    f = jaxprgen.compile([x, n], x * n, name="model")
    assert f.__name__ == "model"
    info = f.jaxpr(ONES, 1).jaxpr.debug_info
    assert tuple(info.arg_names) == ("x", "n")
    assert "model" in info.func_src_info
