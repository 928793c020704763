"""Whatever is wrong with a command, its answer is a line and status 2; Ctrl-C is status 130."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import aesara.tensor as at
import numpy as np
import pytest
from profiles import sample
from subprocesses import python

import jaxprgen
from jaxprgen.tools.command_line import main

ROOT = Path(__file__).parents[2]
GRAPHS = """\
import jaxprgen  # before aesara
import aesara.tensor as at

x = at.dvector("x")
graph = [x], at.exp(x).sum()
"""
PYTHON = [sys.executable, "-m", "jaxprgen"]
ESCAPES = "\x1b]0;t\x07\u202e\u2028"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a saved file, a module, and files that hold no numbers."""
    folder = tmp_path_factory.mktemp("bad")
    x = at.dvector("x")
    jaxprgen.save(folder / "f.jxg", jaxprgen.compile([x], at.exp(x).sum()), "f64[k]")
    (folder / "graphs.py").write_text(GRAPHS)
    (folder / "empty.npy").touch()
    (folder / "junk.npz").write_bytes(b"PK\3\4junk")
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999,), }\n"
    (folder / "huge.npy").write_bytes(b"\x93NUMPY\1\0" + bytes([len(header), 0]) + header)
    for name, array in {
        "texts": np.array(["1.5"]),
        "records": np.zeros(2, [("a", "f8")]),
        "dates": np.array(["1970-01-02"], "M8[D]"),
        "durations": np.array([3], "m8[ns]"),
        "complex": np.array([1j]),
        "objects": np.array([{}], dtype=object),
    }.items():
        np.save(folder / f"{name}.npy", array)
    np.savez(folder / "several.npz", a=np.ones(1))
    return folder


VALUES = [
    *("@empty.npy", "@junk.npz", "@huge.npy", "@several.npz", "@records.npy", "@objects.npy"),
    *("@texts.npy", "@dates.npy", "@durations.npy", "@complex.npy"),
    *("@", "@.", "@no.npy", "@a\0b", "@" + "n" * 300, f"@{ESCAPES}", "@/dev/null", "@f.jxg"),
    *("", "[", "[" * 20_000, "-" * 50_000 + "1", "9" * 5_000, "1" + "0" * 400, "[[1], [2, 3]]"),
    *("None", "'a'", "{}", "[1j]", "lambda: 1", ESCAPES, "[True]", "f64[3]"),
]
SIZES = [
    *("-3", "3-5", "9" * 20, "n*" + "9" * 20, "n^999", "n^2", "floordiv(n,0)", "mod(n,0)", "n!"),
    *("(" * 3000, "n;m", "1e3", "0x10", "...", "n,m", ESCAPES, "max(n", "n/2", "__import__('os')"),
]
PATHS = ["", ".", "/", "/dev/null", "no/such", "a\0b", "n" * 300, f"{ESCAPES}/f"]
TARGETS = [
    *("graphs", ":", "graphs:", ":graph", "graphs:no", "no:graph", "no.py:graph", "a\0b:graph"),
    *(
        "a\0b.py:graph",
        ".py:graph",
        "..:graph",
        f"{ESCAPES}:graph",
        f"graphs:{ESCAPES}",
        "graphs:x",
    ),
    *("n" * 300 + ".py:graph", "n" * 300 + ":graph", "graphs.py:graph.no"),
]
X = ["--arg", "x=f64[n]"]
COMMANDS = {
    "a value": (VALUES, lambda x: ["run", "f.jxg", "--arg", f"x={x}"]),
    "a name": (["y", "1", "9" * 5000, ESCAPES], lambda x: ["run", "f.jxg", "--arg", f"{x}=1"]),
    "an argument": (["x", "x=f", ESCAPES], lambda x: ["export", "graphs:graph", "--arg", x, "-oo"]),
    "sizes": (SIZES, lambda x: ["export", "graphs:graph", "--arg", f"x=f64[{x}]", "-o", "o.jxg"]),
    "constraints": (
        ["n", "n >= n!", "n >= " + "9" * 20, "(" * 3000, ESCAPES],
        lambda x: ["export", "graphs:graph", *X, "--constraint", x, "-o", "o.jxg"],
    ),
    "executables": (
        ["n", "n=-1", "n=" + "9" * 5000, "=", "k=3", ESCAPES],
        lambda x: ["export", "graphs:graph", *X, "--executable", x, "-o", "o.jxg"],
    ),
    "other options": (
        [
            ["--platform", "abacus"],
            ["--vjp-order", "-1"],
            ["--batched", "y"],
            ["--batched", ESCAPES],
        ],
        lambda x: ["export", "graphs:graph", *X, *x, "-o", "o.jxg"],
    ),
    "a path to write": (PATHS, lambda x: ["export", "graphs:graph", *X, "-o", x]),
    "a page": (PATHS[1:3] + PATHS[4:], lambda x: ["show", "graphs:graph", *X, "--html", x]),
    "a drawing": (
        [f"{x}/g.dot" for x in PATHS[4:]],
        lambda x: ["show", "graphs:graph", "--arg", "x=f64[3]", "--dot", x],
    ),
    "a path to run": (PATHS, lambda x: ["run", x]),
    "a path to describe": ([*PATHS[1:], "graphs.py"], lambda x: ["info", x]),
    "a checksum": (["", "0", ESCAPES, "f" * 64], lambda x: ["info", "f.jxg", "--sha256", x]),
    "a graph": (TARGETS, lambda x: ["show", x]),
    "a command": (["", "hide", ESCAPES], lambda x: [x]),
    "an option": (["--nonsense", f"--{ESCAPES}"], lambda x: ["info", x]),
}


