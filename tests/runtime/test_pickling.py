"""Functions as values: pickled, copied, and sent to other processes."""

from __future__ import annotations

import copy
import functools
import io
import multiprocessing
import pickle
import re
from concurrent.futures import ProcessPoolExecutor

import aesara
import aesara.tensor as at
import cloudpickle
import elsewhere
import jax
import joblib
import numpy as np
import pytest
from aesara.compile.builders import OpFromGraph
from aesara.compile.io import In
from aesara.graph.op import Op
from aesara.tensor.random.op import RandomVariable
from catalogue import FAMILIES
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from laws import assert_same
from profiles import amount, is_deep, sample

import jaxprgen
from jaxprgen.errors import (
    DuplicateRuleError,
    JaxprGenError,
    ShapeMismatchError,
    UnpicklableError,
    UnsupportedOpError,
)
from jaxprgen.lowering import portable, registry
from jaxprgen.ops import random
from jaxprgen.passes import DEFAULT

x, y = at.dvectors("x", "y")
ONES = np.ones(3)


def through_joblib(value):
    file = io.BytesIO()
    joblib.dump(value, file)
    file.seek(0)
    return joblib.load(file)


WAYS = {
    "pickle": lambda f: pickle.loads(pickle.dumps(f)),
    "oldest": lambda f: pickle.loads(pickle.dumps(f, protocol=2)),
    "cloudpickle": lambda f: pickle.loads(cloudpickle.dumps(f)),
    "joblib": through_joblib,
    "deepcopy": copy.deepcopy,
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)

MAKERS = {
    "compile": jaxprgen.compile,
    "function": jaxprgen.function,
    "mode": functools.partial(aesara.function, mode="JAXPR"),
}
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@pytest.fixture(autouse=True)
def rules():
    """The tables of rules and samplers; afterwards nothing is registered for local classes."""
    tables = registry._rules, random.SAMPLERS
    yield tables
    for table in tables:
        for key in list(table):
            name = key[0] if isinstance(key, tuple) else key
            if "<locals>" in getattr(name, "__qualname__", ""):
                del table[key]


# --- Programs -----------------------------------------------------------------------------


def text(f, args):
    """The program with names and lines, without addresses of functions."""
    program = f.jaxpr(*args)
    shown = getattr(program, "jaxpr", program).pretty_print(source_info=True, name_stack=True)
    return re.sub("0x[0-9a-f]+", "", shown)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
def test_programs_keep_names_lines_and_order(family):
    compared = 0
    for entry in sample(FAMILIES[family], 3):
        dtype = "float64" if "float64" in entry.dtypes else entry.dtypes[-1]
        args = [jax.random.key(0)] * entry.is_drawn + entry.arrays(dtype)
        try:
            f = jaxprgen.compile(*entry.graph(dtype))
            wanted = text(f, args)
        except (JaxprGenError, NotImplementedError, TypeError, ValueError):  # It takes others.
            continue
        assert text(WAYS["pickle"](f), args) == wanted
        compared += 1
    assert compared


def test_errors_name_the_line():
    f = jaxprgen.compile([x, y], x + y)
    with pytest.raises(ShapeMismatchError) as wanted:
        f(ONES, np.ones(2))
    with pytest.raises(ShapeMismatchError) as found:
        WAYS["pickle"](f)(ONES, np.ones(2))
    assert str(found.value) == str(wanted.value)
    assert "test_pickling.py" in str(found.value)


def halved(program):
    return program


@every_way
def test_options(way):
    mask = x[x > 0]
    options = {
        "name": "model",
        "checks": True,
        "fallback": "callback",
        "sizes": {mask: 5},
        "passes": [*DEFAULT, halved],
        "compiler_options": {"xla_cpu_enable_fast_math": True},
    }
    f = jaxprgen.compile([x, y], mask.sum() + Plain()(y).sum() + mask.shape[0], **options)
    g = way(f)
    assert (g.__name__, repr(g), g.__signature__) == ("model", repr(f), f.__signature__)
    assert f._options == g._options
    assert text(f, [ONES, ONES]) == text(g, [ONES, ONES])


def test_a_copy_has_an_empty_cache():
    f = jaxprgen.compile([x], x * 2)
    f(ONES)
    assert [way(f).cache_info().currsize for way in (*WAYS.values(), copy.copy)] == [0] * 6


def test_what_belongs_to_a_function():
    f = jaxprgen.function([In(x, name="first"), In(y, value=ONES)], {"out": x + y})
    for way in WAYS.values():
        assert_same(way(f)(first=ONES)["out"], ONES * 2)
        assert_same(way(f.pure)({}, ONES)[0]["out"], ONES * 2)
        assert_same(way(f.compiled)(ONES, ONES * 3), ONES * 4)


