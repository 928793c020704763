"""Draws of symbolic sizes, and what sizes have to be: one program for all of them."""

import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.tensor import nlinalg
from aesara.tensor.random import basic as aer
from catalogue.draws import CONTINUOUS, DISCRETE, Case, generator, variable
from catalogue.sizes import exported
from laws import assert_same, reference
from profiles import sample

import jaxprgen
from jaxprgen.errors import StaticShapeError, SymbolicSizeError

pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")

KEY = jax.random.key(5)


# --- Draws --------------------------------------------------------------------------------

VECTORS = [
    Case(aer.multivariate_normal, (np.zeros(2), np.eye(2))),
    Case(aer.dirichlet, (np.ones(3),)),
    Case(aer.multinomial, (5, [0.2, 0.5, 0.3])),
]


@pytest.mark.parametrize(
    "case", sample([*CONTINUOUS, *DISCRETE, *VECTORS], 3), ids=lambda c: getattr(c.op, "name", "")
)
def test_draws_of_symbolic_sizes_are_those_of_known_ones(case):
    """They have the dtypes and shapes of Aesara."""
    x, parameters = at.dvector("x"), [variable(p) for p in case.parameters]
    drawn = case.op(*parameters, size=(x.shape[0], 3), rng=generator(case.op))
    inputs, args = [x, *parameters], [np.ones(5), *map(np.asarray, case.parameters)]
    shapes = ["n", *(",".join(map(str, a.shape)) for a in args[1:])]
    program = exported(inputs, [drawn], shapes)
    (ours,), (wanted,) = program.call(KEY, *args), reference(inputs, [drawn], args)
    assert (ours.shape, ours.dtype) == (wanted.shape, wanted.dtype)
    theirs = jaxprgen.compile(inputs, drawn)(KEY, *args)
    assert_same(np.asarray(ours), np.asarray(theirs), 1e-12)


def test_permutations_and_choices_of_symbolic_sizes():
    """The number of rounds in which `jax.random.permutation` sorts depends on the size."""
    x, p = at.dmatrix("x"), at.dvector("p")
    y = x[:, 0]
    draws = [
        aer.permutation(y, rng=generator()),
        aer.permutation(x, rng=generator()),
        aer.permutation(x.shape[0], rng=generator()),
        aer.choice(y, size=(2,), replace=False, rng=generator()),
        aer.choice(y, size=(2,), p=p, replace=False, rng=generator()),
        aer.choice(y, size=(x.shape[1], 2), p=p, rng=generator()),
        aer.categorical(p, size=(2,), rng=generator()),
        aer.normal(size=x.shape[0], rng=generator()),
    ]
    f, program = jaxprgen.compile([x, p], draws), exported([x, p], draws, ["n,k", "n"])
    for n, k in ((2, 3), (1625, 1), (1626, 1)):
        args = KEY, np.arange(1.0 * n * k).reshape(n, k), np.ones(n) / n
        for ours, wanted in zip(program.call(*args), f(*args), strict=True):
            assert_same(np.asarray(ours), np.asarray(wanted), 1e-12)


# --- What sizes have to be ----------------------------------------------------------------


def test_sizes_that_do_not_fit_fail_in_calls():
    x = at.dmatrix("x")
    program = exported([x], nlinalg.det(x), ["n,k"])
    assert_same(np.asarray(program.call(2 * np.eye(3))), np.asarray(8.0))
    with pytest.raises(ValueError, match="refining shapes") as caught:  # What JAX says.
        program.call(np.ones((2, 3)))
    assert "Only square matrices have determinants" in str(caught.value.__cause__)


def test_draws_of_negative_sizes_fail_in_calls():
    x = at.dvector("x")
    draws = aer.normal(size=(x.shape[0] - 2,), rng=generator())
    program = jaxprgen.compile([x], draws).export(KEY, "f64[n]")
    assert program.call(KEY, np.ones(2)).shape == (0,)
    with pytest.raises(ValueError, match=r"n - 2|-2\*|n >= 2"):
        program.call(KEY, np.ones(1))


def test_results_whose_shape_differs_by_size_name_the_constraint():
    a, y = at.dmatrix("a"), at.dvector("y")
    graph = [a, y], nlinalg.Lstsq()(a, y, 1e-9)[0], ["n,k", "n"]
    with pytest.raises(SymbolicSizeError, match=r"Lstsq(.|\n)*built at") as caught:
        exported(*graph)
    assert "n <= k" in str(caught.value)
    program = exported(*graph, ["k <= n - 1"])
    draw = np.random.default_rng(5)
    data = draw.standard_normal((5, 2)), draw.standard_normal(5)
    wanted = np.linalg.lstsq(*data, rcond=None)[0]
    assert_same(np.asarray(program.call(*data)), wanted, 1e-9)


def test_counts_that_only_calls_know_are_refused():
    x, counts = at.dvector("x"), at.lvector("counts")
    with pytest.raises(StaticShapeError, match="counts of repeat"):
        exported([x, counts], at.repeat(x, counts), ["n", "n"])
