"""What became of every node, and what the program costs."""

import json
import linecache
from pathlib import Path

import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.graph.basic import Apply, applys_between
from aesara.graph.op import Op
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import jaxprgen
from jaxprgen import errors
from jaxprgen.emit.staged import staged
from jaxprgen.lowering.registry import lowers

ONES = np.ones(3)
x = at.dvector("x")


def test_every_node_is_there_and_says_what_became_of_it():
    mask = at.constant(np.array([1.0, 0.0, 1.0]))
    scaled = at.exp(x) * (mask * 2)
    output = scaled.sum() * x.shape[0] + at.arange(x.shape[0])
    f = jaxprgen.compile([x], output)
    report = f.report(ONES)
    rows = {(node.op, node.how): node.equations for node in report.nodes}
    assert sum(node.times for node in report.nodes) == len(list(applys_between([x], [output])))
    assert rows["Elemwise{exp,no_inplace}", "emitted"] == 1
    assert rows["Shape", "folded"] == rows["ARange{dtype='int64'}", "folded"] == 0
    assert rows["Elemwise{mul,no_inplace}", "folded"] == 0
    assert rows["InplaceDimShuffle{x}", "free"] == 0
    assert {node.how for node in report.nodes} == {"folded", "emitted", "free"}
    assert report.equations == len(f.jaxpr(ONES).jaxpr.eqns)
    assert sum(node.equations for node in report.nodes) == report.equations
    assert report.constant_bytes == sum(np.asarray(c).nbytes for c in f.jaxpr(ONES).consts) == 48
    assert all(0 <= node.seconds <= report.stages["emit"] for node in report.nodes)
    assert all(node.seconds > 0 for node in report.nodes if node.equations)


def test_equations_that_nobody_reads_are_not_counted():
    m = at.dmatrix("m")
    largest, where = at.max_and_argmax(m, axis=0)
    f = jaxprgen.compile([m], largest + where.shape[0])
    report = f.report(np.ones((2, 2)))
    (node,) = [n for n in report.nodes if n.op.startswith("MaxAndArgmax")]
    assert node.equations == 1
    assert report.equations == sum(n.equations for n in report.nodes)
    unread = jaxprgen.compile([m], at.zeros_like(at.exp(m)) + m).report(np.ones((2, 2)))
    assert [n.how for n in unread.nodes if "exp" in n.op] == ["free"]


def test_a_node_carries_its_name_its_line_and_the_size_of_what_it_computes():
    eta = at.exp(x)
    eta.name = "eta"
    report = jaxprgen.compile([x], eta.sum()).report(ONES)
    exp, total = report.nodes
    assert (exp.name, exp.nbytes, total.name, total.nbytes) == ("eta", 24, "eta", 8)
    file, line = exp.line.rsplit(":", 1)
    assert linecache.getline(file, int(line)).strip() == "eta = at.exp(x)"


def test_all_results_of_an_equation_count():
    base, exponent = at.lvectors("base", "exponent")
    f = jaxprgen.compile([base, exponent], base**exponent)
    args = np.arange(3), np.arange(3)
    (node,) = f.observe(*args).nodes
    assert node.nbytes == sum(v.aval.size * 8 for e in f.jaxpr(*args).eqns for v in e.outvars)
    assert max(len(e.outvars) for e in node.equations) > 1


def test_observing_leaves_warnings_to_the_function():
    n = at.lscalar("n")
    f = jaxprgen.compile([x, n], x[n])
    f.observe(ONES, 1)
    with pytest.warns(errors.RuntimeCheckWarning):
        f(ONES, 1)


def test_what_jax_traced_and_what_calls_back_is_said():
    class Routine(Op):
        __props__ = ("calls_back",)

        def __init__(self, calls_back):
            self.calls_back = calls_back

        def make_node(self, v):
            return Apply(self, [v], [v.type()])

        def perform(self, node, inputs, outputs):
            outputs[0][0] = np.sin(inputs[0])

    @lowers(Routine)
    def lower_routine(ctx, v):
        def call_back(v):
            return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(v.shape, v.dtype), v)

        return staged(jax.jit(call_back) if ctx.op.calls_back else jax.numpy.sin, v)

    f = jaxprgen.compile([x], Routine(True)(x) + Routine(False)(x))
    assert [n.how for n in f.observe(ONES).nodes] == ["called back", "staged", "emitted"]


