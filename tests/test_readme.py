"""The code in the README and in the documentation runs, and prints what is said there."""

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.compile(r"^```(python|sh|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ALIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MAKES = re.compile(r"^make ", re.MULTILINE)


def run_python(text, page, line, namespace):
    """What the code prints. It stands on its own lines of the page: programs mention them."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile("\n" * line + text, page, "exec"), namespace)
    return out.getvalue()


def run_shell(text):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", text],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("page", "fewest"), [("README.md", 4), ("docs/reading.md", 6)])
def test_what_a_page_shows_is_what_its_code_prints(page, fewest, monkeypatch):
    monkeypatch.chdir(ROOT)
    source = (ROOT / page).read_text()
    namespace, printed, shown = {}, "", 0
    for match in BLOCKS.finditer(source):
        language, text = match.groups()
        if language == "python":
            printed = run_python(text, page, source.count("\n", 0, match.start(2)), namespace)
        elif language == "text":
            shown += 1
            right = doctest.OutputChecker().check_output(text, printed, ALIKE)
            assert right, f"{page} shows\n{text}\nand its code prints\n{printed}"
        elif not MAKES.search(text):
            printed = run_shell(text)
    assert shown >= fewest


@pytest.mark.parametrize("name", ["logistic_regression", "regularization_path"])
def test_example(name):
    # In a process of its own: an example sets JAX's configuration.
    script = ROOT / "examples" / f"{name}.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "scikit-learn" in done.stdout