@pytest.mark.parametrize("subject", COMMANDS)
def test_what_is_wrong_is_a_line(subject, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    values, arguments = COMMANDS[subject]
    wrong = []
    for value in values:
        monkeypatch.setattr(sys, "path", sys.path.copy())
        try:
            status = main(arguments(value))
        except SystemExit as end:  # The parser's.
            status = end.code
        finally:
            sys.modules.pop("graphs", None)
        out, err = capsys.readouterr()
        said = err.partition("error: ")[2]
        is_harmless = all(line.isprintable() for line in err.split("\n"))
        if status != 2 or out or not said or not is_harmless or len(said) > 2000:
            wrong.append((str(value)[:20], status, out[:50], err[-300:]))
    assert not wrong
    assert not [x for x in folder.iterdir() if x.suffix == ".part"]


def process(code, *arguments, **options):
    """Run a command of the shell, with ``$0`` to start jaxprgen."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        ["sh", "-c", code, *arguments], capture_output=True, text=True, env=environment, **options
    )
    return done.returncode, done.stdout, done.stderr


RUN = f"{sys.executable} -m jaxprgen"
GONE = "mkdir gone && cd gone && rmdir ../gone"
STREAMS = {
    "closed output": (f"{RUN} info f.jxg >&-", (2, "", "error: Standard output is closed.\n")),
    "closed output and errors": (f"{RUN} info f.jxg >&- 2>&-", (2, "", "")),
    "errors nobody reads": (f"{RUN} info none.jxg 2>&-", (2, "", "")),
    "a full disk": (
        f"{RUN} info f.jxg >/dev/full",
        (2, "", "error: The output cannot be written: No space left on device.\n"),
    ),
    "a deleted folder": (
        f'{GONE} && {RUN} run "x" --arg "x=[0]"',
        (2, "", "error: There is no file x.\n"),
    ),
    "a deleted folder, a graph": (
        f'f="$PWD/graphs.py:graph"; {GONE} && {RUN} show "$f" --check',
        (0, "2 nodes: 2 jit\n\njit-able: all of 2 nodes\n", ""),
    ),
    "a deleted folder, whole path": (
        f'f="$PWD/f.jxg"; {GONE} && {RUN} run "$f" --arg "x=[0]"',
        (0, "1.0\n", ""),
    ),
}


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize("name", sample(list(STREAMS), 3))
def test_streams_and_folders(name, folder):
    code, expected = STREAMS[name]
    assert process(code, cwd=folder) == expected


INTERRUPT = """\
import os, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["PLACE"]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
"""


@pytest.mark.parametrize("place", sample(["jax", "graphs", "numpy", "jaxprgen.export.loading"], 1))
def test_an_interrupt_is_a_line(place, folder, tmp_path):
    """Wherever it comes, also while modules are imported."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    command = ["show", "graphs:graph"] if place == "graphs" else ["info", "f.jxg"]
    options = {"path": (tmp_path,), "status": 130, "cwd": folder, "env": {"PLACE": place}}
    done = python("-m", "jaxprgen", *command, **options)
    assert (done.stdout, done.stderr) == ("", "error: interrupted\n")


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.skipif(
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    reason="a shell lets what it runs in the background ignore the signal",
)
def test_ctrl_c_is_a_line(folder):
    (folder / "waits.py").write_text("import sys\nprint('ready', flush=True)\nsys.stdin.read()\n")
    with subprocess.Popen(
        [*PYTHON, "show", "waits.py:graph"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as started:
        assert started.stdout.readline() == "ready\n"
        started.send_signal(signal.SIGINT)
        assert started.wait() == 130
        assert started.stderr.read() == "error: interrupted\n"


NAMES = ["numpy", "json", "jax", "aesara", "random", "scipy", "mymodel"]


@pytest.mark.parametrize("name", sample(NAMES, 1))
def test_a_users_module_shadows_no_installed_one(name, folder, tmp_path):
    """Neither where the graph is, nor beside it, nor in the working directory."""
    (tmp_path / "n").mkdir()
    for place in (tmp_path, tmp_path / "n"):
        for other in (*NAMES, "helper"):
            (place / f"{other}.py").write_text(GRAPHS)
        (place / f"{name}.py").write_text(GRAPHS + "import helper, numpy, scipy; scipy.__path__")
    run = f"{RUN} show n/{name}.py:graph --arg 'x=f64[3]' && {RUN} run {folder}/f.jxg --arg 'x=[0]'"
    status, out, err = process(run, cwd=tmp_path)
    assert (status, err) == (0, "")
    assert "exp" in out and out.endswith("\n1.0\n")
