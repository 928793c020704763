"""What data decide is computed once for each value of the data."""

import threading

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from laws import assert_same

import jaxprgen
from jaxprgen.errors import SharedValueWarning
from jaxprgen.passes import default
from jaxprgen.runtime import prepared

rng = np.random.default_rng(0)
DATA, OTHER = rng.normal(size=(2, 4000, 3))
START = np.array([0.3, -0.2, 0.1])
b = at.dvector("b")
WAYS = {
    "compile": lambda outputs: jaxprgen.compile([b], outputs),
    "function": lambda outputs: jaxprgen.function([b], outputs),
    "mode": lambda outputs: aesara.function([b], outputs, mode="JAXPR"),
}
EACH_WAY = pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)


def regression(x):
    """Squares of a regression on standardized data, and their gradient."""
    standard = (x - x.mean(0)) / x.std(0)
    total = (at.tanh(standard @ b) ** 2).sum() + at.exp(standard).sum()
    return [total, at.grad(total, b)]


def expected(data, start=START):
    x = at.dmatrix("x")
    f = aesara.function([x, b], regression(x), mode="FAST_COMPILE")
    return f(data, start)


def assert_right(found, data):
    for x, wanted in zip(found, expected(data), strict=True):
        assert_same(np.asarray(x), wanted, 1e-9)


@pytest.mark.parametrize("passes", [default(graph=True), ()], ids=["default", "none"])
@pytest.mark.parametrize("make", [at.constant, aesara.shared], ids=["constant", "shared"])
def test_data_decide_nothing_in_the_program_that_a_call_runs(make, passes):
    f = jaxprgen.compile([b], regression(make(DATA)), passes=passes)
    assert_right(f(START), DATA)
    assert (f.program([START]).prepared is not None) is bool(passes)
    text = f.lower(START).as_text()
    assert ("exponential" in text) is not bool(passes)
    assert f.report(START).data_equations == (
        len(f.program([START]).prepared.first.jaxpr.eqns) if passes else 0
    )


@EACH_WAY
def test_new_data_are_seen(make, monkeypatch):
    computed = []
    to_device = prepared.to_device
    monkeypatch.setattr(prepared, "to_device", lambda xs: computed.append(0) or to_device(xs))
    shared = aesara.shared(DATA, name="x")
    f = make(regression(shared))
    assert_right(f(START), DATA)
    for data in (OTHER, DATA[:900], DATA, DATA):
        shared.set_value(data)
        assert_right(f(START), data)
        assert_right(f(START), data)
    assert len(computed) == 5  # Once for each value that was set.


@EACH_WAY
def test_what_is_written_into_borrowed_data_is_seen(make):
    memory = DATA.copy()
    shared = aesara.shared(memory, borrow=True)
    f = make(regression(shared))
    assert_right(f(START), DATA)
    memory[:] = OTHER
    assert_right(f(START), OTHER)


@EACH_WAY
def test_updates_by_another_function_are_seen(make):
    shared = aesara.shared(DATA)
    f = make(regression(shared))
    step = jaxprgen.function([], [], updates={shared: 2 * shared - OTHER})
    assert_right(f(START), DATA)
    step()
    assert_right(f(START), 2 * DATA - OTHER)


def test_a_function_s_own_state_is_no_data():
    weights = aesara.shared(DATA)
    f = jaxprgen.function([b], regression(weights), updates={weights: weights + 1})
    assert_right(f(START), DATA)
    assert_right(f(START), DATA + 1)
    assert f.compiled.program([weights.get_value(), START]).prepared is None


def test_values_are_kept():
    shared = aesara.shared(DATA)
    f = jaxprgen.compile([b], regression(shared))
    f(START)
    program, on_device = f.program([START]), [jnp.asarray(DATA)]
    first = program.values_of(on_device, [START])
    assert program.values_of(on_device, [START]) is first
    assert program.values_of([jnp.asarray(DATA)], [START]) is not first
    assert program.values_of([DATA], [START]) is None  # Anyone may write into it.


@pytest.mark.filterwarnings("ignore", category=SharedValueWarning)
def test_transformations():
    f = jaxprgen.compile([b], regression(aesara.shared(DATA)))
    whole = jaxprgen.compile([b], regression(at.constant(DATA)), passes=())
    starts = jnp.stack([START, 2 * START])
    for change in (
        jax.jit,
        jax.vmap,
        lambda g: jax.jit(jax.vmap(g)),
        lambda g: jax.vmap(jax.grad(lambda v: g(v)[0])),
        lambda g: jax.vmap(jax.hessian(lambda v: g(v)[0])),
        lambda g: lambda vs: jax.lax.map(g, vs),
    ):
        given = START if change is jax.jit else starts
        for x, y in zip(
            jax.tree.leaves(change(f)(given)), jax.tree.leaves(change(whole)(given)), strict=True
        ):
            np.testing.assert_allclose(x, y, rtol=1e-8)
    closed = jax.make_jaxpr(f)(START)
    assert "exp" not in str(closed).replace("expand", "")


