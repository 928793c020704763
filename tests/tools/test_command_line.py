"""The command line."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from subprocesses import python

from jaxprgen.tools.command_line import main

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "model.py"
ARGS = ["--arg", "X=f64[5,30]", "--arg", "y=f64[5]", "--arg", "beta=float64[31]"]

GRAPHS = """\
import jaxprgen  # before aesara
import aesara.tensor as at
from aesara.graph.basic import Apply
from aesara.graph.fg import FunctionGraph
from aesara.graph.op import Op

x, n, k = at.dvector("x"), at.lscalar("n"), at.lvector("k")
pair = [x, n], x.sum() * at.arange(n)
in_a_list = [[x], at.exp(x)]
fgraph = FunctionGraph([x], [at.exp(x)], clone=False)
reshaped = [x, k], at.reshape(x, k, ndim=2)
mismatch = [x], x[:2] + x[:3]
number = 3
variable = x


class inner:
    pair = [x], at.exp(x)


def function():
    return [x], at.tanh(x)


twins = [x, at.dvector("x")], x


def fails():
    return 1 / 0


def exits():
    raise SystemExit(3)


class Unknown(Op):
    __props__ = ()

    def make_node(self, v):
        return Apply(self, [v], [v.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0]


unknown = [x], Unknown()(x)
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command on a graph of the module above; return its status and output."""
    (tmp_path / "graphs.py").write_text(GRAPHS)
    (tmp_path / "wrong.py").write_text("def f(:\n")
    (tmp_path / "broken.py").write_text("import jaxprgen\nraise RuntimeError('no data')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())

    def run(*arguments):
        try:
            status = main(["show", *arguments])
        except SystemExit as end:
            status = end.code
        finally:
            sys.modules.pop("graphs", None)
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("graph", "primitive"),
    [
        ("graphs:fgraph", "exp"),
        ("graphs:in_a_list", "exp"),
        ("graphs:function", "tanh"),
        ("graphs.py:function", "tanh"),
        ("graphs:inner.pair", "exp"),
    ],
)
def test_a_graph_is_found_and_printed(run, graph, primitive):
    status, out, err = run(graph, "--arg", "x=f64[3]")
    assert (status, err) == (0, "")
    assert (
        out.split() == f"{{ lambda ; x:f64[3]. let x.1:f64[3] = {primitive} x in (x.1,) }}".split()
    )


@pytest.mark.parametrize("value", ["n=3", "n=3.0", "1=3", "n= 3"])
def test_an_input_that_decides_a_shape_takes_a_value(run, value):
    status, out, _ = run("graphs:pair", "--arg", "x=f64[3]", "--arg", value)
    assert status == 0
    assert "f64[3] = mul" in out
    status, out, _ = run("graphs:reshaped", "--arg", "x=f64[6]", "--arg", "k=[2, 3]")
    assert status == 0
    assert "f64[2,3] = reshape" in out


def test_all_options_together(run, tmp_path):
    page, drawing = tmp_path / "page.html", tmp_path / "graph.dot"
    files = ["--html", str(page), "--dot", str(drawing)]
    status, out, err = run(
        f"{MODEL}:graph", *ARGS, "--check", "--report", "--hlo", "--source", *files
    )
    assert (status, err) == (0, "")
    assert "HloModule jit_main" in out
    assert "main: 26 equations" in out
    assert "log_posterior" in out
    assert page.read_text().lower().startswith("<!doctype html>")
    assert drawing.read_text().startswith("digraph")


def test_sources_are_printed(run):
    _, out, _ = run(f"{MODEL}:graph", *ARGS, "--source")
    line = MODEL.read_text().splitlines().index("eta = beta[0] + at.dot(X, beta[1:])") + 1
    assert f"{MODEL}:{line} (<module>)" in out


def test_a_check_needs_no_arguments(run):
    status, out, err = run("graphs:pair", "--check")
    assert (status, err) == (0, "")
    assert "n" in out
    status, out, err = run("graphs:unknown", "--check")
    assert (status, err) == (1, "")
    assert "Unknown" in out


def test_a_graph_that_does_not_compile_has_a_page_with_its_check(run, tmp_path):
    page = tmp_path / "page.html"
    status, *_ = run("graphs:unknown", "--check", "--html", str(page))
    assert status == 1
    assert "Unknown" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["graphs"], 2, "'graphs' is not of the form MODULE:GRAPH."),
        (["graphs:"], 2, "'graphs:' is not of the form MODULE:GRAPH."),
        (["graphs:nothing"], 2, "graphs has no nothing."),
        (["graphs:number"], 2, "graphs:number is an int, not a FunctionGraph, a pair (inputs, "),
        (["graphs:variable"], 2, "graphs:variable is a TensorVariable, not a FunctionGraph, "),
        (["no_module:graph"], 2, "import no_module failed: ModuleNotFoundError: No module named"),
        (["nothing.py:graph"], 2, "There is no file nothing.py."),
        (["broken:graph"], 2, "import broken failed: RuntimeError: no data\n  at "),
        (["graphs:fails"], 2, "fails() failed: ZeroDivisionError: division by zero\n  at "),
        (["graphs:pair", "--arg", "x"], 2, "--arg x is not of the form NAME=TYPE."),
        (["graphs:pair", "--arg", "z=f64[]"], 2, "There is no input z; there are x, n."),
        (
            ["graphs:reshaped"],
            2,
            "The shapes of these inputs are unknown; give a number for each ?:\n"
            "  --arg 'x=float64[?]'\n  --arg 'k=int64[?]'\n",
        ),
        (
            ["graphs:pair", "--arg", "n=2.5", "--arg", "x=f64[3]"],
            2,
            "int64 cannot hold this value.",
        ),
        (
            ["graphs:pair", "--arg", "n=true", "--arg", "x=f64[3]"],
            2,
            "int64 cannot hold this value.",
        ),
        (["graphs:pair", "--arg", "x=f64[1 2]"], 2, "[1 2] are no sizes: write numbers, names and"),
        (["graphs:pair", "--arg", "n=i64"], 2, "as 5 or [1,2]. Did you mean i64[]?"),
        (
            ["graphs:pair", "--arg", "x=f64"],
            2,
            "as 5 or [1,2]. Did you mean f64[?]? Give a number for each ?.",
        ),
        (["graphs:pair", "--arg", "n=1", "--arg", "n=2"], 2, "input 'n' is given twice."),
        (["graphs:twins", "--arg", "x=f64[1]"], 2, "several inputs have this name; give a posi"),
        (["graphs:pairs"], 2, "graphs has no pairs. Did you mean pair"),
        (["graphs:exits"], 2, "exits() failed: SystemExit: 3\n  at "),
        (["wrong:graph"], 2, "import wrong failed: SyntaxError"),
        (["graphs:pair", "--arg", "x=q7[3]"], 2, "--arg x=q7[3]: q7 is not a dtype."),
        (
            ["graphs:pair", "--arg", "x=[1,"],
            2,
            "--arg x=[1, is neither a type such as f64[10,3] nor ",
        ),
        (
            ["graphs:pair", "--arg", 'x="a"'],
            2,
            '--arg x="a" is neither a type such as f64[10,3] nor ',
        ),
        (["graphs:pair", "--arg", "x=f64[3]"], 2, "Give it a value, as in --arg n=5."),
        (["graphs:pair", "--arg", "x=f64[3,1]", "--arg", "n=1"], 2, "x"),
        (["graphs:function", "--arg", "x=f64[3]", "--dot", "no/such.dot"], 2, "cannot be written"),
        pytest.param(
            *(["graphs:function", "--arg", "x=f64[3]", "--dot", "no/such.svg"], 2),
            "cannot be written",
            marks=pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed"),
        ),
        (["graphs:function", "--arg", "x=f64[3]", "--dot", "drawing"], 2, "has no suffix"),
        (["graphs:mismatch", "--arg", "x=f64[3]"], 1, "Shapes"),
        (["graphs:unknown", "--arg", "x=f64[3]"], 1, "1 node(s) of this graph have no rule:"),
        (["graphs:function", "--arg", "x=f64[3]", "--html", "no/such/folder.html"], 2, "no/such/"),
    ],
)
def test_errors_are_messages_instead_of_tracebacks(run, arguments, status, message):
    found, out, err = run(*arguments)
    assert (found, out) == (status, "")
    assert err.startswith("error: ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [[], ["show"], ["show", "a:b", "--nonsense"], ["hide"]])
def test_an_invalid_command_prints_its_usage(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage: python -m jaxprgen" in capsys.readouterr().err


@pytest.mark.deep
@pytest.mark.parametrize(("environment", "dtype"), [({"JAX_ENABLE_X64": "0"}, "f32"), ({}, "f64")])
def test_the_command_line_in_a_process(environment, dtype):
    command = "-m", "jaxprgen", "show", "examples/model.py:graph", *ARGS
    done = python(*command, cwd=ROOT, env=environment)
    assert environment or done.stderr == ""
    assert f"eta:{dtype}[5] = add" in done.stdout
    assert "\033" not in done.stdout


def test_the_examples_of_help_work(capsys, monkeypatch):
    monkeypatch.chdir(ROOT / "examples")
    monkeypatch.setattr(sys, "path", sys.path.copy())
    with pytest.raises(SystemExit) as end:
        main(["show", "--help"])
    assert end.value.code == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "graph --check" in line]
    assert main(line.split()[3:]) == 0


def test_a_closed_pipe_is_no_error():
    """A user reads the first line, which has types of 64 bits."""
    script = f"{sys.executable} -m jaxprgen show examples/model.py:graph {' '.join(ARGS)} --hlo"
    done = subprocess.run(
        ["sh", "-c", f"{script.replace('[', chr(92) + '[')} | head -n 1"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stdout.startswith("HloModule")
    assert "f64[5,30]" in done.stdout
    assert done.stderr == ""
