"""Warnings of gradients that are not finite where their function is."""

import warnings

import aesara.tensor as at
import numpy as np
import pytest

import jaxprgen
from jaxprgen.errors import ArgumentTypeError, GradientWarning

x, scale, k = at.dvector("x"), at.dscalar("scale"), at.lscalar("k")
point = [np.array([1.0, 2.0]), 1.5, 3]


def test_the_input_and_the_line_are_named():
    root = at.sqrt(abs(x - x)).sum() + scale * k
    with pytest.warns(GradientWarning) as caught:
        found = jaxprgen.check([x, scale, k], root, point=point)
    assert found.compiles
    first, place, *_ = str(caught[0].message).splitlines()
    assert first.startswith("The gradient of the output with respect to 'x' is not finite at a ")
    assert first.endswith("where the value is 4.5.")
    assert place.startswith("  It arises in ") and __file__ in place


def test_points_around_the_given_one_are_tried():
    """The square root is not differentiable at zero, and NaN below."""
    edge = at.sqrt(at.maximum(scale - 1.5, 0.0)) * at.sqrt(at.maximum(1.5 - scale, 0.0))
    with pytest.warns(GradientWarning):
        jaxprgen.check([x, scale, k], edge + x.sum() * k, point=point)


def test_guarded_branches_are_fine():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = at.switch(x > 0, at.log(x), 0.0).sum() + scale * k
        jaxprgen.check([x, scale, k], out, point=[np.array([0.0, 2.0]), 1.5, 3])


@pytest.mark.parametrize("outputs", [x, [scale, scale], k])
def test_a_point_needs_a_scalar_output(outputs):
    with pytest.raises(ArgumentTypeError, match="one output, a scalar of floats"):
        jaxprgen.check([x, scale, k], outputs, point=point)
