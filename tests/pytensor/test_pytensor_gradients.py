"""Gradients of graphs are numbers wherever the function is smooth on the branches it takes."""

import guarded_expressions as guarded
import jax
import numpy as np
import pytest
from gradient_law import assert_law
from hypothesis import given
from profiles import examples
from scipy.special import i1

pt = pytest.importorskip("pytensor.tensor")  # Not "pytensor", the name of this folder.

import pytensor  # noqa: E402

import jaxprgen.pytensor  # noqa: E402


@examples(1, quick=0.4)
@given(guarded.expressions(leaves=8))
def test_gradients_are_numbers(expression):
    assert_law("pytensor", expression)


# --- Reports of users ---------------------------------------------------------------------

x, s = pt.dvector("x"), pt.dscalar("s")


def test_the_derivative_of_a_bessel_function_near_zero():
    """As in a von Mises distribution that is nearly uniform."""
    points, total = np.array([1e-9, 1e-6, 1e-3, 0.5]), pt.i0(x).sum()
    written = jaxprgen.compile([x], pytensor.grad(total, x))(points)
    np.testing.assert_allclose(written, i1(points), rtol=1e-14)
    by_jax = jax.grad(jaxprgen.compile([x], total))(points)
    np.testing.assert_allclose(by_jax, i1(points), rtol=1e-14)


@pytest.mark.parametrize("f", [lambda: x % s, lambda: pt.clip(x, 0.0, 6.0) + 0 * s])
def test_derivatives_at_kinks_are_the_librarys(f):
    args, total = (np.array([0.0, 3.0, 4.0, 6.0]), 3.0), f().sum()
    gradients = pytensor.grad(total, [x, s], disconnected_inputs="ignore")
    wanted = pytensor.function([x, s], gradients, mode="FAST_COMPILE")(*args)
    by_jax = jax.grad(jaxprgen.compile([x, s], total), argnums=(0, 1))(*args)
    for found in (jaxprgen.compile([x, s], gradients)(*args), by_jax):
        for own, right in zip(found, wanted, strict=True):
            np.testing.assert_allclose(own, right)


def test_a_branch_that_is_not_taken():
    points = np.array([0.0, 1.0, 2.0, -1.0])
    total = pt.switch(pt.gt(x, 0), x * pt.log(x), 0.0).sum()
    slope = pytensor.grad(total, x)
    for found in (
        pytensor.function([x], slope, mode="JAXPR")(points),
        jaxprgen.compile([x], slope)(points),
        jax.grad(jaxprgen.compile([x], total))(points),
    ):
        np.testing.assert_allclose(found, [0.0, 1.0, 1 + np.log(2.0), 0.0])


def test_powers_by_arrays_of_whole_numbers_have_slopes_at_zero():
    """As in geometric adstock."""
    one = jaxprgen.compile([s], (s ** pt.arange(3)).sum())
    given = jaxprgen.compile([s], pt.power(s, pt.constant([0, 2])).sum())
    many = jaxprgen.compile([x], (x[:, None] ** pt.arange(4)).sum())
    assert jax.grad(one)(0.0) == 1
    assert jax.grad(given)(0.0) == 0
    slopes = jax.grad(many)(np.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(slopes, [1.0, 6.0, 17.0])
