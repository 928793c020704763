"""Gradients of graphs are numbers wherever the function is smooth on the branches it takes."""

import guarded_expressions as guarded
import pytest
from gradient_law import assert_law
from hypothesis import given
from profiles import examples

pytest.importorskip("pytensor.tensor")


@examples(1)
@given(guarded.expressions(leaves=8))
def test_gradients_are_numbers(expression):
    assert_law("pytensor", expression)