def test_costs_are_those_of_xla_and_every_stage_is_timed():
    m = at.dmatrix("m")
    f = jaxprgen.compile([m], at.dot(m, m))
    report = f.report(np.ones((20, 20)))
    compiled = f.lower(np.ones((20, 20))).compile()
    assert report.flops == compiled.cost_analysis()["flops"] >= 20**3
    assert report.bytes_accessed >= 2 * 20 * 20 * 8
    assert report.temporary_bytes == compiled.memory_analysis().temp_size_in_bytes
    assert list(report.stages) == ["plan", "emit", "passes", "lower", "compile"]
    assert all(seconds > 0 for seconds in report.stages.values())


def test_under_a_trace_nothing_is_compiled():
    f, reports = jaxprgen.compile([x], at.exp(x)), []
    jax.jit(lambda v: reports.append(f.report(v)) or v)(ONES)
    (report,) = reports
    assert report.flops is report.bytes_accessed is report.temporary_bytes is None
    assert list(report.stages) == ["plan", "emit", "passes"]
    assert "XLA: was not asked" in str(report)


def test_as_text_and_as_plain_values():
    f = jaxprgen.compile([x], at.exp(x) + at.constant(ONES) * 2, name="model")
    report = f.report(ONES)
    head, *rows, program, xla, stages = str(report).splitlines()
    assert head.split() == ["equations", "bytes", "µs", "Op", "name", "line"]
    assert [row.split()[0] for row in rows] == [node.how for node in report.nodes]
    assert program == "model: 2 equations, 24 bytes of constants"
    assert xla.startswith("XLA: ") and xla.endswith(" bytes for intermediate results")
    assert [part.split()[0] for part in stages.removeprefix("Time: ").split(", ")] == list(
        report.stages
    )
    plain = json.loads(json.dumps(report.as_dict()))
    assert plain["name"] == "model"
    assert plain["equations"] == 2
    assert plain["nodes"][0] == report.nodes[0]._asdict()


def test_rows_that_say_the_same_are_one():
    y, mu = at.dvector("y"), at.dscalar("mu")
    total = sum(at.sin(y[i] - mu) ** 2 for i in range(40))
    f = jaxprgen.compile([y, mu], total)
    report, nodes = f.report(np.ones(40), 0.3), f.observe(np.ones(40), 0.3).nodes
    assert sum(node.times for node in report.nodes) == len(nodes)
    assert sum(node.equations for node in report.nodes) == report.equations
    (sine,) = [node for node in report.nodes if "sin" in node.op]
    assert (sine.how, sine.equations, sine.nbytes, sine.times) == ("batched", 1, 320, 40)
    rows = str(report).splitlines()
    assert len(rows) < 20 < len(nodes)
    (row,) = [row for row in rows if "sin" in row]
    assert row.split()[:3] == ["batched", "1", "320"] and "× 40  Elemwise{sin" in row
    summary = next(row for row in rows if row.startswith("Repeats: "))
    assert summary.endswith(" batches of 40 to 41")
    assert f.report(np.ones(40), 0.3, emitted=True).hidden == {}


def test_copies_of_separate_inputs_are_one_row():
    inputs = [at.dscalar(f"y{i}") for i in range(60)]
    total = sum(at.exp(at.cos(at.sin(y)) * 2) for y in inputs)
    report = jaxprgen.compile(inputs, total).report(*np.ones(60))
    rows = [(node.name, node.times) for node in report.nodes if "sin" in node.op]
    assert rows == [("y0, …", 60)]


def test_steps_of_a_loop_are_one_row():
    y, h = at.dvector("y"), at.as_tensor(0.0)
    for i in range(300):
        h = at.tanh(h * y[i])
    report = jaxprgen.compile([y], h).report(np.ones(300), emitted=True)
    (steps,) = [node for node in report.nodes if node.times > 9 and "tanh" in node.op]
    assert steps.how == "looped"
    assert "1 loop of " in str(report)


