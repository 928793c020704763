"""The examples, imported rather than run on their own: that takes less time."""

import importlib
import sys
import warnings
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples"))


def example(name):
    with warnings.catch_warnings():
        # JAXopt, which BlackJAX 1.3 imports, has unescaped backslashes.
        warnings.filterwarnings("ignore", "invalid escape sequence", DeprecationWarning)
        return importlib.import_module(name)


@pytest.fixture
def horseshoe():
    return example("horseshoe")


@pytest.fixture
def eight_schools():
    return example("eight_schools")


@pytest.fixture
def map_estimate():
    return example("map_estimate")


@pytest.fixture
def kernels():
    return example("kernels")
