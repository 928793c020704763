"""Random graphs over all families at once, against Aesara's Python linker.

For many more: ``python benchmarks/random_graphs.py --graphs 5000``.
"""

import operator
from types import SimpleNamespace

import aesara
import aesara.scalar.math as aem
import aesara.tensor as at
import numpy as np
import pytest
import scipy.special
from aesara.compile.builders import OpFromGraph
from aesara.ifelse import ifelse
from aesara.tensor import nlinalg, slinalg
from aesara.tensor.elemwise import Elemwise
from aesara.tensor.subtensor import AdvancedIncSubtensor
from catalogue.growing import Graph, Grown, differences, variable_of
from catalogue.undefined import is_undefined
from hypothesis import HealthCheck, given, strategies as st
from profiles import examples

from jaxprgen.ops import scalar

SEEDS = range(8)
"""A slice of the graphs that ``benchmarks/random_graphs.py`` runs, which is to find others."""


@examples(0.8, quick=0.5, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SEEDS))
def test_random_graphs(seed):
    graph = Graph(seed, 30)
    assert differences(graph, graph.ends) == []


def test_a_seed_says_which_graph_and_graphs_differ():
    first, again, other = (
        [(str(x.variable.owner.op), x.value.tobytes()) for x in Graph(seed, 20).results]
        for seed in (7, 7, 8)
    )
    assert first == again
    assert first != other


def test_graphs_are_of_many_ops_and_dtypes():
    results = [x for seed in range(6) for x in Graph(seed, 60).results]
    ops = {type(getattr(x.variable.owner.op, "scalar_op", x.variable.owner.op)) for x in results}
    assert len(ops) > 60
    assert {x.value.dtype.kind for x in results} == set("biufc")
    assert {x.value.ndim for x in results} >= {0, 1, 2, 3}
    assert any(x.value.size == 0 for x in results)


def test_a_wrong_rule_is_found(monkeypatch):
    for op, wrong in {"Add": operator.sub, "Sub": operator.add, "Mul": operator.add}.items():
        monkeypatch.setitem(scalar.RULES, f"scalar.{op}", scalar._from_left(wrong))
    graphs = (Graph(seed, 25) for seed in range(6))
    assert any(differences(graph, graph.results) for graph in graphs)


@pytest.mark.parametrize(
    "product",
    [
        lambda x, y: OpFromGraph([x, y], [x * y])(x, y),
        lambda x, y: ifelse(x[0], x * y, y),
        lambda x, y: aesara.scan(lambda x, y: x * y, [x, y])[0],
    ],
    ids=["call", "branch", "loop"],
)
def test_what_xla_simplifies_does_not_differ_within_calls_branches_and_loops(product):
    """To XLA, ``False * inf`` is 0."""
    args = [np.array([True, False]), np.array([2.0, np.inf])]
    masked = np.array([2, np.nan])
    x, y = (variable_of(value, name) for value, name in zip(args, "xy", strict=True))
    graph = SimpleNamespace(inputs=[x, y], args=args)
    assert differences(graph, [Grown(product(x, y), masked, (masked, masked), 2.0**-52)]) == []
    (found,) = differences(graph, [Grown(product(x, y), args[1], (args[1], args[1]), 2.0**-52)])
    assert "not [inf]" in found


def test_shadows_are_off_by_more_than_a_rough_library():
    """SciPy's incomplete beta function in single precision is off by 116 last places."""
    points = [np.array([0.04], dtype) for dtype in ("float32", "float64")]
    graph = Graph(0, 1)
    graph.apply(None, at.betainc, [graph.add_leaf(points[0])] * 3)
    grown, exact = graph.pool[-1], scipy.special.betainc(*points[1:] * 3)
    assert grown.variable.owner.op == at.betainc
    assert np.abs(grown.value - exact) < grown.distance


@pytest.mark.parametrize(("a", "count"), [(0.5, 1), (1e-6, 0)])
def test_where_series_of_aesara_do_not_converge_there_is_no_result(a, count):
    graph = Graph(0, 1)
    operands = [graph.add_leaf(np.array([x])) for x in (a, 4, 1e-6)]
    before = len(graph.pool)
    graph.apply(None, lambda *xs: Elemwise(aem.betainc_der)(*xs, np.True_), operands)
    assert len(graph.pool) - before == count


TURNING = np.array([[2.0, 1], [-1, 2]])
"""Its eigenvalues are complex."""
INCREASE = AdvancedIncSubtensor()
NEARLY_ONE = np.array([[1, 1e-15], [2e-16, 1]])


@pytest.mark.parametrize(
    ("op", "operands", "expected"),
    [
        (nlinalg.Eig(), [NEARLY_ONE], True),
        (nlinalg.Eig(), [NEARLY_ONE * [1, 1.001]], False),
        (nlinalg.Eig(), [np.zeros((2, 2), "complex64")], True),
        (nlinalg.Eig(), [TURNING], False),
        (slinalg.SolveContinuousLyapunov(), [TURNING, TURNING * 1j], True),
        (slinalg.SolveContinuousLyapunov(), [TURNING + 0j, TURNING], False),
        (slinalg.SolveContinuousLyapunov(), [TURNING, TURNING], False),
        (slinalg.SolveContinuousLyapunov(), [TURNING @ TURNING.T, TURNING * 1j], False),
        (INCREASE, [np.ones(2), np.ones(2), np.zeros((2, 2), int)], True),
        (INCREASE, [np.ones(2), np.ones(2), np.zeros((1, 2), int)], False),
        (INCREASE, [np.ones(2), np.ones((1, 2)), np.zeros((2, 2), int)], False),
        (INCREASE, [np.ones((2, 2)), np.ones(2), np.zeros((2, 2), int)], False),
        (INCREASE, [np.ones(2, "uint64"), np.array([-1]), np.zeros(2, int)], True),
        (INCREASE, [np.ones(2, "uint64"), np.array([-1]), np.zeros(1, int)], False),
        (INCREASE, [np.ones(2, "uint64"), np.array([2**53]), np.zeros(1, int)], True),
        (INCREASE, [np.ones(2, "int64"), np.array([-1]), np.zeros(1, int)], False),
        (at.iv, [np.array([-1.5, 2]), np.array([0.0, 0])], True),
        (at.iv, [np.array([-1.0, 0]), np.array(0.0)], False),
        (at.iv, [np.array([-1.5, -2.5]), np.array([0.5, 0])], False),
    ],
    ids=str,
)
def test_what_has_no_one_result(op, operands, expected):
    outputs = op(*map(at.as_tensor, operands))
    node = np.atleast_1d(outputs)[0].owner
    assert is_undefined(node, operands) == expected


def test_what_differs_by_more_than_rounding_differs():
    value = np.array([1.0, np.nan, np.inf])
    shadows = value * (1 + 1e-14), value * (1 - 1e-14)
    grown = Grown(variable_of(value, "x"), value, shadows, 2.0**-52)
    assert grown.difference(value + 1e-14) == ""
    assert grown.difference(value + 1e-12) == "[1.], not [1.]"
    assert grown.difference(np.array([1.0, np.nan, 0])) == "[0.], not [inf]"
    assert grown.difference(value.astype("float32")) == "float32(3,), not float64(3,)"
    whole = np.array([3, 4])
    assert (
        Grown(variable_of(whole, "x"), whole, (whole, whole), 0.5).difference([3, 5])
        == "[5], not [4]"
    )