def test_nodes_without_equations_can_be_left_out():
    f = jaxprgen.compile([x], at.exp(x).sum() * x.shape[0])
    every, some = f.report(ONES), f.report(ONES, emitted=True)
    assert {n.how for n in every.nodes} == {"emitted", "folded"}
    assert [n.op for n in some.nodes] == [n.op for n in every.nodes if n.equations]
    assert every.hidden == {} and some.equations == every.equations
    assert sum(some.hidden.values()) == len(every.nodes) - len(some.nodes)
    assert f"Not shown: {some.hidden['folded']} folded" in str(some)


def test_the_text_fits_120_columns_and_its_paths_are_relative(tmp_path, monkeypatch):
    path = tmp_path / "library" / ("deep" * 20) / "densities.py"
    path.parent.mkdir(parents=True)
    path.write_text("def shift(v):\n    return v + 1.5\n")
    scope = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    own = at.exp(x)
    own.name = "name" * 40
    monkeypatch.chdir(Path(__file__).parents[1])
    lines = str(jaxprgen.compile([x], scope["shift"](own)).report(ONES)).splitlines()
    assert max(map(len, lines)) == 120
    (shifted,) = [line for line in lines if "Elemwise{add" in line]
    assert shifted.endswith("eep/densities.py:2")
    (exp,) = [line for line in lines if "Elemwise{exp" in line]
    assert " runtime/test_report.py:" in exp


@pytest.mark.parametrize("argument", [ONES, jax.ShapeDtypeStruct((3,), np.float64)])
def test_reporting_leaves_the_function_as_it_is(argument):
    f = jaxprgen.compile([x], at.exp(x))
    f.report(argument)
    assert f.cache_info().currsize == f.cache_info().misses == 0


def test_a_shape_decided_by_an_argument_is_lowered_twice_and_reported_once():
    n = at.lscalar("n")
    f = jaxprgen.compile([x, n], at.exp(x).sum() * at.arange(n * 2))
    report = f.report(ONES, 2)
    assert {n.op: n.how for n in report.nodes}["ARange{dtype='int64'}"] == "folded"
    assert sum(n.equations for n in report.nodes) == report.equations == 3


def test_a_program_with_checks_is_reported():
    n = at.lscalar("n")
    f = jaxprgen.compile([x, n], x[n] * 2, checks=True)
    report = f.report(ONES, 1)
    assert report.flops > 0
    assert "compile" in report.stages


def test_an_output_that_is_a_broadcast_is_its_nodes_equation():
    s = at.dscalar("s")
    (node,) = jaxprgen.compile([s], at.alloc(s, 5)).report(1.0).nodes
    assert (node.how, node.equations, node.nbytes) == ("emitted", 1, 40)


def test_constants_are_counted_as_the_program_holds_them():
    jax.config.update("jax_enable_x64", False)
    try:
        v = at.fvector("v")
        f = jaxprgen.compile([v], v + at.cast(at.constant(np.arange(2000.0)), "float32"))
        assert f.report(np.ones(2000, "float32")).constant_bytes == 8000
    finally:
        jax.config.update("jax_enable_x64", True)


def test_programs_do_not_keep_what_only_reports_need():
    f = jaxprgen.compile([x], at.exp(x) + 1.0)
    f(ONES)
    assert f.program([ONES]).values is None


def test_lines_are_those_of_the_graph_although_jax_keeps_programs():
    rows = NamedSharding(jax.make_mesh((8,), ("rows",), (AxisType.Auto,)), P("rows"))
    found = []
    for code in ("y = x.sum()", "\n\ny = x.sum()"):
        names = {"x": x}
        exec(compile(code, "model.py", "exec"), names)
        f = jaxprgen.compile([x], names["y"])
        report = f.report(jax.ShapeDtypeStruct((16,), float, sharding=rows))
        found += [cause.line for c in report.collectives for cause in c.causes]
    assert found == ["model.py:1", "model.py:3"]