# --- State --------------------------------------------------------------------------------


@every_way
@every_maker
def test_a_copy_has_values_of_its_own(make, way):
    w = aesara.shared(ONES, name="w")
    f = make([x], x * w)
    g = way(f)
    w.set_value(ONES * 5)
    assert_same(f(ONES), ONES * 5)
    assert_same(g(ONES), ONES)


@every_way
@pytest.mark.parametrize("make", [MAKERS["function"], MAKERS["mode"]])
def test_what_is_copied_together_shares_values(make, way):
    total = aesara.shared(np.zeros(3), name="total")
    add = make([x], None, updates={total: total + x})
    add(ONES)
    read = make([], total)
    for other, reading, mine in (way((add, read, total)), way((total, read, add))[::-1]):
        other(ONES)
        assert_same(np.asarray(reading()), ONES * 2)
        assert_same(np.asarray(mine.get_value()), ONES * 2)
        assert_same(np.asarray(total.get_value()), ONES)


@every_maker
def test_a_shallow_copy_shares_values(make):
    w = aesara.shared(ONES, name="w")
    f = copy.copy(make([x], x * w))
    w.set_value(ONES * 5)
    assert_same(f(ONES), ONES * 5)


@every_way
@pytest.mark.parametrize("make", [MAKERS["function"], MAKERS["mode"]])
def test_a_copy_draws_the_same_numbers(make, way):
    f = make([], at.random.RandomStream(seed=1).normal(size=3))
    first = np.asarray(f())
    g = way(f)
    second = np.asarray(f())
    assert_same(g(), second)
    assert np.all(first != second)


# --- Large graphs -------------------------------------------------------------------------


def chain(length):
    z = x
    for _ in range(length):
        z = at.exp(z) - 1.5
    return z


@pytest.fixture(scope="module")
def deep():
    return jaxprgen.compile([x], chain(amount(quick=1000, deep=10_000)))


@pytest.mark.parametrize("way", ["pickle", "joblib", "deepcopy"])
def test_deep_graphs_need_no_recursion(way, deep):
    assert len(WAYS[way](deep)._plan.steps) == len(deep._plan.steps)


@pytest.mark.parametrize("way", ["pickle", "joblib", "deepcopy"])
def test_what_aesara_compiles_without_recursion_is_copied_without(way):
    rng = at.random.RandomStream(seed=1)
    f = aesara.function([x], chain(60) + rng.normal(chain(60), 1), mode="JAXPR")
    WAYS[way](f)


def test_ops_that_aesara_makes_for_every_node_are_kept_once():
    """Each holds kilobytes of C code."""
    few, many = (len(pickle.dumps(jaxprgen.compile([x], chain(n)))) for n in (10, 110))
    assert many - few < 100 * 1000


# --- Ops and passes of users --------------------------------------------------------------


class Plain(Op):
    itypes, otypes = [at.dvector], [at.dvector]

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] * 2


def local_op():
    """An Op that holds a function, of a class that no module has, with a rule."""

    class Applied(Op):
        itypes, otypes = [at.dvector], [at.dvector]

        def __init__(self, function):
            self.function = function

        def perform(self, node, inputs, outputs):
            outputs[0][0] = self.function(inputs[0])

    @jaxprgen.lowers(Applied)
    def lower_applied(ctx, a):
        return ctx.op.function(a)

    return Applied(lambda a: a * 2 + 1)


def nested(f):
    """A graph in a loop in an Op."""
    path, _ = aesara.scan(lambda a: f(a) * 0.5, outputs_info=x, n_steps=3)
    return OpFromGraph([x], [path[-1]])(y)


@pytest.mark.parametrize("wrap", [lambda f: f(y), nested], ids=["alone", "inside"])
def test_ops_with_functions_pickle_where_cloudpickle_is(wrap):
    f = jaxprgen.compile([y], wrap(local_op()))
    for way in (*WAYS.values(), copy.copy):
        assert_same(way(f)(ONES), f(ONES))


@pytest.mark.parametrize("wrap", [lambda f: f(y), nested], ids=["alone", "inside"])
def test_what_does_not_pickle_is_named(wrap, monkeypatch):
    monkeypatch.setattr(portable, "_CLOUDPICKLES", ())
    f = jaxprgen.compile([y], wrap(local_op()))
    with pytest.raises(UnpicklableError) as found:
        pickle.dumps(f)
    lines = str(found.value).splitlines()
    assert lines[0].startswith("The Op of Applied(")
    assert "Can't pickle local object" in lines[0]
    assert "test_pickling.py" in lines[1]
    assert lines[2].endswith("at the top level of a module, or install cloudpickle.")
    assert copy.deepcopy(f)(ONES).shape == (3,)


