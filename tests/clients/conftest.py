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


def fixture_of(name):
    return pytest.fixture(lambda: example(name), name=name)


horseshoe, eight_schools, map_estimate, kernels, gibbs, chains = map(
    fixture_of, ["horseshoe", "eight_schools", "map_estimate", "kernels", "gibbs", "chains"]
)
spatial, text = map(fixture_of, ["spatial", "text"])
