"""An array that is cut at a traced place and joined again, as in `roll`, needs no static size."""

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from laws import assert_same, equations, inputs_among, reference
from looping import scan

import jaxprgen
from jaxprgen.errors import StaticShapeError

x, X, n = at.dvector("x"), at.dmatrix("X"), at.lscalar("n")
i, b = at.lvector("i"), at.bvector("b")
A, M = np.arange(5.0) ** 2, np.arange(12.0).reshape(3, 4)

JOINED = {
    "a vector": at.roll(x, n),
    "columns": at.roll(X, n, axis=-1),
    "all elements": at.roll(X, 2 * n + 1),
    "the end before the start": at.concatenate([x[n - 1 :], x[0 : n - 1]]),
    "the start before the end": at.concatenate([X[:n], X[n:]]),
    "places that are equal as sums": at.concatenate([x[1 - n :], x[: -n + 1]]),
    "in a loop": scan(lambda k, v, n: at.roll(v, k * n) * 2, at.arange(4), x, n),
}


def value(v):
    return {x: A, X: M}[v]


@pytest.mark.parametrize("name", JOINED)
def test_one_program_serves_all_places(name):
    out = JOINED[name]
    (array,) = inputs_among([x, X], out)
    f = jaxprgen.compile([array, n], out)
    places = np.arange(-9, 10)
    theirs = [reference([array, n], [out], [value(array), k])[0] for k in places]
    for k, expected in zip(places, theirs, strict=True):
        assert_same(f(value(array), k), expected, where=f"at {k}")
    assert f.cache_info().currsize == 1
    assert_same(jax.jit(jax.vmap(f, (None, 0)))(value(array), places), np.stack(theirs))


@pytest.mark.parametrize("name", JOINED)
def test_derivatives(name):
    out = JOINED[name]
    (array,) = inputs_among([x, X], out)
    f = jax.jit(jaxprgen.compile([array, n], (out**2).sum()))
    slope = aesara.grad((out**2).sum(), array)
    for k in (-2, 0, 3):
        (theirs,) = reference([array, n], [slope], [value(array), k])
        assert_same(jax.grad(f)(value(array), k), theirs)


def test_nothing_is_computed_for_an_array_as_it_was():
    f = jaxprgen.compile([X, n], at.concatenate([X[:n], X[n:]]))
    assert equations(f, M, 2) == []
    empty = jaxprgen.compile([x, n], at.roll(x, n))
    assert_same(empty(A[:0], 3), A[:0])


OTHERS = {
    "one part": x[n:],
    "another place": at.concatenate([x[n:], x[: n + 1]]),
    "another array": at.concatenate([x[n:], (2 * x)[:n]]),
    "another axis": at.concatenate([X[n:], X[:, :n].T]),
    "more parts": at.concatenate([x[n:], x[:n], x[n:]]),
    "a step": at.concatenate([x[n::2], x[:n]]),
    "a place that may wrap around": at.concatenate([x[b[0] + 1 :], x[: b[0] + 1]]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_parts_have_static_sizes(name):
    out = OTHERS[name]
    known = inputs_among([x, X, n, b], out)
    args = [{x: A, X: M[:, :3], n: np.int64(2), b: np.ones(1, "int8")}[v] for v in known]
    f = jaxprgen.compile(known, out)
    assert_same(f(*args), reference(known, [out], args)[0])
    with pytest.raises(StaticShapeError, match=r"in Subtensor\{"):
        jax.jit(f)(*args)
