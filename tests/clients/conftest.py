"""The examples, imported rather than run on their own: that takes less time."""

import importlib
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples"))


@pytest.fixture
def horseshoe():
    return importlib.import_module("horseshoe")


@pytest.fixture
def eight_schools():
    return importlib.import_module("eight_schools")


@pytest.fixture
def map_estimate():
    return importlib.import_module("map_estimate")
