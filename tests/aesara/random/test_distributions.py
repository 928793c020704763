"""Draws have the distributions they should have, and are those of `jax.random` if it has them."""

from __future__ import annotations

import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.stats as stats
from aesara.tensor.random import basic as aer
from aesara.tensor.random.op import RandomVariable
from catalogue.draws import CONTINUOUS, DISCRETE, generator, variable
from laws import assert_same
from profiles import amount, is_deep, sample

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.lowering.registry import find_rule

CASES = [*CONTINUOUS, *DISCRETE]
COUNT = amount(quick=500, deep=10_000)

KEY = jax.random.key(3)
OWN = jax.random.fold_in(jax.random.fold_in(KEY, 0), 0)
"""The key of the first draw of a program, as the documentation tells."""


def name(i):
    return f"{i}-{getattr(CASES[i].op, 'name', 'choice')}"


@pytest.mark.parametrize("i", sample([i for i, c in enumerate(CASES) if c.jax], 16), ids=name)
def test_draws_are_those_of_jax(i):
    """Bit for bit, for the key that the documentation tells, where XLA optimizes as for users.

    See test_forms.py for laws of all distributions.
    """
    case = CASES[i]
    drawn = draw(
        lambda *inputs, **more: case.op(*inputs, rng=generator(case.op), **more),
        *case.parameters,
        size=(COUNT,),
    )
    theirs = jax.jit(lambda *parameters: case.jax(OWN, (COUNT,), *parameters))
    expected = theirs(*map(np.asarray, case.parameters)).astype(drawn.dtype)
    np.testing.assert_allclose(drawn, expected, rtol=0 if is_deep() else 1e-13)


def test_most_draws_are_those_of_jax():
    assert sum(case.jax is not None for case in CASES) >= 30


def test_every_random_variable_is_tried():
    installed = {
        value
        for value in vars(aer).values()
        if isinstance(value, type) and issubclass(value, RandomVariable)
    } - {RandomVariable, aer.ScipyRandomVariable}
    assert len(installed) == 41
    tried = {type(c.op) for c in CASES if isinstance(c.op, RandomVariable)}
    others = {aer.MvNormalRV, aer.DirichletRV, aer.MultinomialRV, aer.PermutationRV, aer.ChoiceRV}
    assert tried | others == installed
    assert all(find_rule(op) for op in installed)


# --- Vectors ------------------------------------------------------------------------------


def draw(op, *parameters, **options):
    inputs = [variable(p) for p in parameters]
    output = op(*inputs, **options)
    f = jaxprgen.compile(inputs, output)
    args = [np.asarray(p) for p in parameters]
    check_jaxpr(f.jaxpr(KEY, *args).jaxpr)
    drawn = f(KEY, *args)
    assert drawn.dtype == output.dtype
    return drawn


def test_multivariate_normal():
    mean, cov = np.array([1.0, 2.0, 3.0]), np.array([[2.0, 0.5, 0], [0.5, 1, 0.1], [0, 0.1, 1.5]])
    drawn = draw(aer.multivariate_normal, mean, cov, size=(COUNT,))
    expected = jax.jit(
        lambda m, c: jax.random.multivariate_normal(OWN, m, c, (COUNT,), method="svd")
    )(mean, cov)
    assert_same(drawn, expected)
    singular = draw(aer.multivariate_normal, np.zeros(2), np.ones((2, 2)), size=(1000,))
    assert np.isfinite(singular).all()
    np.testing.assert_allclose(singular[:, 0], singular[:, 1], atol=1e-7)


def test_dirichlet():
    alphas = np.array([0.5, 2.0, 3.5])
    drawn = draw(aer.dirichlet, alphas, size=(COUNT,))
    assert_same(drawn, jax.jit(lambda a: jax.random.dirichlet(OWN, a, (COUNT,)))(alphas))


def test_permutation():
    rows = np.arange(12.0).reshape(4, 3)
    for given in (np.arange(10, 17), rows):
        assert_same(draw(aer.permutation, given), jax.random.permutation(OWN, given))
    assert_same(draw(lambda: aer.permutation(np.int64(7))), jax.random.permutation(OWN, 7))
    shuffled = jax.vmap(jaxprgen.compile([], aer.permutation(at.arange(3))))
    many = shuffled(jax.random.split(KEY, 6 * COUNT))
    _, counts = np.unique(np.asarray(many), axis=0, return_counts=True)
    assert stats.chisquare(counts).pvalue > 1e-7
    assert len(counts) == 6


def test_choice_without_replacement():
    a, p = np.array([1.0, 2, 4, 8]), np.array([0.1, 0.2, 0.3, 0.4])
    plain = draw(lambda x: aer.choice(x, size=(3,), replace=False), a)
    assert_same(plain, jax.random.choice(OWN, a, (3,), replace=False))
    weighted = draw(lambda x, w: aer.choice(x, size=(3,), replace=False, p=w), a, p)
    assert_same(weighted, jax.random.choice(OWN, a, (3,), replace=False, p=p))
    scalar = draw(lambda x: aer.choice(x), a)
    assert_same(scalar, jax.random.choice(OWN, a))
