"""The README's code runs and prints what the README says."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


def test_readme():
    blocks = BLOCKS.findall((ROOT / "README.md").read_text())
    namespace = {}
    printed = ""
    shown = 0
    for language, text in blocks:
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, "README.md", "exec"), namespace)
            printed = out.getvalue()
        else:
            assert printed.split() == text.split()
            shown += 1
    assert shown >= 4


@pytest.mark.parametrize("name", ["logistic_regression", "regularization_path"])
def test_example(name):
    # In a process of its own: an example sets JAX's configuration.
    script = ROOT / "examples" / f"{name}.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "scikit-learn" in done.stdout
