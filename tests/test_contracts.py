"""What every compiled graph keeps to, whatever its Ops: size, tracing, state, data, determinism."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import sys
import weakref
from pathlib import Path

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aesara.graph.fg import FunctionGraph
from aesara.scalar.basic import Composite, float64
from aesara.tensor.elemwise import Elemwise
from laws import assert_agrees, assert_same, equations
from profiles import amount
from subprocesses import python

import jaxprgen
from jaxprgen import _jax
from jaxprgen.errors import PrecisionWarning

# The sizeable graph below indexes by an argument.
pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")

x, y = at.dvectors("x", "y")
VECTOR = jax.ShapeDtypeStruct((3,), np.float64)


def chain(length):
    """Alternating ``tanh(z)``, ``z * y``, ``z + 1.5``, ``exp(-z)``: five equations in four."""
    z = x
    for i in range(length):
        z = [at.tanh(z), z * y, z + 1.5, at.exp(-z)][i % 4]
    return jaxprgen.compile([x, y], z)


def sizeable():
    """Inputs, outputs and arguments of a graph in which most kinds of rules take part."""
    m, v, i = at.dmatrix("m"), at.dvector("v"), at.iscalar("i")
    n = m.shape[0]
    rows = at.tanh(at.dot(m, v)) + at.arange(n) + at.mean(m, axis=1)
    picked = at.set_subtensor(rows[i], 0.5)[::-1]
    joined = at.concatenate([picked, rows[1 : n - 1], at.stack([v.sum(), v.max()])])
    whole = at.cast(at.round(joined * 10), "int64")
    powers = (whole % 5) ** (whole % 3) + whole // 4
    branch = at.switch(at.gt(joined, 0), at.log1p(abs(joined)), at.gammaln(2 + joined**2))
    top, where = at.max_and_argmax(at.outer(branch, v), axis=1)
    table = at.eye(3)[at.constant([0, 1]).shape[0]] * at.prod(v) + at.alloc(v[0], 3)
    outputs = [powers, top, where, table, at.grad(at.sum(branch) + at.sum(table), m)]
    rng = np.random.default_rng(0)
    return [m, v, i], outputs, [rng.normal(size=(5, 3)), rng.normal(size=3), np.int32(-2)]


# --- Size ---------------------------------------------------------------------------------


def test_addition_is_one_equation():
    a, b = at.dvectors("a", "b")
    program = jaxprgen.compile([a, b], a + b).jaxpr(np.ones(2), np.ones(2))
    assert str(program) == "{ lambda ; a:f64[2] b:f64[2]. let c:f64[2] = add a b in (c,) }"


def test_a_chain_has_no_equation_but_its_own():
    names = equations(chain(200), VECTOR, VECTOR)
    assert names == ["tanh", "mul", "add", "neg", "exp"] * 50


def test_shared_subexpressions_are_emitted_once():
    z = x
    for _ in range(60):  # As a tree it has 2**60 leaves.
        z = z + z
    f = assert_agrees([x], [z], [np.ones(2)])
    assert equations(f, VECTOR) == ["add"] * 60


def test_deep_graphs_need_no_recursion():
    z, length = x, amount(quick=2_000, deep=20_000)
    for _ in range(length):
        z = z + y
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        names = equations(jaxprgen.compile([x, y], z), VECTOR, VECTOR)
    finally:
        sys.setrecursionlimit(limit)
    assert names == ["add"] * length


def test_composites_in_composites_need_no_recursion():
    a = float64("a")
    op = Composite([a], [a + 1.0])
    for _ in range(300):
        op = Composite([a], [op.make_node(a).outputs[0] * 2.0])
    f = jaxprgen.compile([x], Elemwise(op)(x))
    assert equations(f, VECTOR) == ["add"] + ["mul"] * 300


# --- Neither traced nor bound -------------------------------------------------------------


def classes_with(base, method):
    found = [base]
    for cls in found:
        found += cls.__subclasses__()
    return [cls for cls in found if method in vars(cls)]


@pytest.fixture
def no_tracing(monkeypatch):
    """Every trace of JAX begins with a `Trace`, every equation of it with `Primitive.bind`."""

    def trip(self, *args, **kwargs):
        raise AssertionError(f"JAX was entered: {self!r}")

    core = importlib.import_module("jax._src.core")
    for cls in classes_with(core.Trace, "__init__"):
        monkeypatch.setattr(cls, "__init__", trip)
    for cls in classes_with(_jax.Primitive, "bind"):
        monkeypatch.setattr(cls, "bind", trip)


@pytest.mark.parametrize(
    "enter",
    [
        lambda: jax.make_jaxpr(lambda a: a)(1.0),
        lambda: jax.eval_shape(lambda a: a, 1.0),
        lambda: jax.jit(lambda a: a).trace(1.0),
        lambda: jax.grad(lambda a: a)(1.0),
        lambda: jnp.add(np.ones((1, 97, 1)), 2.0),  # A shape that no cache holds.
        lambda: jax.lax.exp(1.0),
        lambda: jax.lax.while_loop(lambda a: a < 1, lambda a: a + 1, 0),
    ],
)
def test_the_trap_closes(no_tracing, enter):
    with pytest.raises(AssertionError, match="JAX was entered"):
        enter()


def test_emitting_does_not_trace(no_tracing):
    inputs, outputs, args = sizeable()
    f = jaxprgen.compile(inputs, outputs)
    names = equations(f, *args)
    assert {"dot_general", "while", "select_n", "dynamic_update_slice"} <= set(names)
    assert f.observe(*args).nodes


def test_a_call_binds_a_constant_number_of_times(monkeypatch):
    binds = []
    for cls in classes_with(_jax.Primitive, "bind"):
        monkeypatch.setattr(
            cls, "bind", lambda self, *a, f=cls.bind, **k: [binds.append(self), f(self, *a, **k)][1]
        )
    counts = {}
    for length in (20, 200):
        f = chain(length)
        for call in ("first", "second"):
            binds.clear()
            f(np.ones(3), np.ones(3))
            counts[length, call] = len(binds)
    assert 0 < counts[20, "first"] == counts[200, "first"] <= 10
    assert counts[20, "second"] == counts[200, "second"] <= 1

    def bound(count):
        total = sum([x * at.constant(np.full(3, i)) for i in range(count)], at.constant(0.0))
        f = jaxprgen.compile([x], total)
        binds.clear()
        f(np.ones(3))
        return len(binds)

    assert bound(2) == bound(6)
    assert bound(40) == bound(60)  # JAX batches one repetition.


@pytest.mark.parametrize("size", [3, 1 << 17])
def test_a_call_finds_what_is_wrong_after_others_that_were_right(size):
    """Large data or not."""
    data = at.constant(np.arange(float(size)))
    f = jaxprgen.compile([x, y], [x + y + at.sum(data * x[0]), y])
    arrays = jnp.ones(3), jnp.arange(3.0)
    first = f(*arrays)
    assert_same(f(*arrays)[0], np.asarray(first[0]))
    with pytest.raises(TypeError, match="takes 2 arguments, but 1 was given"):
        f(arrays[0])
    with pytest.raises(TypeError, match="no input named 'w'"):
        f(arrays[0], w=arrays[1])
    with pytest.raises(jaxprgen.errors.ShapeMismatchError):
        f(jnp.ones(2), arrays[0])
    with jax.disable_jit():
        assert_same(f(*arrays)[0], np.asarray(first[0]))
    f.cache_clear()
    assert_same(f(*arrays)[0], np.asarray(first[0]))
    assert f.cache_info().misses == 1


def test_a_function_that_nothing_refers_to_is_gone():
    f = jaxprgen.compile([x], x + at.sum(at.constant(BIG) * x[0]))
    for argument in (np.ones(3), jnp.ones(3)):
        f(argument)
        f(argument)
    found = weakref.ref(f)
    del f
    assert found() is None


def test_under_a_transformation_a_call_is_one_equation():
    inputs, outputs, args = sizeable()
    f = jaxprgen.compile(inputs, outputs)
    (eqn,) = jax.make_jaxpr(f)(*args).jaxpr.eqns
    inner = [e.primitive.name for e in eqn.params["jaxpr"].jaxpr.eqns]
    assert inner == equations(f, *args)


def test_everything_emitted_is_well_typed_and_right():
    assert_agrees(*sizeable())


# --- In a new process ---------------------------------------------------------------------

PROCESS = """
import runpy, sys, warnings
from importlib.util import find_spec
runpy.run_path({shims!r})["prepare"](lambda: None)
import aesara, aesara.tensor as at, jax, numpy as np

