"""Sparse matrices of random counts."""

import aesara
import aesara.sparse as sparse
import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.sparse
from aesara.sparse.basic import dense_from_sparse
from aesara.sparse.sandbox import sp2
from jax.experimental.sparse import BCSR
from laws import refusal

import jaxprgen
from jaxprgen import errors

X = sparse.csr_matrix("X")
RATES = scipy.sparse.csr_matrix([[3.0, 0, 1], [0, 0, 0], [0, 0.5, 2]])
CHANCES = scipy.sparse.csr_matrix([[0.25, 0, 0.75], [0, 1, 0], [0.5, 0.5, 0]])
COUNT = 2_000


def means(output, *args):
    """Return the mean of many draws, and draws of two keys."""
    inputs = [X] if args else []
    f = jaxprgen.compile(inputs, dense_from_sparse(output))
    args = [BCSR.from_scipy_sparse(x) for x in args]
    draws = jax.vmap(lambda key: f(key, *args))(jax.random.split(jax.random.key(0), COUNT))
    assert np.array_equal(draws, np.round(draws))
    return np.asarray(draws).mean(0)


def test_poisson():
    np.testing.assert_allclose(means(sp2.poisson(X), RATES), RATES.toarray(), atol=0.2)
    twice = sp2.poisson(sp2.poisson(X))
    np.testing.assert_allclose(means(twice, RATES), RATES.toarray(), atol=0.3)


def test_binomial():
    drawn = sp2.csr_dbinomial(at.constant(4), at.constant(0.25), at.constant([3, 2]))
    np.testing.assert_allclose(means(drawn), np.ones((3, 2)), atol=0.1)
    shape = at.lvector("shape")
    drawn = sp2.csc_dbinomial(at.constant(4), at.constant(0.25), shape)
    f = jaxprgen.compile([shape], dense_from_sparse(drawn))
    assert f(jax.random.key(0), np.array([2, 5])).shape == (2, 5)


@pytest.mark.parametrize("n", [4, np.array([4, 2, 6])])
def test_multinomial(n):
    drawn = sp2.multinomial(at.constant(n), X)
    wanted = CHANCES.toarray() * np.reshape(n, (-1, 1))
    np.testing.assert_allclose(means(drawn, CHANCES), wanted, atol=0.2)


def by_mode(inputs, output):
    return aesara.function(inputs, output, mode="JAXPR")


@pytest.mark.parametrize("make", [by_mode, jaxprgen.function])
def test_functions_draw_from_the_global_generator_of_numpy(make):
    """As in Aesara, NumPy's seed decides the draws, and each call advances the generator."""
    f = make([X], dense_from_sparse(sp2.poisson(X) + sp2.poisson(X)))
    np.random.seed(0)
    first, second = ([np.asarray(f(RATES)) for _ in range(400)] for _ in range(2))
    np.testing.assert_allclose(np.mean(first, 0), 2 * RATES.toarray(), atol=0.5)
    assert not np.array_equal(first, second)
    np.random.seed(0)
    np.testing.assert_array_equal([np.asarray(f(RATES)) for _ in range(3)], first[:3])


def test_what_draws_from_it_is_not_for_transformations():
    f = jaxprgen.function([X], dense_from_sparse(sp2.poisson(X)))
    for call in (jax.jit(f), lambda x: f.pure({}, x)):
        assert refusal(errors.StateError, call, BCSR.from_scipy_sparse(RATES)) == [
            "main draws from NumPy's global generator, which JAX cannot transform.",
            "Draw from a generator of aesara.tensor.random, or compile the graph by "
            "jaxprgen.compile, which takes a key.",
        ]