def test_rules_come_along(rules):
    class Shifted(RandomVariable):
        name, ndim_supp, ndims_params, dtype = "shifted", 0, [0], "float64"

    def draw(key, loc, *, shape, dtype):
        return loc + jax.random.uniform(key, shape, dtype)

    jaxprgen.samples(Shifted)(draw)
    op = local_op()
    f = jaxprgen.compile([y], op(y) + Shifted()(y))
    args, pickled = (jax.random.key(0), ONES), pickle.dumps(f)
    wanted = f(*args)
    del rules[0][type(op), None], rules[1][Shifted]
    with pytest.raises(UnsupportedOpError):
        jaxprgen.compile([y], op(y))
    assert_same(pickle.loads(pickled)(*args), wanted)
    jaxprgen.samples(Shifted)(draw)  # No error: what came along may be registered later.
    jaxprgen.lowers(type(op))(lambda ctx, a: a)
    with pytest.raises(DuplicateRuleError):
        jaxprgen.lowers(type(op))(lambda ctx, a: a)


def test_passes(monkeypatch):
    f = jaxprgen.compile([x], x * 2, passes=[lambda program: program])
    assert len(WAYS["pickle"](f)._options.passes.passes) == 1
    monkeypatch.setattr(portable, "_CLOUDPICKLES", ())
    with pytest.raises(UnpicklableError, match=r"One of Pipeline.*<lambda>"):
        pickle.dumps(f)


def test_what_is_nested_too_deeply(monkeypatch):
    monkeypatch.setattr(portable, "_CLOUDPICKLES", ())
    op = Plain()
    op.held = functools.reduce(lambda inner, _: [inner], range(10_000), [])
    f = jaxprgen.compile([y], op(y), fallback="callback")
    with pytest.raises(UnpicklableError, match=r"(?s)nested too deeply.*setrecursionlimit"):
        pickle.dumps(f)


# --- Other processes ----------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty persistent cache, for this process and for those that it starts."""
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", str(not is_deep()))
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    reset_cache()
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)
    reset_cache()


def stochastic():
    stream, w = at.random.RandomStream(seed=1), aesara.shared(ONES, name="w")
    path, _ = aesara.scan(lambda h: at.tanh(h * w + stream.normal(h, 1)), None, [x], n_steps=4)
    return path[-1]


def test_another_process_calls_and_compiles_nothing(cache):
    """Processes of `multiprocessing`, where the class of an Op and its rule are unknown."""
    step = stochastic()
    functions = [
        jaxprgen.compile(
            [x],
            at.dot(at.constant(np.arange(9e3).reshape(3, -1)), at.alloc(x[0], 3000)),
            name="saved_data",
        ),
        jaxprgen.function([x], step, name="saved_state"),
        aesara.function([x], step, mode="JAXPR", name="saved_mode"),
    ]
    unknown = jaxprgen.compile([y], nested(local_op()), name="saved_op")
    pickled = [cloudpickle.dumps(unknown), cloudpickle.dumps(copy.deepcopy(functions[1]))]
    sent = WAYS["pickle"](functions)
    wanted = jax.device_get([f(ONES) for f in [*functions, unknown]])
    kept = sorted(path.name for path in cache.glob("jit_saved_*-cache"))
    assert len(kept) == 4

    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, initializer=elsewhere.start) as pool:
        found, asked = pool.submit(elsewhere.call, sent, pickled, [ONES]).result()
    for mine, theirs in zip([*wanted, wanted[1]], found, strict=True):
        assert_same(theirs, mine)
    assert sorted(path.name for path in cache.glob("jit_saved_*-cache")) == kept
    assert asked[elsewhere.HITS] >= len(kept)


@pytest.mark.parametrize(
    "make", [jaxprgen.compile, jaxprgen.function], ids=["compiled", "stateful"]
)
@every_way
def test_a_pickle_of_another_version_is_refused_by_name(make, way, monkeypatch):
    """Before any other part of it is read."""
    f = make([x], x * 2)
    pickled = [pickle.dumps(f, protocol=protocol) for protocol in (2, 5)]
    own = jaxprgen.__version__
    monkeypatch.setattr(jaxprgen, "__version__", "99.0\x1b[2J")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(portable, "_made", None)  # Whatever a part of it has become.
        for written in pickled:
            with pytest.raises(UnpicklableError) as caught:
                pickle.loads(written)
            assert str(caught.value).startswith(
                f"jaxprgen {own} wrote this pickle, and jaxprgen 99.0\\x1b[2J does not read it.\n"
            )
    np.testing.assert_array_equal(way(f)(ONES), 2 * ONES)