def state():
    return jax.config.values, warnings.filters, np.geterr(), sys.getrecursionlimit(), {{
        name: getattr(aesara.config, name) for name in ("floatX", "mode", "compute_test_value")
    }}

before = str(state())
import jaxprgen
x = at.dvector("x")
f = jaxprgen.compile([x], at.log(x / 0).sum() + 1)
f(np.zeros(3)), f.report(np.zeros(3)), jax.grad(f)(np.zeros(3))
print(str(state()) == before)

sys.path.insert(0, {tests!r})
import conftest, test_contracts
print(test_contracts.stablehlo())
"""


def stablehlo():
    inputs, outputs, args = sizeable()
    return jaxprgen.compile(inputs, outputs, name="model").lower(*args).as_text()


@functools.cache
def printed(seed: str) -> list[str]:
    """Whether a new process kept its state, and the text of a graph there."""
    shims = sys.modules["jaxprgen._aesara"].__file__
    code = PROCESS.format(shims=shims, tests=str(Path(__file__).parent))
    return python("-W", "ignore", "-c", code, env={"PYTHONHASHSEED": seed}).stdout.split("\n", 1)


def test_the_same_graph_is_the_same_text_in_every_process():
    """So JAX's persistent compilation cache finds it."""
    text = stablehlo()
    assert "@jit_model" in text
    for seed in range(1, 1 + amount(quick=1, deep=2)):
        assert printed(str(seed))[1] == f"{text}\n"


