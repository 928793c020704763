"""Shared arrays are read as they are now, whoever wrote into them, or a warning says otherwise."""

from __future__ import annotations

import copy
import gc
import itertools
import os
import pickle
import random
import signal
import threading
import warnings
import weakref
from contextlib import nullcontext

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.compile.mode import Mode
from aesara.compile.ops import as_op
from aesara.link.basic import Container
from hypothesis import given, strategies as st
from laws import assert_same
from profiles import amount, sample

import jaxprgen
from jaxprgen.errors import SharedValueWarning
from jaxprgen.graphs.cells import Cell
from jaxprgen.runtime.dispatch import Dispatch

x = at.dvector("x")
BIG = 1 << 15
WAYS = {
    "compile": jaxprgen.compile,
    "function": jaxprgen.function,
    "mode": lambda *graph: aesara.function(*graph, mode="JAXPR"),
}
EACH_WAY = pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)


def aligned(n, offset=0):
    """Memory that JAX's CPU device can use, but for an offset that is not zero."""
    memory = np.zeros(n + 16)
    start = -memory.ctypes.data % 64 // 8 + offset
    return memory[start : start + n]


def owned(value):
    """A shared variable, and its array as a user borrows it later."""
    shared = aesara.shared(value)
    return shared, lambda: shared.get_value(borrow=True)


def borrowed(value):
    """A shared variable, and the buffer that it was made of."""
    return aesara.shared(value, borrow=True), lambda: value


def seen_read_only(value):
    view = value.view()
    view.flags.writeable = False
    return aesara.shared(view, borrow=True), lambda: value


