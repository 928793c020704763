"""The functions of the examples export for platforms that this machine does not have."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"


@pytest.mark.deep
@pytest.mark.parametrize(
    "script",
    [
        "chains.py",
        "eight_schools.py",
        "gibbs.py",
        "horseshoe.py",
        "kernels.py",
        "logistic_regression.py",
        "map_estimate.py",
        "regularization_path.py",
    ],
)
def test_functions_of_examples_are_exported_for_every_platform(script):
    done = subprocess.run(
        [sys.executable, HERE / "every_function.py", script],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(re.search(r"exported: (\d+)", done.stdout)[1]) >= 1
