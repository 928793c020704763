"""The commands that export a graph, run its file and say what is in it."""

import json
import platform
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from subprocesses import python

from jaxprgen.tools import file_commands
from jaxprgen.tools.command_line import main

ROOT = Path(__file__).parents[2]
GRAPHS = """\
import jaxprgen  # before aesara
import aesara.tensor as at

X, b, n = at.dmatrix("X"), at.dvector("b"), at.lscalar("n")
linear = [X, b], {"mean": X @ b, "rows": [X.shape[0] + 0 * b.sum()]}
counted = [n, b], at.arange(n) * b.sum()
drawn = [b], at.random.RandomStream(1).normal(size=(3,)) + b
turned = [b], at.complex_from_polar(b, b)
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command in a folder with the module above; return its status and output."""
    (tmp_path / "graphs.py").write_text(GRAPHS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())

    def run(*arguments):
        try:
            status = main(arguments)
        finally:
            sys.modules.pop("graphs", None)
        return status, *capsys.readouterr()

    return run


def export(run, graph, *arguments):
    status, out, err = run("export", graph, *arguments, "-o", "f.jxg")
    assert (status, err) == (0, "")
    assert out.startswith("f.jxg: ")


def test_a_graph_is_exported_and_run_at_several_sizes(run, tmp_path):
    export(run, "graphs:linear", "--arg", "X=f64[n,k]", "--arg", "b=f64[k]")
    for n, k in ((2, 3), (4, 1)):
        X, b = np.arange(1.0, 1 + n * k).reshape(n, k), np.ones(k)
        np.save(tmp_path / "data.npy", X)
        arguments = ["--arg", "X=@data.npy", "--arg", f"b={b.tolist()}"]
        status, out, err = run("run", "f.jxg", *arguments)
        assert (status, err) == (0, "")
        assert json.loads(out) == {"mean": (X @ b).tolist(), "rows": [n]}


def test_all_options(run):
    export(
        run,
        "graphs.py:linear",
        *("--arg", "X=f64[n,3]", "--arg", "b=f64[3]", "--vjp-order", "1", "--batched", "X"),
        *("--platform", "cuda", "--platform", "cpu", "--constraint", "n >= 2"),
        *("--executable", "n=4", "--executable", "n=5"),
    )
    status, out, err = run("info", "f.jxg")
    assert (status, err) == (0, "")
    for line in (
        "function     main(X: float64[n,3], b: float64[3]) -> ",
        "where n >= 2",
        "platforms    cpu, cuda",
        "derivatives  up to order 1",
        "vmap         maps X at once",
        "executable   for n = 4 on cpu, jaxlib",
        "executable   for n = 5 on cpu, jaxlib",
        "written by   jax ",
    ):
        assert line in out
    status, out, err = run("info", "f.jxg", "--text")
    assert (status, err) == (0, "")
    assert "func.func public @main(" in out
    status, out, err = run("run", "f.jxg", "--arg", "X=[[1,2,3]]", "--arg", "b=[1,2,3]")
    assert (status, out) == (2, "")
    assert "exported for n >= 2, which does not hold: n is 1" in err


def test_info_without_a_file_says_what_is_installed(run, monkeypatch):
    monkeypatch.setenv("JAX_EXAMPLE", "1")
    monkeypatch.setattr(file_commands, "_PACKAGES", ("numpy", "no-such-package"))
    status, out, err = run("info")
    assert (status, err) == (0, "")
    rows = [line.split(maxsplit=1) for line in out.splitlines()]
    assert rows[:2] == [["numpy", np.__version__], ["no-such-package", "not installed"]]
    assert dict(rows)["python"].startswith(platform.python_version())
    devices = [text for name, text in rows if name == "device"]
    assert devices == [f"{d.id}: {d.platform}, {d.device_kind}" for d in jax.devices()]
    assert ["setting", "JAX_EXAMPLE=1"] in rows
    status, out, err = run("info", "--text")
    assert (status, out) == (2, "")
    assert err == "error: --text prints the StableHLO of a file. Name one: info FILE --text\n"


def test_values_that_decide_shapes_seeds_and_complex_numbers(run):
    export(run, "graphs:counted", "--arg", "n=3", "--arg", "b=f64[k]")
    assert run("run", "f.jxg", "--arg", "b=[1, 1]")[:2] == (0, "[0.0, 2.0, 4.0]\n")
    assert "fixed        n = 3" in run("info", "f.jxg")[1]
    export(run, "graphs:drawn", "--arg", "b=f64[3]")
    outputs = [run("run", "f.jxg", "--arg", f"key={i}", "--arg", "b=[0,0,0]")[1] for i in (0, 0, 1)]
    assert outputs[0] == outputs[1] != outputs[2]
    export(run, "graphs:turned", "--arg", "b=f64[k]", "--executable", "k=1")
    assert run("run", "f.jxg", "--arg", "b=[0]")[:2] == (0, "[[0.0, 0.0]]\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "none.jxg"], "There is no file none.jxg."),
        (["info", "graphs.py"], "graphs.py is not a file that can be loaded"),
        (["run", "f.jxg"], "have no value:\n  --arg X=@X.npy\n  --arg b=@b.npy"),
        (["run", "f.jxg", "--arg", "c=1"], "There is no input c; there are X, b."),
        (["run", "f.jxg", "--arg", "X=@no.npy", "--arg", "b=1"], "no.npy cannot be read"),
        (["run", "f.jxg", "--arg", "X=a", "--arg", "b=1"], "nor a file such as @data.npy."),
        (["run", "f.jxg", "--arg", "X=[1]", "--arg", "b=1"], "'X' has 2 dimensions"),
        (["export", "graphs:linear", "-o", "g"], "The shapes of these inputs are unknown"),
        (["export", "graphs:linear", "--arg", "X=f64[n]", "--arg", "b=f64[n]", "-o", "g"], "'X'"),
        (
            [*("export", "graphs:drawn", "--arg", "b=f64[3]", "-o", "g", "--executable", "n")],
            "--executable n is not of the form n=100,k=3.",
        ),
        (
            ["export", "graphs:drawn", "--arg", "b=f64[3]", "-o", "no/such/folder"],
            "no/such/folder cannot be written: No such file or directory.",
        ),
    ],
)
def test_errors_are_messages(run, arguments, message):
    export(run, "graphs:linear", "--arg", "X=f64[n,k]", "--arg", "b=f64[k]")
    status, out, err = run(*arguments)
    assert status in (1, 2) and out == ""
    assert err.startswith("error: ") and message in err


WITHOUT_AESARA = """\
import importlib.abc, runpy, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("aesara", "scipy", "flatbuffers"):
            raise ImportError(f"{name} is imported")

sys.meta_path.insert(0, Refuse())
from jaxprgen.tools.command_line import main
assert main(["info"]) == main(["info", "f.jxg"]) == 0
runpy.run_module("jaxprgen", run_name="__main__", alter_sys=True)
"""


def test_files_run_without_aesara_and_scipy(run, tmp_path):
    export(run, "graphs:linear", "--arg", "X=f64[n,k]", "--arg", "b=f64[k]")
    call = ["run", "f.jxg", "--arg", "X=[[2]]", "--arg", "b=[3]"]
    done = python("-c", WITHOUT_AESARA, *call, cwd=tmp_path)
    assert json.loads(done.stdout.splitlines()[-1]) == {"mean": [6], "rows": [1]}
