"""Derivatives where a function has a kink: the table of docs/semantics.md."""

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest

import jaxprgen

x, y = at.dvector("x"), at.dvector("y")

CASES = {
    "clip": (at.clip(x, -1.0, 2.0) + 0 * y, [-1.0, 2.0], [0.0, 0.0], [1, 1], [0, 0]),
    "clip to variables": (at.clip(x, y, y + 3), [-1.0, 2.0], [-1.0, -1.0], [1, 1], [0, 0]),
    "maximum": (at.maximum(x, y), [2.0, 0.0], [2.0, 0.0], [1, 1], [0, 0]),
    "minimum": (at.minimum(x, y), [2.0, 0.0], [2.0, 0.0], [1, 1], [0, 0]),
    "maximum of a number": (at.maximum(0.0, x) + 0 * y, [0.0], [1.0], [0], [0]),
    "remainder": (x % y, [0.0, 3.0, 6.0, -6.0], [3.0] * 4, [1, 1, 1, 1], [0, -1, -2, 2]),
    "switch": (at.switch(x > 0, x, 0.0) + 0 * y, [0.0], [1.0], [0], [0]),
    "steps": (at.floor(x) + at.ceil(x) + at.round(x) + at.sgn(x) + 0 * y, [0.0], [1.0], [0], [0]),
}
"""A function, arguments, and its derivatives by both."""


@pytest.mark.parametrize("name", CASES)
def test_derivatives_at_kinks_are_the_librarys(name):
    out, *args, of_x, of_y = CASES[name]
    args = [np.array(a) for a in args]
    total, wanted = out.sum(), [of_x, of_y]
    gradients = aesara.grad(total, [x, y])
    f = jaxprgen.compile([x, y], total)
    for found in (
        aesara.function([x, y], gradients, mode="FAST_COMPILE")(*args),
        jaxprgen.compile([x, y], gradients)(*args),
        jax.grad(f, (0, 1))(*args),
        jax.jacfwd(f, (0, 1))(*args),
    ):
        for own, right in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(own), right)


@pytest.mark.parametrize(("extreme", "tie"), [(at.max, 2.0), (at.min, -2.0)])
def test_ties_of_reductions_share_the_derivative_of_jax(extreme, tie):
    point, total = np.array([tie, 0.0, tie]), extreme(x)
    own = jaxprgen.compile([x], aesara.grad(total, x))(point)
    np.testing.assert_array_equal(own, [1, 0, 1])
    shared = jax.grad(jaxprgen.compile([x], total))(point)
    np.testing.assert_array_equal(shared, [0.5, 0, 0.5])


@pytest.mark.parametrize(("function", "own", "of_jax"), [(abs, 0, 1), (at.sqrt, np.inf, np.inf)])
def test_kinks_of_one_operand(function, own, of_jax):
    total = function(x).sum()
    assert jaxprgen.compile([x], aesara.grad(total, x))(np.zeros(1)) == own
    assert jax.grad(jaxprgen.compile([x], total))(np.zeros(1)) == of_jax
