"""The mode "JAXPR": `aesara.function` as before, run as one JAX program."""

import copy
import pickle

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.compile.io import In, Out
from aesara.compile.mode import Mode, get_mode
from aesara.tensor.basic import default
from aesara.tensor.random.type import random_generator_type, random_state_type
from aesara.tensor.random.utils import RandomStream
from aesara.tensor.type_other import slicetype
from laws import assert_same

import jaxprgen
from jaxprgen.aesara.linker import JaxprFunction
from jaxprgen.errors import (
    ArgumentShapeError,
    ArgumentTypeError,
    ProfileWarning,
    StateError,
    UnsupportedOpError,
)
from jaxprgen.graphs.generators import key_of, with_key

PYTHON = Mode("py", None)
MODES = {
    "plain": "JAXPR",
    "rewritten": get_mode("JAXPR").including("fast_run"),
    "called back": jaxprgen.JaxprMode(jaxprgen.JaxprLinker(fallback="callback"), "fast_compile"),
}
x, y, s = at.dvector("x"), at.dvector("y"), at.dscalar("s")
ONES = np.ones(3)


def both(make, mode):
    """A function as Aesara's Python mode has it, and as this one does; of variables of its own."""
    return make(PYTHON), make(mode)


def assert_all_same(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, yours in zip(ours, theirs, strict=True):
        assert_same(mine, np.asarray(yours))


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_script_of_all_kinds_of_inputs(mode):
    def script(mode):
        weights = aesara.shared(np.arange(3.0), name="weights")
        steps = aesara.shared(0, name="steps")
        loss = ((x - weights) ** 2).sum() * s
        train = aesara.function(
            [x, In(s, value=0.5, name="rate")],
            [loss, Out(weights * 2, borrow=True)],
            updates=[(weights, weights - aesara.grad(loss, weights)), (steps, steps + 1)],
            givens={y: x},
            mode=mode,
        )
        read = aesara.function([], {"w": weights, "n": steps}, mode=mode)
        found = [*train([1, 2, 3]), *train(ONES, 0.25), *train(ONES, rate=2.0), *train(x=ONES)]
        found += read().values()
        weights.set_value(ONES)
        accumulate = aesara.function([In(y, value=ONES, update=y * 2)], y.sum(), mode=mode)
        found += [*train(ONES), accumulate(), accumulate(), accumulate[y]]
        return [*found, weights.get_value(), steps.get_value()]

    theirs, ours = both(script, mode)
    assert_all_same(ours, theirs)


@pytest.mark.parametrize("outputs", [x.sum(), [x.sum()], {"total": x.sum()}, None, []], ids=str)
def test_what_is_returned(outputs):
    def make(mode):
        return aesara.function([x], outputs, mode=mode, on_unused_input="ignore")

    theirs, ours = both(make, "JAXPR")
    assert ours(ONES) == theirs(ONES)


def test_some_of_the_outputs():
    f = aesara.function([x], [x.sum(), x.max()], mode="JAXPR")
    assert f(ONES, output_subset=[1]) == [1.0]


# --- Arrays ------------------------------------------------------------------------------


def test_results_are_arrays_that_the_caller_may_write_into():
    outputs = [x, x * 2, x.sum(), at.scalar_from_tensor(s)]

    def script(mode):
        held = aesara.shared(ONES, name="held")
        f = aesara.function([x, s], [*outputs, held], updates={held: held + x}, mode=mode)
        results = f(ONES, 2.0)
        for result in results[:3]:
            result += 1
        return [*results, *f(ONES, 2.0), held.get_value()]

    theirs, ours = both(script, "JAXPR")
    assert_all_same(ours, theirs)
    assert list(map(type, ours)) == list(map(type, theirs))


def test_borrowed_results_are_views():
    held = aesara.shared(np.zeros(3))
    f = aesara.function([x], Out(held + x, borrow=True), updates={held: held + x}, mode="JAXPR")
    first = f(ONES)
    assert not first.flags.owndata
    assert not first.flags.writeable
    assert_all_same([f(ONES), first, held.get_value()], [ONES * 2, ONES, ONES * 2])


def test_results_that_are_arrays_of_jax():
    mode = jaxprgen.JaxprMode(jaxprgen.JaxprLinker(results="jax"), None)
    f = aesara.function([x], [x * 2, x.sum()], mode=mode)
    assert all(isinstance(result, jax.Array) for result in f(ONES))
    f = aesara.function([x], [x * 2], mode="JAXPR")
    assert isinstance(f.pure({}, ONES)[0][0], jax.Array)
    with pytest.raises(ArgumentTypeError, match=r"results must be .* got 'torch'"):
        jaxprgen.JaxprLinker(results="torch")


@pytest.mark.parametrize("results", ["numpy", "jax"])
def test_state_stays_on_the_device_if_results_do(results):
    mode = jaxprgen.JaxprMode(jaxprgen.JaxprLinker(results=results), None)
    total = aesara.shared(np.zeros(3))
    f = aesara.function([x], [], updates={total: total + x}, mode=mode)
    f(ONES)
    f(ONES)
    assert isinstance(total.container.cell.value, jax.Array)
    assert isinstance(total.get_value(), jax.Array) == (results == "jax")
    step = aesara.function([], [], updates={total: total + 1}, mode=PYTHON)
    for _ in range(2):
        f(ONES)
        step()
    np.testing.assert_array_equal(total.get_value(), np.full(3, 6.0))


@pytest.mark.parametrize("n", [4, 100_000])
@pytest.mark.parametrize("other", ["FAST_RUN", "FAST_COMPILE", PYTHON])
def test_functions_in_other_modes_update_the_same_variables(other, n):
    """In place as well, whichever function runs first."""
    w = aesara.shared(np.zeros(n), name="w")
    first = at.set_subtensor(w[0], w[0] + 10)
    functions = [
        aesara.function([], w[:2], updates={w: w + 1}, mode="JAXPR"),
        aesara.function([], w[:2], updates={w: first}, mode=other),
    ]
    wanted = np.zeros(2)
    for i in (1, 0, 0, 1, 1, 0, 1):
        np.testing.assert_array_equal(functions[i](), wanted)
        wanted = wanted + (10 * np.eye(2)[0] if i else 1)
    np.testing.assert_array_equal(w.get_value()[:2], wanted)
    assert w.get_value().shape == (n,)


def test_values_of_shared_variables_are_numpy_arrays():
    def script(mode):
        total = aesara.shared(np.zeros(3), name="total")
        add = aesara.function([x], [], updates={total: total + x}, mode=mode)
        other = aesara.function([], total * 2, mode=PYTHON)
        found = []
        add(ONES)
        found += [total.get_value(), total.get_value(borrow=True), other()]
        add(ONES)
        found += [copy.deepcopy(total).get_value(), pickle.loads(pickle.dumps(total)).get_value()]
        total.zero(borrow=True)
        mine = total.get_value()
        mine += 5
        found += [mine, total.get_value()]
        add.finder[total].value = ONES
        add(ONES)
        return [*found, add.finder[total].value, total.get_value()]

    theirs, ours = both(script, "JAXPR")
    assert_all_same(ours, theirs)
    assert list(map(type, ours)) == list(map(type, theirs))


def test_nothing_is_rewritten_unless_asked_for():
    nodes = {
        name: len(aesara.function([x], at.log(at.exp(x)) * 1.0, mode=mode).maker.fgraph.apply_nodes)
        for name, mode in MODES.items()
    }
    assert nodes["rewritten"] < nodes["plain"] == 4  # One is a DimShuffle of 1.0.


# --- Draws -------------------------------------------------------------------------------


def test_draws_advance_and_go_back():
    stream = RandomStream(3)
    draw = stream.normal(size=2)
    f, g = (aesara.function([], draw, mode="JAXPR") for _ in range(2))
    ((generator, _),) = stream.state_updates
    before = generator.get_value()
    first = [f(), g(), f()]  # Functions of one generator share it.
    assert len({float(each[0]) for each in first}) == 3
    generator.set_value(before)
    assert_all_same([f(), f(), f()], first)
    # The first keys are those of a function that takes the state.
    generator.set_value(before)
    assert_same(f.pure(f.state())[0], first[0])
    h = jaxprgen.function([], draw)
    assert_same(h(), first[0])
    assert_same(f(), first[1])


def test_a_middle_state_is_returned_to():
    stream = RandomStream(3)
    f = aesara.function([], stream.normal(size=2), mode="JAXPR")
    ((generator, _),) = stream.state_updates
    f()
    kept, pickled = generator.get_value(), pickle.dumps(generator.get_value())
    wanted = [f(), f()]
    generator.set_value(kept)
    assert_all_same([f(), f()], wanted)
    generator.set_value(pickle.loads(pickled))
    assert_all_same([f(), f()], wanted)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_with_a_key_is_still_one_of_numpy(make):
    plain, keyed = make(5), with_key(make(5), jax.random.key(1))
    assert isinstance(keyed, type(plain))
    assert keyed.normal() == plain.normal()
    for other in [copy.copy(keyed), copy.deepcopy(keyed), pickle.loads(pickle.dumps(keyed))]:
        assert other.normal() == make(5).normal(size=2)[1]
    assert keyed.normal() == plain.normal()
    assert key_of(copy.deepcopy(keyed)) == key_of(keyed)
    assert key_of(copy.copy(keyed)) != key_of(keyed)
    assert key_of(make(5)) == key_of(make(5)) != key_of(make(6))


def test_a_generator_that_numpy_advances_in_between():
    stream = RandomStream(3)
    draw = stream.normal(size=2)
    ours, theirs = (aesara.function([], draw, mode=mode) for mode in ("JAXPR", "FAST_COMPILE"))
    seen = [float(f()[0]) for f in (ours, theirs, ours, theirs, theirs, ours)]
    assert len(set(seen)) == 6


@pytest.mark.parametrize(
    ("kind", "make"),
    [(random_generator_type, np.random.default_rng), (random_state_type, np.random.RandomState)],
)
def test_generators_as_arguments_and_results(kind, make):
    state = kind("state")
    new, draw = at.random.normal(size=3, rng=state).owner.outputs
    f = aesara.function([state], [new, draw], mode="JAXPR")
    after, first = f(make(1))
    _, second = f(after)
    assert_same(f(make(1))[1], first)
    assert not np.any(np.asarray(first) == np.asarray(second))


# --- Copies ------------------------------------------------------------------------------


def test_copies():
    total, other = aesara.shared(np.zeros(3)), aesara.shared(ONES * 5)
    f = aesara.function([x], total + x, updates={total: total + x}, mode="JAXPR", name="add")
    f(ONES)
    reading = f.copy(delete_updates=True)
    assert_all_same([reading(ONES), reading(ONES)], [ONES * 2, ONES * 2])
    swapped = f.copy(swap={total: other})
    assert_same(swapped(ONES), ONES * 6)
    assert_same(other.get_value(), ONES * 6)
    restored = pickle.loads(pickle.dumps(f))
    assert_all_same([restored(ONES), restored(ONES)], [ONES * 2, ONES * 3])
    assert_same(total.get_value(), ONES)


# --- As a JAX function -------------------------------------------------------------------


def test_what_jax_transforms():
    weights = aesara.shared(np.arange(3.0), name="weights")
    f = aesara.function([x], (x**2 * weights).sum(), mode="JAXPR")
    wanted = 2 * np.arange(3.0)
    assert_same(jax.grad(f)(jax.numpy.ones(3)), wanted)
    assert_same(jax.grad(f.compiled, argnums=1)(weights.get_value(), ONES), wanted)
    batch = jax.vmap(lambda v: f.pure(f.state(), v)[0])(np.eye(3))
    assert_same(batch, np.arange(3.0))


def test_a_function_that_updates_is_not_transformed():
    total = aesara.shared(0.0, name="total")
    f = aesara.function([s], total, updates={total: total + s}, mode="JAXPR", name="count")
    with pytest.raises(StateError, match=r"count updates total.*\n.*count\.pure\(state"):
        jax.jit(f)(1.0)
    result, new = jax.jit(f.pure)(f.state(), 2.0)
    assert (result, new["total"]) == (0.0, 2.0)
    assert total.get_value() == 0.0


def test_errors_are_ours():
    f = aesara.function([x, y], x + y, mode="JAXPR")
    with pytest.raises(ArgumentShapeError, match=r"Input 'x' has 1 dimension"):
        f(np.ones((2, 3)), ONES)
    with pytest.raises(ValueError, match=r"test_linker\.py"):
        f(ONES, np.ones(4))

    class Unknown(aesara.graph.op.Op):
        itypes, otypes = [at.dvector], [at.dvector]

        def perform(self, node, inputs, outputs):
            outputs[0][0] = inputs[0] + 1

    with pytest.raises(UnsupportedOpError, match="Unknown"):
        aesara.function([x], Unknown()(x), mode="JAXPR")
    assert_same(aesara.function([x], Unknown()(x), mode=MODES["called back"])(ONES), ONES + 1)


def test_a_state_that_is_none():
    f = aesara.function([In(s, value=1.0, update=s + 1)], s, mode="JAXPR")
    f[s] = None
    with pytest.raises(ArgumentTypeError, match="Input 's' got None"):
        f()


def test_as_the_default_mode():
    with aesara.config.change_flags(mode=get_mode("JAXPR")):
        f = aesara.function([x], x * 2)
    assert isinstance(f, JaxprFunction)
    assert_same(f(ONES), ONES * 2)


def test_arguments_that_are_none():
    """Where Aesara's Op takes None for a tensor: an argument, or a value from call to call."""

    def script(mode):
        t, u = at.dscalars("t", "u")
        rows, columns = at.lscalars("rows", "columns")
        either = aesara.function([t, u], default(t, u), mode=mode)
        new = u + default(t, np.float64(3.4))
        kept = aesara.function([u, In(t, update=new, value=12.0, name="t")], new, mode=mode)
        ones = [at.eye(rows, columns), at.tri(rows, columns)]
        made = aesara.function([rows, columns], ones, mode=mode)
        results = [either(1.0, 2.0), either(None, 2.0), either(1.0, None), kept(3.0)]
        kept["t"] = None
        return [*results, kept(1.0), kept(2.0), *made(3, None), *made(2, 3)]

    for theirs, ours in (both(script, mode) for mode in MODES.values()):
        assert_all_same(ours, theirs)
    with pytest.raises(ArgumentTypeError, match="Input 's' got None"):
        aesara.function([s], s + default(s, np.float64(3.4)), mode="JAXPR")(None)


def test_arguments_that_are_slices():
    """Each makes a program, as numbers that decide shapes do."""
    held, index = aesara.shared(np.arange(12.0).reshape(4, 3)), slicetype("index")
    theirs, ours = both(lambda mode: aesara.function([index], held[index] * 2, mode=mode), "JAXPR")
    for part in (slice(1, 3), slice(None, None, -1), slice(1, 3), slice(np.int64(3), None)):
        assert_same(ours(part), theirs(part))
    assert len(ours.vm.programs.others) == 3


def test_profiles_have_no_times_of_nodes():
    with pytest.warns(
        ProfileWarning, match=r"has no times of nodes\.\nf\.compiled\.report"
    ) as caught:
        f = aesara.function([x], at.exp(x) + 1, mode="JAXPR", profile=True)
    assert caught[0].filename == __file__
    assert_same(f(np.zeros(3)), ONES * 2)
    assert f.profile.fct_callcount == 1


def test_storage_of_all_variables():
    """Where Aesara's functions, and who looks into them, expect it."""
    f = aesara.function([x], at.exp(x) + 1, mode="JAXPR")
    assert set(f.vm.storage_map) >= set(f.maker.fgraph.variables)


def test_a_loop_in_python_around_steps_in_this_mode():
    """The loop reads the results of a step from storage."""
    (doubled, sums), _ = aesara.scan(
        lambda s: (s * 2, s.sum()), outputs_info=[x, None], n_steps=3, mode="JAXPR"
    )
    f = aesara.function([x], [doubled, sums], mode=aesara.compile.mode.Mode("py", None))
    found = f(ONES)
    assert_all_same(found, [np.outer([2, 4, 8], ONES), ONES.sum() * np.array([1.0, 2.0, 4.0])])
