"""Inverses of incomplete gamma and beta functions, and other functions that PyTensor adds."""

import itertools

import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.special
from aesara.graph.basic import Apply
from aesara.graph.op import Op
from stored import assert_close

import jaxprgen
from jaxprgen.special import bessel, error_functions, gamma_functions, inverses


class Applied(Op):
    """A function of values as an Op."""

    __props__ = ("function",)

    def __init__(self, function):
        self.function = function

    def make_node(self, *xs):
        return Apply(self, list(xs), [xs[-1].type()])

    def perform(self, node, inputs, outputs):
        raise NotImplementedError


@jaxprgen.lowers(Applied, folds=False)
def lower_applied(ctx, *xs):
    return ctx.op.function(*xs)


ORDERS = [1e-8, 1e-3, 0.1, 1.0, 2.5, 30.0, 1e4]
PARTS = [0.0, 1e-300, 1e-20, 1e-5, 0.1, 0.5, 0.7, 0.99, 1 - 1e-10, 1.0]
LOGARITHMS = [0.0, -1e-300, -1e-9, -0.1, -0.7, -1, -10, -99, -101, -700, -1e4, -1e100, -np.inf, 1]
POINTS = [-100.25, -7.7, -1.0, -0.1, 0.0, 1e-3, 0.5, 2.0, 9.5, 1e3, 1e8, np.inf]
# SciPy has no value of betaincinv at 1e-300.
CASES = {
    "gammaincinv": (inverses.gammaincinv, [ORDERS, PARTS], 1e-11),
    "gammainccinv": (inverses.gammainccinv, [ORDERS, PARTS], 1e-11),
    "betaincinv": (inverses.betaincinv, [ORDERS, [1e-3, 0.5, 2.5, 1e3], PARTS[2:]], 1e-11),
    "polygamma": (gamma_functions.polygamma, [[0.0, 1, 2, 3, 10, 50], POINTS], 1e-12),
    "ndtri_exp": (error_functions.ndtri_exp, [LOGARITHMS], 1e-13),
    "ive": (bessel.ive, [[0.0, 0.5, 1, 10, 100, -2.3], [0.1, 5.0, 20, 1e4, 1e8]], 2e-12),
}
INVALID = {
    "gammaincinv": [(-1, 0.5), (2, -0.1), (2, np.nan), (np.nan, 0.5), (np.inf, 0.5)],
    "betaincinv": [(-1, 2, 0.5), (2, 3, 1.5), (2, np.nan, 0.5)],
    "ndtri_exp": [(0.1,), (np.nan,)],
    "polygamma": [(2, np.nan), (-1, 2)],
}


def function_of(name, kind=at.dvector):
    function, columns, _ = CASES[name]
    xs = [kind() for _ in columns]
    return jaxprgen.function(xs, Applied(function)(*xs))


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_scipy(name):
    _, columns, accuracy = CASES[name]
    args = np.array([*itertools.product(*columns), *INVALID.get(name, [])], float).T
    with np.errstate(all="ignore"):
        first = args[0].astype(int) if name == "polygamma" else args[0]
        expected = getattr(scipy.special, name)(first, *args[1:])
    found = function_of(name)(*args)
    assert_close(found, expected, accuracy, args, floor=1e-290)


DERIVATIVES = {
    "gammaincinv": (2.5, 0.3),
    "gammainccinv": (2.5, 0.3),
    "betaincinv": (2.5, 0.7, 0.6),
    "ndtri_exp": (-3.0,),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_are_those_of_implicit_functions(name):
    args = np.array(DERIVATIVES[name])
    slopes = jax.jit(jax.grad(function_of(name, at.dscalar), argnums=tuple(range(len(args)))))
    step = 1e-5 * np.eye(len(args))
    function = getattr(scipy.special, name)
    expected = [(function(*(args + h)) - function(*(args - h))) / 2e-5 for h in step]
    np.testing.assert_allclose(slopes(*args), expected, rtol=1e-7)


def test_single_precision_keeps_its_digits():
    x, p = np.float32([0.5, 3, 100]), np.float32([1e-6, 0.4, 0.999])
    for name in ("gammaincinv", "gammainccinv"):
        found = function_of(name, at.fvector)(x, p)
        assert found.dtype == np.float32
        expected = getattr(scipy.special, name)(x.astype(float), p.astype(float))
        np.testing.assert_allclose(found, expected, rtol=2e-4)