def test_importing_compiling_and_calling_change_no_setting():
    assert printed("1")[0] == "True"


# --- Without 64 bits ----------------------------------------------------------------------


def without_x64():
    home = jax if hasattr(jax, "enable_x64") else jax.experimental
    return home.enable_x64(False)


def test_without_x64_a_graph_is_computed_in_32_bits_and_says_so_once():
    n = at.lscalar("n")
    f = jaxprgen.compile([x, n], [at.exp(x) * 2.0, n + 1])
    with without_x64():
        with pytest.warns(PrecisionWarning) as caught:
            outputs = f(np.ones(3), 1)
        assert [str(w.message).splitlines() for w in caught] == [
            [
                "jax_enable_x64 is off: what this graph declares with 64 bits, first of all 'x' "
                "(float64), is computed with 32.",
                "Run jax.config.update('jax_enable_x64', True) before anything else of JAX to "
                "compute as declared.",
            ]
        ]
        assert [o.dtype for o in outputs] == ["float32", "int32"]
        np.testing.assert_allclose(outputs[0], 2 * np.exp(np.ones(3)), rtol=1e-6)
        f(np.ones(4), 1)  # Emitted anew, and warnings are errors here.
        f.report(np.ones(4), 1)
    assert [o.dtype for o in f(np.ones(3), 1)] == ["float64", "int64"]


