"""The examples with sparse matrices find what their data were made of."""

import numpy as np
import pytest

pytestmark = [
    pytest.mark.deep,
    pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning"),
]


def test_a_model_of_neighbours(spatial):
    assert (len(spatial.STATES), len(spatial.PAIRS)) == (48, 105)
    found, correlation = spatial.main()
    for true, draws in found.values():
        assert abs(np.mean(draws) - true) < 4 * np.std(draws)
    assert correlation > 0.8


def test_texts_are_classified(text):
    assert text.main() > 0.9