def test_data_that_devices_share():
    mesh = jax.make_mesh((8,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    shared = aesara.shared(DATA)
    f = jaxprgen.compile([b], regression(shared), shardings={shared: where})
    assert_right(f(START), DATA)
    shared.set_value(OTHER)
    assert_right(f(START), OTHER)
    program = f.program([START])
    assert program.values_of([shared.container.storage[0]], [START]) is None  # It saves memory.


def test_sizes_of_arguments_are_no_data():
    x = at.dvector("x")
    f = jaxprgen.compile(
        [x], at.exp(at.arange(x.shape[0])).sum() * x + at.exp(at.constant(DATA)).sum()
    )
    exported = jax.export.export(jax.jit(f))(
        jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), "f8")
    )
    for n in (2, 5):
        np.testing.assert_allclose(exported.call(np.ones(n)), f(np.ones(n)), rtol=1e-12)


def test_draws_are_new_in_each_call():
    stream, shared = at.random.RandomStream(1), aesara.shared(DATA)
    drawn = stream.normal(at.exp(shared).sum(), 1, size=(3,)) + b
    f = jaxprgen.function([b], drawn)
    assert not np.array_equal(f(START), f(START))


def test_what_takes_more_memory_is_part_of_each_call(monkeypatch):
    monkeypatch.setattr(prepared, "MEMORY", 1000)
    f = jaxprgen.compile([b], regression(aesara.shared(DATA)))
    assert_right(f(START), DATA)
    assert f.program([START]).prepared is None


@pytest.mark.filterwarnings("ignore", category=SharedValueWarning)
def test_constants_of_other_programs_stay_small():
    shared = aesara.shared(np.linspace(0, 1, 1500))
    c = at.dscalar("c")
    f = jaxprgen.compile([c], at.exp(at.outer(shared, shared)) * c)
    nbytes = f.program([1.0]).prepared.nbytes
    assert nbytes == 18_000_000
    closed = jax.make_jaxpr(lambda c: f(c).sum())(1.0)
    assert sum(np.size(x) for x in closed.consts) <= 1500
    np.testing.assert_allclose(f(2.0)[0, 0], 2.0)


def test_few_calls():
    f = jaxprgen.compile([b], regression(aesara.shared(DATA)), passes=default(calls=0, graph=True))
    assert_right(f(START), DATA)
    assert f.program([START]).prepared is None


def test_programs_with_checks():
    i, shared = at.lscalar("i"), aesara.shared(DATA)
    f = jaxprgen.compile([b, i], [*regression(shared), shared[i, 0]], checks=True)
    assert_right(f(START, 3)[:2], DATA)
    with pytest.raises(jaxprgen.errors.IndexOutOfBoundsError):
        f(START, 4000)


def test_a_nan_of_the_data_is_found():
    data = DATA.copy()
    data[0] = np.nan
    f = jaxprgen.compile([b], regression(aesara.shared(data)))
    assert np.isnan(f(START)[0])
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        f(START)


def test_threads_see_the_data_of_one_moment():
    shared = aesara.shared(np.zeros((5000, 2)))
    c = at.dscalar("c")
    f = jaxprgen.compile([c], [at.exp(shared).sum() + c, shared[0, 0]])
    f(0.0)
    assert f.program([0.0]).prepared is not None
    failures, done = [], threading.Event()

    def read():
        while not done.is_set():
            total, first = map(float, f(0.0))
            if not np.isclose(total, 10_000 * np.exp(first)):
                failures.append((total, first))

    threads = [threading.Thread(target=read) for _ in range(3)]
    [thread.start() for thread in threads]
    for i in range(60):
        shared.set_value(np.full((5000, 2), i / 60))
    done.set()
    [thread.join() for thread in threads]
    assert not failures


UNARY = [
    at.exp,
    at.tanh,
    at.square,
    lambda x: x - x.mean(0),
    lambda x: x.T.T,
    lambda x: at.sort(x, 0),
]


@given(
    st.lists(st.sampled_from(range(len(UNARY))), min_size=1, max_size=4),
    st.sampled_from([at.constant, aesara.shared]),
    st.integers(0, 2),
)
def test_random_graphs(which, make, kind):
    x = make(0.1 * DATA)
    terms = abs(x).sum()
    for i in which:
        x = UNARY[i](x)
        terms += abs(x).sum()
    out = [x @ b, (x * b).sum(), x[:4].sum() + b][kind]
    f = jaxprgen.compile([b], [out, x.sum() * b[0]])
    g = aesara.function([b], [out, x.sum() * b[0], terms], mode="FAST_COMPILE")
    for start in (START, -START):
        *results, total = g(start)
        for found, wanted in zip(f(start), results, strict=True):
            # What is centred adds up to rounding errors alone.
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12 + 1e-14 * total)