def test_without_x64_graphs_of_32_bits_say_nothing():
    v = at.fvector("v")
    f = jaxprgen.compile([v], at.exp(v)[: v.shape[0] // 2].sum() + at.mean(v))
    with without_x64():
        assert_same(f(np.ones(4, "float32")), np.float32(2 * np.e + 1), rtol=1e-5)


def test_without_x64_what_nodes_declare_with_64_bits_counts():
    v = at.fvector("v")
    f = jaxprgen.compile([v], at.cast(at.exp(at.cast(v, "float64")), "float32"))
    with without_x64(), pytest.warns(PrecisionWarning, match=r"Cast\{float64\}"):
        f(np.ones(4, "float32"))


# --- State --------------------------------------------------------------------------------


def snapshot(fgraph):
    variables = [*fgraph.inputs, *fgraph.outputs, *fgraph.variables]
    return (
        aesara.dprint(fgraph, file="str"),
        [(v, str(v.tag), list(fgraph.clients.get(v, ()))) for v in variables],
        list(fgraph.toposort()),
        [str(node.tag) for node in fgraph.apply_nodes],
    )


def test_the_graph_is_not_changed():
    inputs, outputs, args = sizeable()
    fgraph = FunctionGraph(inputs, outputs, clone=False)
    before = snapshot(fgraph)
    f = jaxprgen.compile(fgraph)
    f(*args)
    assert snapshot(fgraph) == before


# --- Data ---------------------------------------------------------------------------------

BIG = np.random.default_rng(0).normal(size=(1 << 17))


def test_large_constants_stay_out_of_the_program():
    f = jaxprgen.compile([x], x * at.constant(BIG))
    assert len(f.lower(BIG).as_text()) < 1000
    np.testing.assert_array_equal(f.jaxpr(BIG).consts, [BIG])


@pytest.mark.parametrize("is_wide", [True, False])
def test_small_constants_are_part_of_what_is_lowered(is_wide):
    """So a call hands over nothing but its arguments, and what is large."""
    few = np.arange(1.0, 4.0)
    f = jaxprgen.compile([x], at.sum(x * at.constant(BIG)) + at.constant(few) * x[0])
    wide, narrow = contextlib.nullcontext, lambda: pytest.warns(PrecisionWarning)
    with wide() if is_wide else without_x64(), wide() if is_wide else narrow():
        argument = jnp.asarray(BIG)
        text = f.lower(argument).as_text()
        assert "dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3x" in text
        assert len(re.findall(r"%arg\d+: tensor", text.split("->")[0])) == 2
        for call in (f, jax.jit(f), lambda a: jax.vmap(f)(a[None])[0]):
            np.testing.assert_allclose(call(argument), np.sum(BIG * BIG) + few * BIG[0], rtol=1e-5)


def no_transfers():
    return jax.transfer_guard_host_to_device("disallow_explicit")


def test_constants_and_shared_variables_are_put_on_the_device_once():
    shared = aesara.shared(BIG)
    f = jaxprgen.compile([x], x * at.constant(BIG) + shared)
    argument = jax.device_put(BIG)
    f(argument)
    with no_transfers():
        np.testing.assert_allclose(f(argument), BIG * BIG + BIG)
        with pytest.raises(Exception, match="Disallowed host-to-device transfer"):
            f(BIG)


def test_shared_variables_of_one_array_are_set_apart():
    """The array is the same object; which variable holds it is not."""
    array = np.ones(3)
    first, second = (aesara.shared(array, borrow=True) for _ in range(2))
    f = jaxprgen.compile([x], x + first * 10 + second * 100 + at.constant(array) * 1000)
    np.testing.assert_array_equal(f(np.zeros(3)), np.full(3, 1110.0))
    first.set_value(np.full(3, 2.0))
    np.testing.assert_array_equal(f(np.zeros(3)), np.full(3, 1120.0))
    second.set_value(np.full(3, 3.0))
    np.testing.assert_array_equal(f(np.zeros(3)), np.full(3, 1320.0))


def test_shared_variables_are_narrowed_only_while_x64_is_off():
    shared = aesara.shared(BIG)
    f = jaxprgen.compile([x], x * shared)
    with without_x64(), pytest.warns(PrecisionWarning):
        f(BIG)
    np.testing.assert_array_equal(f(BIG), BIG * BIG)