KINDS = {
    "small number": lambda: owned(np.array(0.0)),
    "small": lambda: owned(np.zeros(3)),
    "large": lambda: owned(np.zeros(BIG)),
    "large, in Fortran's order": lambda: owned(np.zeros((BIG // 4, 4), order="F")),
    "complex": lambda: owned(np.zeros(BIG, complex)),
    "integers": lambda: owned(np.zeros(8 * BIG, "int8")),
    "small buffer": lambda: borrowed(np.zeros(3)),
    "buffer": lambda: borrowed(aligned(BIG, 1)),
    "aligned buffer": lambda: borrowed(aligned(BIG)),
    "buffer in Fortran's order": lambda: borrowed(aligned(BIG, 1).reshape(4, -1).T),
    "part of a buffer": lambda: borrowed(np.zeros((BIG, 3))[::-1, 1]),
    "small buffer seen read-only": lambda: seen_read_only(np.zeros(3)),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def first(results):
    return results[0] if isinstance(results, (list, tuple)) else results


@EACH_KIND
@EACH_WAY
def test_an_array_that_was_written_into_is_read_as_it_is_now(make, kind):
    shared, array = kind()
    f = make([], shared + 1)
    for i in range(3):
        array()[...] = i % 2
        expected = array() + np.ones((), array().dtype)
        assert_same(np.asarray(f()), expected)
        assert_same(np.asarray(f()), expected)


@EACH_KIND
@EACH_WAY
@pytest.mark.parametrize("jit", [True, False])
def test_a_result_does_not_change_when_the_array_is_written_into(make, kind, jit):
    """Nor if it is the shared array itself, or if JAX could still be computing it."""
    shared, array = kind()
    f = make([], [shared, shared + 1])
    before = np.zeros_like(array())
    with nullcontext() if jit else jax.disable_jit():
        results = f()
    array()[...] = 1
    for result, expected in zip(results, [before, before + np.ones((), before.dtype)], strict=True):
        assert_same(np.asarray(result), expected)


@EACH_KIND
def test_what_jax_records_does_not_change_when_the_array_is_written_into(kind):
    shared, array = kind()
    array()[...] = 1
    s = at.dscalar("s")
    f = jaxprgen.compile([s], at.sum(s * at.real(shared)))
    f(1.0)
    size = np.float64(array().size)
    value, pullback = jax.vjp(f, 1.0)
    with pytest.warns(SharedValueWarning):
        traced = jax.jit(lambda s: f(s)).lower(1.0).compile()
    array()[...] = 0
    assert_same(np.asarray(value), size)
    assert_same(np.asarray(pullback(1.0)[0]), size)
    assert_same(np.asarray(traced(1.0)), size)
    assert f(1.0) == 0


@pytest.mark.parametrize("new", [np.nan, -0.0])
def test_bits_are_compared_and_not_numbers(new):
    shared, array = owned(np.zeros(1))
    f = jaxprgen.compile([], shared * 1.0)
    f()
    array()[...] = new
    assert_same(np.asarray(f()), np.array([new]))


def test_equal_bytes_in_another_order_are_another_value():
    value = np.arange(4.0).reshape(2, 2)
    shared = aesara.shared(value)
    f = jaxprgen.compile([], shared * 1.0)
    for new in (value, np.array(value.T, order="F"), value):
        shared.set_value(new)
        assert_same(np.asarray(f()), new)


LINKERS = {
    "py": Mode(linker="py", optimizer="fast_run"),
    "vm": Mode(linker="vm", optimizer="fast_run"),
    "not in place": Mode(linker="py", optimizer="fast_compile"),
}


def by_aesara(shared, mode):
    """A function of Aesara that adds 1 to the first element, in place in most modes."""
    step = aesara.function([], None, updates={shared: at.inc_subtensor(shared[0], 1)}, mode=mode)
    (node,) = step.maker.fgraph.toposort()
    assert node.op.inplace == (mode is not LINKERS["not in place"])
    return step


@pytest.mark.parametrize("n", [3, BIG])
@pytest.mark.parametrize("mode", LINKERS.values(), ids=LINKERS)
@EACH_WAY
def test_updates_in_place_by_aesara_are_seen(make, mode, n):
    shared = aesara.shared(np.zeros(n), name="total")
    step, f = by_aesara(shared, mode), make([], shared[:2] * 2)
    for i in range(3):
        assert_same(np.asarray(f()), np.array([2.0 * i, 0]))
        step()


ORDERS = ["theirs first", "ours first", "ours runs first"]
EVERY = itertools.product(["by Aesara alone", "with a cell"], ORDERS, LINKERS, [3, BIG])


@pytest.mark.parametrize(("made", "order", "mode", "n"), sample(EVERY, 13))
def test_functions_of_aesara_go_on_after_updates(made, order, mode, n):
    """In place or not, whoever was made first, and whoever ran first."""
    mode = LINKERS[mode]
    shared = aesara.shared(np.zeros(n), name="total")
    if made == "by Aesara alone":  # As before this package was imported.
        shared.container = Container(shared, [np.zeros(n)])
    step = by_aesara(shared, mode) if order == "theirs first" else None
    add = jaxprgen.function([], shared[0], updates={shared: shared + 10})
    if order == "ours runs first":
        add(), add()
        shared.set_value(np.zeros(n))
    step = step or by_aesara(shared, mode)
    kind, expected = type(shared.container), 0.0
    for _ in range(3):
        for call, more in ((step, 1), (add, 10), (add, 10), (step, 1), (step, 1)):
            call()
            expected += more
            assert shared.get_value()[0] == expected
    assert type(shared.container) is kind


@given(
    st.sampled_from([1, BIG]),
    st.lists(st.sampled_from(["write", "set", "borrow", *WAYS, "update", "trace"]), max_size=12),
)
def test_any_order_of_writes_and_calls(n, actions):
    shared = aesara.shared(np.zeros(n), name="w")
    functions = {name: make([], shared[-1] * 2) for name, make in WAYS.items()}
    update = jaxprgen.function([], None, updates={shared: shared + 1})
    buffer, number = np.zeros(n), 0.0
    for i, action in enumerate([*actions, *WAYS]):
        if action == "set":
            number = float(i)
            shared.set_value(np.full(n, number))
        elif action == "borrow":
            number = buffer[-1]
            shared.set_value(buffer, borrow=True)
        elif action == "update":
            number += 1
            update()
        elif action == "trace":
            assert jax.vmap(lambda _: functions["compile"]())(np.zeros(2))[1] == 2 * number
        elif action == "write":
            array = shared.get_value(borrow=True)
            if isinstance(array, np.ndarray):
                number = array[-1] = float(i)
        else:
            assert functions[action]() == 2 * number, (action, actions)


def read_only(n):
    value = np.zeros(n)
    value.flags.writeable = False
    return value


KEPT = {
    "made of a copy": lambda n: aesara.shared(np.zeros(n)),
    "read-only": lambda n: aesara.shared(read_only(n), borrow=True),
}


@pytest.mark.parametrize("n", [3, BIG])
@pytest.mark.parametrize("build", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("way", ["compile", "function"])
def test_values_that_nobody_can_write_into_go_to_the_device_once(way, build, n):
    """Nor are they compared."""
    shared = build(n)
    f = WAYS[way]([], shared + 1)
    f()
    assert shared.container.cell._copy.data is None
    with jax.transfer_guard_host_to_device("disallow_explicit"):
        assert_same(np.asarray(first(f())), np.ones(n))


@pytest.mark.parametrize("n", [3, BIG])
def test_updated_values_stay_on_the_device(n):
    shared = aesara.shared(np.zeros(n))
    update = jaxprgen.function([], None, updates={shared: shared + 1})
    read = jaxprgen.compile([], shared.sum())
    update()
    with jax.transfer_guard("disallow_explicit"):
        update()
        total = read()
    assert total == 2 * n
    assert isinstance(shared.get_value(borrow=True), jax.Array)


@EACH_WAY
def test_buffers_are_not_written_into(make):
    first, second = aligned(BIG), aligned(BIG, 1) + 1
    shared = aesara.shared(first, borrow=True)
    f = make([], shared * 2)
    for value in (first, second, first, second):
        shared.set_value(value, borrow=True)
        assert_same(np.asarray(f()), value * 2)
    assert (first[0], second[0]) == (0, 1)


@pytest.mark.parametrize("n", [3, BIG])
def test_an_update_reuses_memory_that_nobody_holds(n):
    shared = aesara.shared(np.zeros(n))
    update = jaxprgen.function([], None, updates={shared: shared + 1})
    update()
    old = shared.container.cell.value
    update()
    assert old.is_deleted()
    for borrow in (True, False):
        held = shared.get_value(borrow=borrow)
        before = np.array(held)
        update()
        update()
        assert_same(np.asarray(held), before)
    assert_same(np.asarray(shared.get_value()), np.full(n, 6.0))


HELD = {
    "state": lambda f, shared: f.state()["w"],
    "an output": lambda f, shared: f()[0],
    "a reader's result": lambda f, shared: jaxprgen.compile([], shared)(),
    "a program": lambda f, shared: jaxprgen.compile([], shared * 1.0).jaxpr().consts[0],
    "a pullback": lambda f, shared: jax.vjp(jaxprgen.compile([x], x * shared), np.ones(3))[1],
    "a copy": lambda f, shared: copy.copy(shared).get_value(borrow=True),
    "a clone": lambda f, shared: shared.clone().get_value(borrow=True),
}


@pytest.mark.parametrize("get", HELD.values(), ids=HELD)
def test_what_was_handed_out_is_not_reused(get):
    shared = aesara.shared(np.zeros(3), name="w")
    f = jaxprgen.function([], [shared, shared + 1], updates={shared: shared + 1})
    for _ in range(3):
        held = get(f, shared)
        values = (
            (lambda held=held: held(np.ones(3))[0]) if callable(held) else lambda held=held: held
        )
        before = np.array(values())
        f(), f()
        assert_same(np.asarray(values()), before)


def test_programs_that_may_not_end_reuse_nothing():
    shared = aesara.shared(np.zeros(3), name="w")
    fails = [False]

    @as_op([at.dvector], [at.dvector])
    def called(value):
        if fails[0]:
            raise KeyboardInterrupt
        return value

    for new, fallback in ((called(shared) + 1, "callback"), (shared + 1, "error")):
        f = jaxprgen.function([], None, updates={shared: new}, fallback=fallback)
        f(), f()
        old = shared.container.cell.value
        f()
        assert old.is_deleted() == (fallback == "error")
    f = jaxprgen.function([], None, updates={shared: called(shared) + 1}, fallback="callback")
    before, fails[0] = np.array(shared.get_value()), True
    for _ in range(2):
        with pytest.raises((KeyboardInterrupt, jax.errors.JaxRuntimeError)):
            jax.block_until_ready(f())
            jax.block_until_ready(shared.get_value(borrow=True))
        shared.set_value(before)
        assert_same(np.asarray(shared.get_value()), before)


UPDATING = {
    "function": jaxprgen.function,
    "mode": lambda *graph, **more: aesara.function(*graph, mode="JAXPR", **more),
}


@pytest.mark.parametrize("make", UPDATING.values(), ids=UPDATING)
@pytest.mark.parametrize("place", ["read", "run", "update", "write"])
def test_an_interrupt_loses_nothing(place, make, monkeypatch):
    """Wherever it comes, all variables have the old values, or all have the new ones."""
    variables = [aesara.shared(np.zeros(3), name=name) for name in "abc"]
    update = make([], None, updates={v: v + 1 for v in variables})
    update(), update()
    owner, name = {
        "read": (Cell, "give"),
        "run": (Dispatch, "_run"),
        "update": (Cell, "as_stored"),
        "write": (Cell, "write"),
    }[place]
    method = getattr(owner, name)
    for number in range(3):
        before, calls = [float(v.get_value()[0]) for v in variables], []

        def interrupted(*args, number=number, calls=calls):
            found = method(*args)
            calls.append(args)
            if len(calls) == number + 1:
                raise KeyboardInterrupt
            return found

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, interrupted)
            if place != "run" or number == 0:
                with pytest.raises(KeyboardInterrupt):
                    update()
        after = [float(v.get_value()[0]) for v in variables]
        assert after in (before, [value + 1 for value in before])


@pytest.mark.parametrize("setting", [jax.debug_nans, jax.debug_infs])
def test_a_call_that_makes_a_number_which_jax_refuses_changes_nothing(setting):
    """JAX runs the program again, to find the equation that made the number."""
    shared, s = aesara.shared(np.ones(3), name="w"), at.dscalar("s")
    f = jaxprgen.function([s], shared.sum(), updates={shared: shared * at.log(s)})
    refused = -1.0 if setting is jax.debug_nans else 0.0
    for _ in range(2):
        f(np.e), f(np.e)
        with setting(True):
            with pytest.raises(FloatingPointError, match="invalid value"):
                f(refused)
            assert_same(shared.get_value(borrow=True), np.ones(3))
            assert f(np.e) == 3.0


@pytest.mark.parametrize("make", UPDATING.values(), ids=UPDATING)
def test_an_interrupt_at_any_moment_loses_nothing_and_keeps_no_lock(make):
    variables = [aesara.shared(np.zeros(3), name=name) for name in "abcd"]
    update = make([], None, updates={v: v + 1 for v in variables})
    read = jaxprgen.compile([], [v.sum() for v in variables])
    update(), update(), read(), read()
    rng = random.Random(0)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(amount(quick=200, deep=20_000)):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(5e-5, 1e-3))
                while True:
                    update(), read()
            found = []
            thread = threading.Thread(target=lambda found=found: found.extend(read()), daemon=True)
            thread.start()
            thread.join(60)
            assert len({float(total) for total in found}) == 1
    finally:
        signal.signal(signal.SIGALRM, before)


def test_new_values_of_other_types_reuse_nothing():
    shared = aesara.shared(np.zeros(2), name="w")
    f = jaxprgen.function([], shared.sum(), updates={shared: at.concatenate([shared, shared]) + 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [float(f()) for _ in range(3)] == [0.0, 4.0, 16.0]


def test_values_are_swapped():
    a, b = (aesara.shared(np.full(3, value), name=name) for name, value in (("a", 1.0), ("b", 2.0)))
    swap = jaxprgen.function([], [a, b], updates={a: b, b: a})
    for i in range(5):
        found = [float(value[0]) for value in swap()]
        assert found == ([1.0, 2.0] if i % 2 == 0 else [2.0, 1.0])


def test_a_value_that_is_set_in_the_middle_of_an_update_counts_as_later():
    """Aesara's own containers take no lock."""
    shared = aesara.shared(np.zeros(3), name="w")
    shared.container = Container(shared, [np.zeros(3)])

    @as_op([at.dvector], [at.dvector])
    def sets(value):
        shared.set_value(np.full(3, 7.0))
        return value

    f = jaxprgen.function([], None, updates={shared: sets(shared) + 1}, fallback="callback")
    f()
    assert_same(np.asarray(shared.get_value()), np.full(3, 7.0))


def test_clones_and_functions_share_one_cell():
    shared = aesara.shared(np.zeros(3), name="w")
    update = jaxprgen.function([], None, updates={shared: shared + 1})
    f = jaxprgen.compile([], shared.clone() * 2)
    update()
    assert_same(np.asarray(f()), np.full(3, 2.0))
    assert shared.clone().container.cell is shared.container.cell
    assert isinstance(shared.container.cell, Cell)


@pytest.mark.parametrize("make", UPDATING.values(), ids=UPDATING)
@pytest.mark.parametrize("twin", [copy.deepcopy, lambda w: pickle.loads(pickle.dumps(w))])
def test_copies_in_the_middle_have_a_value_of_their_own(make, twin):
    shared = aesara.shared(np.zeros(3), name="w")
    f = make([], shared * 2, updates={shared: shared + 1})
    f(), f()
    other, g = twin((shared, f))
    g(), g()
    f()
    assert_same(np.asarray(shared.get_value()), np.full(3, 3.0))
    assert_same(np.asarray(other.get_value()), np.full(3, 4.0))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="The system has no fork.")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_process_that_is_forked_in_the_middle_has_values_of_its_own():
    shared = aesara.shared(np.zeros(3), name="w")
    step = jaxprgen.function([], [], updates={shared: shared + 1})
    step()
    shared.get_value()  # It waits for the update: JAX's threads do not run in the child.
    child = os.fork()
    if not child:
        signal.alarm(60)
        before = np.asarray(shared.get_value(borrow=True))
        shared.set_value(before + 10)
        after = np.asarray(shared.get_value(borrow=True))
        os._exit(not (np.all(before == 1) and np.all(after == 11)))
    step()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(shared.get_value(), np.full(3, 2.0))


@EACH_WAY
def test_a_value_that_was_replaced_is_freed(make):
    gc.collect(1)  # Of young objects: of all, it would take seconds.
    shared = aesara.shared(np.zeros(BIG))
    f = make([], shared * 2)
    f()
    old = weakref.ref(shared.get_value(borrow=True))
    shared.set_value(np.ones(3))
    f()
    gc.collect(1)
    assert old() is None


def test_a_program_shows_the_values_of_now():
    shared = aesara.shared(np.zeros(3), name="w")
    f = jaxprgen.compile([x], x * shared)
    program = f.jaxpr(np.ones(3))
    assert f.jaxpr(np.ones(3)).jaxpr.eqns is program.jaxpr.eqns
    shared.set_value(np.ones(3))
    for closed in (f.jaxpr(np.ones(3)), f.observe(np.ones(3)).closed_jaxpr):
        assert_same(jaxprgen.jaxpr_as_fun(closed)(np.ones(3))[0], np.ones(3))


# --- Values that an outer program keeps ---------------------------------------------------


def scaled(make=jaxprgen.compile):
    scale, shift = aesara.shared(2.0, name="scale"), aesara.shared(1.0, name="shift")
    return make([x], scale * at.sum(x) + shift)


STAGED = {
    "jit": lambda f: jax.jit(f)(np.ones(3)),
    "jit of a value": lambda f: jax.jit(lambda y: y + f(np.ones(3)))(0.0),
    "jit of vmap of grad": lambda f: jax.jit(jax.vmap(jax.grad(f)))(np.ones((2, 3))),
    "scan": lambda f: jax.lax.scan(lambda c, y: (c, f(y)), 0, np.ones((2, 3))),
    "make_jaxpr": lambda f: jax.make_jaxpr(f)(np.ones(3)),
}
DIRECT = {
    "call": lambda f: f(np.ones(3)),
    "vmap": lambda f: jax.vmap(f)(np.ones((2, 3))),
    "grad": lambda f: jax.grad(f)(np.ones(3)),
    "hessian": lambda f: jax.hessian(f)(np.ones(3)),
    "jvp": lambda f: jax.jvp(f, (np.ones(3),), (np.ones(3),)),
}


@EACH_WAY
@pytest.mark.parametrize("way", STAGED.values(), ids=STAGED)
def test_a_warning_names_the_values_that_an_outer_program_keeps(make, way):
    f = scaled(make)
    with pytest.warns(SharedValueWarning) as caught:
        way(f)
    way(lambda y: f(y))  # It warns once.
    (warning,) = caught
    assert warning.filename == __file__
    first, second = str(warning.message).splitlines()
    assert first == (
        "JAX traces 'main', and the program that it makes, such as that of an outer jit, keeps the "
        "present values of 'scale', 'shift'. It will not notice new values."
    )
    assert second.startswith("To pass them as arguments, ") and "pure(state, ...)" in second


@EACH_WAY
@pytest.mark.parametrize("way", DIRECT.values(), ids=DIRECT)
def test_no_warning_where_values_are_read_at_each_call(make, way):
    way(scaled(make))


def test_shared_variables_can_be_arguments():
    scale = aesara.shared(2.0, name="scale")
    f = jax.jit(jaxprgen.compile([scale, x], scale * at.sum(x)))
    assert f(scale.get_value(), np.ones(3)) == 6
    scale.set_value(3.0)
    assert f(scale.get_value(), np.ones(3)) == 9
