"""What rules emitted is repeated as they would emit it again: to the letter, with its lines."""

from __future__ import annotations

import re
import warnings

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.graph.basic import Apply
from aesara.graph.op import Op
from aesara.raise_op import Assert
from catalogue import FAMILIES
from catalogue.growing import Graph
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import all_equations, assert_agrees

import jaxprgen
from jaxprgen import _jax
from jaxprgen.errors import JaxprGenError, RuntimeCheckWarning
from jaxprgen.lowering import fragments
from jaxprgen.lowering.driver import Lowering
from jaxprgen.lowering.graph import KEY
from jaxprgen.passes import EliminateCommonSubexpressions, Pipeline

x, y = at.dvectors("x", "y")
X = np.linspace(0.1, 0.9, 3)


def text(f, args, *passes):
    """A program in all that there is to it: equations, their names and lines, and data."""
    closed = Pipeline(passes)(f.jaxpr(*args))
    places = [
        f"{eqn.primitive} {eqn.source_info.name_stack} {_jax.frame_of(eqn.source_info)} {eqn.ctx}"
        for eqn in all_equations(closed.jaxpr)
    ]
    data = [(c.dtype, c.shape, c.tobytes()) for c in map(np.asarray, closed.consts)]
    return re.sub("0x[0-9a-f]+", "", str(closed)), places, data  # Functions have addresses.


def assert_repeats(inputs, outputs, args):
    """A program without fragments, with those of its own nodes, and with all: they are the same.

    The first may compute twice what a fragment knows to be the same: a number that is repeated.
    """
    f = jaxprgen.compile(inputs, outputs, passes=())
    draws = f.inputs and f.inputs[0].dtype is KEY
    args = [*([jax.random.key(0)] if draws else []), *args]
    share = EliminateCommonSubexpressions()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(Lowering, "_fragments_for", lambda *_: None)
        plain = text(f, args, share)
        patch.undo()
        f.cache_clear()
        assert text(f, args, share) == plain
        first = text(f, args)
        f.cache_clear()
        assert text(f, args) == first


@pytest.mark.parametrize("family", FAMILIES)
def test_examples_twice_in_a_graph(family):
    """Their inputs are others, so that nothing but their types is the same."""
    for example in FAMILIES[family]:
        for dtype in ("float64", "int32"):
            if dtype not in example.dtypes:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    one, two = example.graph(dtype), example.graph(dtype)
                    inputs, outputs = ([*a, *b] for a, b in zip(one, two, strict=True))
                    assert_repeats(inputs, outputs, example.arrays(dtype) * 2)
                except (JaxprGenError, TypeError, ValueError, NotImplementedError):
                    continue  # Aesara builds no graph, or there is no program.


@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10_000))
def test_random_graphs(seed):
    graph = Graph(seed, 40)
    outputs = [grown.variable for grown in graph.ends]
    assert_repeats(graph.inputs, outputs, graph.args)


def test_one_variable_twice_is_not_two():
    z = x * x + y * x + y * y
    assert_repeats([x, y], [z, z * z], [X, X])
    assert_agrees([x, y], [z], [X, 2 * X])


def test_a_broadcast_that_several_read_is_made_once():
    zeros = at.zeros(3)
    outputs = [at.inc_subtensor(zeros[i:], v[i:]) for i in range(2) for v in (x, y)]
    assert_repeats([x, y], outputs, [X, X])


def test_equal_data_of_shared_variables_stays_two():
    one, two = (aesara.shared(np.arange(3.0), name) for name in ("one", "two"))
    f = jaxprgen.compile([x], [x + one, x + two])
    zero = np.zeros(3)
    for _ in range(2):
        np.testing.assert_array_equal(f(zero), [one.get_value(), two.get_value()])
        f.cache_clear()
        two.set_value(np.ones(3))


def test_every_node_warns_for_itself():
    i, j = at.lscalars("i", "j")
    f = jaxprgen.compile([x, i, j], [x[i], x[j]])
    with pytest.warns(RuntimeCheckWarning) as caught:
        f.jaxpr(X, 0, 1)
    assert len(caught) == 2
    f.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Said once.
        f.jaxpr(X, 0, 1)


def test_a_node_does_not_announce_what_the_next_one_does():
    f = jaxprgen.compile([x], Assert("positive")(x, at.all(x > 0)))
    with pytest.warns(RuntimeCheckWarning):
        f.jaxpr(X)
    f.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f.jaxpr(X)


def test_checks_are_emitted_for_every_node():
    i, j = at.lscalars("i", "j")
    f = jaxprgen.compile([x, i, j], [x[i], x[j]], checks=True, passes=())
    for _ in range(2):
        primitives = [str(e.primitive) for e in all_equations(f.jaxpr(X, 0, 1).jaxpr)]
        assert primitives.count("check") == 2
        f.cache_clear()


class Counted(Op):
    """The vector itself; how often the rule was called is counted."""

    __props__ = ()
    calls = 0

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0]


def test_a_rule_of_the_users_is_called_for_every_node():
    @jaxprgen.lowers(Counted)
    def lower_counted(ctx, x):
        Counted.calls += 1
        return x

    jaxprgen.compile([x, y], [Counted()(x), Counted()(y)]).jaxpr(X, X)
    assert Counted.calls == 2


def test_a_known_argument_is_not_kept_alive():
    n = at.lvector("n")
    f = jaxprgen.compile([x, n], at.tile(x, n.sum()) * n.sum())
    f.jaxpr(X, np.array([1, 2]))
    kept = [
        v
        for found in f._plan._fragments.values()
        for fragment in found._found.values()
        for v in fragment.values
    ]
    assert not any(np.shape(v) == (2,) for v in kept if isinstance(v, np.ndarray))


def test_there_is_a_limit_to_what_is_kept(monkeypatch):
    monkeypatch.setattr(fragments, "_MOST", 1)
    z = at.tanh(x) + y
    f = jaxprgen.compile([x, y], z * 2)
    f.jaxpr(X, X)
    (found,) = f._plan._fragments.values()
    assert len(found._found) == 1
    assert_repeats([x, y], [z * 2], [X, X])


def test_a_report_is_of_the_program_that_is_called():
    ones = [at.ones_like(v) for v in (x, y)]
    f = jaxprgen.compile([x, y], [at.tanh(x), at.tanh(y), *ones], passes=())
    observed = f.observe(X, X)
    assert str(observed.closed_jaxpr) == str(f.jaxpr(X, X))
    tanhs = [node for node in observed.nodes if "tanh" in node.op]
    assert [[str(e.primitive) for e in node.equations] for node in tanhs] == [["tanh"]] * 2
    assert tanhs[0].seconds > 0 == tanhs[1].seconds


def test_settings_have_fragments_of_their_own():
    f = jaxprgen.compile([x, y], at.dot(x, y), passes=())
    plain = str(f.jaxpr(X, X))
    with jax.default_matmul_precision("highest"):
        assert str(f.jaxpr(X, X)) != plain
    f.cache_clear()
    assert str(f.jaxpr(X, X)) == plain
