"""Graphs with named dimensions."""

import jax
import numpy as np
import pytest

import jaxprgen

pytensor = pytest.importorskip("pytensor")
pytest.importorskip("pytensor.xtensor")
from pytensor.xtensor import xtensor  # noqa: E402
from pytensor.xtensor.type import as_xtensor  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:xtensor:UserWarning")
X, Y = np.arange(6.0).reshape(2, 3), np.arange(3.0) + 1


def graph():
    x = xtensor("x", dims=("city", "year"), shape=(None, 3))
    y = xtensor("y", dims=("year",), shape=(3,))
    return x, y, (x * y).sum("year") - (y - x).transpose("year", "city").isel(year=1)


WANTED = (X * Y).sum(1) - (Y - X)[:, 1]


def test_a_graph_compiles_and_stays_as_it_was():
    x, y, z = graph()
    before = pytensor.dprint(z, file="str")
    f = jaxprgen.compile([x, y], z)
    np.testing.assert_allclose(f(X, Y), WANTED)
    np.testing.assert_allclose(f(x=X, y=Y), WANTED)
    assert pytensor.dprint(z, file="str") == before
    assert jaxprgen.check([x, y], z).compiles


def test_arrays_of_other_values_join_in():
    x, y, z = graph()
    shared = pytensor.shared(2.0, name="scale")
    total = (z * as_xtensor(shared)).values.sum()
    f = jaxprgen.compile([x, y], total)
    slopes = jax.grad(f)(X, Y)
    wanted = np.tile(Y, (2, 1))
    wanted[:, 1] += 1
    np.testing.assert_allclose(slopes, 2 * wanted)
    np.testing.assert_allclose(jaxprgen.function([x, y], total)(X, Y), 2 * WANTED.sum())


def test_an_input_may_be_the_result_of_nodes():
    x, y, _ = graph()
    inner = x + 1
    f = jaxprgen.compile([inner, y], (inner * y).sum("year"))
    np.testing.assert_allclose(f(X, Y), X @ Y)
