"""The functions of the examples export for platforms that this machine does not have."""

import re
from pathlib import Path

import pytest
from subprocesses import python

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
    printed = python(HERE / "every_function.py", script, cwd=EXAMPLES).stdout
    assert int(re.search(r"exported: (\d+)", printed)[1]) >= 1
