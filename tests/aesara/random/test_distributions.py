"""Draws have the distributions they should have, and are those of `jax.random` if it has them."""

from __future__ import annotations

import functools

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
TRIED = sample(range(len(CASES)), len(CASES) // 2)
COUNT = amount(quick=2_000, deep=100_000)
ALARM = 1e-7
"""The probability of a false alarm, for each case; keys are fixed, so it is once and for all."""

KEY = jax.random.key(3)
OWN = jax.random.fold_in(jax.random.fold_in(KEY, 0), 0)
"""The key of the first draw of a program, as the documentation tells."""


@functools.cache
def draws(i):
    """Draws of a case, the only one of its program."""
    case = CASES[i]
    inputs = [variable(p) for p in case.parameters]
    output = case.op(*inputs, size=(COUNT,), rng=generator(case.op))
    f = jaxprgen.compile(inputs, output)
    args = [np.asarray(p) for p in case.parameters]
    check_jaxpr(f.jaxpr(KEY, *args).jaxpr)
    drawn = f(KEY, *args)
    assert drawn.dtype == output.dtype
    return np.asarray(drawn)


def name(i):
    return f"{i}-{getattr(CASES[i].op, 'name', 'choice')}"


@pytest.mark.parametrize("i", [i for i in TRIED if i < len(CONTINUOUS)], ids=name)
def test_continuous_distributions(i):
    assert stats.kstest(draws(i), CASES[i].law.cdf).pvalue > ALARM


@pytest.mark.parametrize("i", [i for i in TRIED if i >= len(CONTINUOUS)], ids=name)
def test_discrete_distributions(i):
    assert chi_square(draws(i), CASES[i].law) > ALARM


def chi_square(drawn, law):
    """The p-value of whole numbers, where rare ones are put together."""
    numbers = np.arange(law.ppf(1e-3), law.ppf(1 - 1e-3) + 1)
    expected = law.pmf(numbers) * len(drawn)
    numbers, expected = numbers[expected > 20], expected[expected > 20]
    counts = np.array([(drawn == k).sum() for k in numbers])
    counts, expected = (np.append(c, len(drawn) - c.sum()) for c in (counts, expected))
    kept = expected > 5
    assert counts[~kept].sum() < 50
    counts, expected = counts[kept], expected[kept]
    return stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue


@pytest.mark.parametrize("i", [i for i in TRIED if CASES[i].jax], ids=name)
def test_draws_are_those_of_jax(i):
    """Bit for bit, for the key that the documentation tells, where XLA optimizes as for users."""
    theirs = jax.jit(lambda *parameters: CASES[i].jax(OWN, (COUNT,), *parameters))
    expected = theirs(*map(np.asarray, CASES[i].parameters))
    expected = expected.astype(draws(i).dtype)
    np.testing.assert_allclose(draws(i), expected, rtol=0 if is_deep() else 1e-13)


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
    f = jaxprgen.compile(inputs, op(*inputs, **options))
    return f(KEY, *[np.asarray(p) for p in parameters])


def test_multivariate_normal():
    mean, cov = np.array([1.0, 2.0, 3.0]), np.array([[2.0, 0.5, 0], [0.5, 1, 0.1], [0, 0.1, 1.5]])
    drawn = draw(aer.multivariate_normal, mean, cov, size=(COUNT,))
    expected = jax.jit(
        lambda m, c: jax.random.multivariate_normal(OWN, m, c, (COUNT,), method="svd")
    )(mean, cov)
    assert_same(drawn, expected)
    white = np.linalg.solve(np.linalg.cholesky(cov), (np.asarray(drawn) - mean).T)
    assert all(stats.kstest(row, "norm").pvalue > ALARM for row in white)
    assert abs(np.corrcoef(white) - np.eye(3)).max() < 6 / np.sqrt(COUNT)


def test_multivariate_normal_of_a_singular_covariance():
    drawn = np.asarray(draw(aer.multivariate_normal, np.zeros(2), np.ones((2, 2)), size=(1000,)))
    assert np.isfinite(drawn).all()
    np.testing.assert_allclose(drawn[:, 0], drawn[:, 1], atol=1e-7)


def test_dirichlet():
    alphas = np.array([0.5, 2.0, 3.5])
    drawn = draw(aer.dirichlet, alphas, size=(COUNT,))
    expected = jax.jit(lambda a: jax.random.dirichlet(OWN, a, (COUNT,)))(alphas)
    assert_same(drawn, expected)
    for i, a in enumerate(alphas):
        law = stats.beta(a, alphas.sum() - a)
        assert stats.kstest(np.asarray(drawn)[:, i], law.cdf).pvalue > ALARM


def test_multinomial():
    p = np.array([0.2, 0.5, 0.3])
    drawn = np.asarray(draw(aer.multinomial, np.int64(20), p, size=(COUNT,)))
    assert drawn.dtype == np.int64
    assert (drawn.sum(1) == 20).all()
    for i in range(3):
        assert chi_square(drawn[:, i], stats.binom(20, p[i])) > ALARM
    covariance = np.cov(drawn.T)
    expected = 20 * (np.diag(p) - np.outer(p, p))
    assert abs(covariance - expected).max() < 15 / np.sqrt(COUNT)


def test_permutation():
    drawn = draw(aer.permutation, np.arange(10, 17))
    assert_same(drawn, jax.random.permutation(OWN, np.arange(10, 17)))
    rows = np.arange(12.0).reshape(4, 3)
    assert_same(draw(aer.permutation, rows), jax.random.permutation(OWN, rows))
    assert_same(draw(lambda: aer.permutation(np.int64(7))), jax.random.permutation(OWN, 7))
    many = jax.vmap(jaxprgen.compile([], aer.permutation(at.arange(3))))(
        jax.random.split(KEY, 6 * COUNT)
    )
    _, counts = np.unique(np.asarray(many), axis=0, return_counts=True)
    assert stats.chisquare(counts).pvalue > ALARM
    assert len(counts) == 6


def test_choice_without_replacement():
    a, p = np.array([1.0, 2, 4, 8]), np.array([0.1, 0.2, 0.3, 0.4])
    plain = draw(lambda x: aer.choice(x, size=(3,), replace=False), a)
    assert_same(plain, jax.random.choice(OWN, a, (3,), replace=False))
    weighted = draw(lambda x, w: aer.choice(x, size=(3,), replace=False, p=w), a, p)
    assert_same(weighted, jax.random.choice(OWN, a, (3,), replace=False, p=p))
    scalar = draw(lambda x: aer.choice(x), a)
    assert_same(scalar, jax.random.choice(OWN, a))
