"""XLA's executables in saved files are used where they fit, and only if the file is trusted."""

import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.tensor.slinalg import Cholesky

import jaxprgen
from jaxprgen import _jax
from jaxprgen.errors import ArgumentTypeError

X = at.dmatrix("X")
DATA = np.eye(60)  # More than a constant of StableHLO may have.
square = X.T @ X + at.as_tensor(DATA)[:2, :2]
f = jaxprgen.compile([X], [Cholesky(on_error="nan")(square), at.exp(X)])
x = np.arange(6.0).reshape(3, 2)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "f.jxg"
    jaxprgen.save(path, f, "f64[n,2]", executable=[{"n": 3}, {"n": 4}])
    return path


def assert_right(loaded, x):
    for ours, original in zip(loaded(x), f(x), strict=True):
        assert isinstance(ours, jax.Array) and ours.dtype == original.dtype
        np.testing.assert_allclose(ours, original, rtol=1e-12)


def test_an_executable_is_used_where_it_fits(path, monkeypatch, caplog):
    loaded = jaxprgen.load(path, trust_executable=True)
    jitted = loaded._jitted
    monkeypatch.setattr(loaded, "_jitted", None)  # Nothing is compiled.
    assert_right(loaded, x)
    assert_right(loaded, np.concatenate([x, x[:1]]))
    assert_right(loaded, jax.numpy.asarray(x))
    monkeypatch.setattr(loaded, "_jitted", jitted)
    assert_right(loaded, x[:2])
    np.testing.assert_allclose(jax.jit(loaded)(x)[1], np.exp(x))
    np.testing.assert_allclose(jax.vmap(loaded)(x[None])[1], np.exp(x)[None])
    assert caplog.records == []


def test_an_executable_of_another_machine_is_compiled_anew(path, monkeypatch, caplog):
    own = _jax.machine()
    monkeypatch.setattr(_jax, "machine", lambda: {**own, "jaxlib": "99.0"})
    assert_right(jaxprgen.load(path, trust_executable=True), x)
    assert "compiled anew: it was made for jaxlib" in caplog.text
    assert "instead of '99.0'" in caplog.text


def test_an_executable_is_not_touched_unless_it_is_trusted(path, monkeypatch):
    monkeypatch.setattr(_jax, "executable_of", None)
    assert_right(jaxprgen.load(path), x)


def test_an_executable_needs_sizes(tmp_path):
    with pytest.raises(ArgumentTypeError, match=r"as in executable=\{'n': 100\}"):
        jaxprgen.save(tmp_path / "f.jxg", f, "f64[n,2]", executable=True)
    jaxprgen.save(tmp_path / "f.jxg", f, "f64[3,2]", executable=True)
    assert_right(jaxprgen.load(tmp_path / "f.jxg", trust_executable=True), x)
