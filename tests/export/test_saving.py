"""A function that is saved and loaded is the function that was saved."""

import gc
import hashlib
import os
import signal
import stat
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest

import jaxprgen
from jaxprgen.errors import (
    ArgumentCountError,
    ArgumentShapeError,
    ArgumentTypeError,
    ExportError,
    ReverseModeError,
    UnknownNameError,
)
from jaxprgen.export import loaded as loaded_functions
from jaxprgen.export.archive import Archive, write

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
X, b = at.dmatrix("X"), at.dvector("b")
LARGE = np.arange(3000.0).reshape(3, 1000)  # More than a constant of StableHLO may have.
SHARED = aesara.shared(np.array([1.0, 2.0, 3.0]), name="weights")
OUTPUTS = {
    "mean": at.exp(X) @ (b * SHARED),
    "parts": [(b @ at.as_tensor(LARGE)).sum(), (X > 0.5).sum()],
}
f = jaxprgen.compile([X, b], OUTPUTS, name="model")
x, v = np.linspace(0, 1, 6).reshape(2, 3), np.array([0.5, -1.0, 2.0])
xs, vs = np.stack([x, x + 1, x * 2]), np.stack([v, v - 1, 3 * v])


@pytest.fixture(scope="module")
def g(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.jxg"
    jaxprgen.save(path, f, "f64[n,3]", b="f64[3]", vjp_order=2, batched=["X", "b"])
    return jaxprgen.load(path)


def assert_close(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12)


def loss(h):
    return lambda x, v: h(x, v)["mean"].sum() ** 2


TRANSFORMED = {
    "called": (lambda h: h, (x, v)),
    "another size": (lambda h: h, (xs.reshape(6, 3), v)),
    "by name": (lambda h: lambda x, v: h(b=v, X=x), (x, v)),
    "jit": (jax.jit, (x, v)),
    "vmap": (jax.vmap, (xs, vs)),
    "vmap over one": (lambda h: jax.vmap(h, (0, None)), (xs, v)),
    "vmap twice": (lambda h: jax.vmap(jax.vmap(h)), (xs[None], vs[None])),
    "vmap of axis 1": (lambda h: jax.vmap(h, (1, 0)), (xs.swapaxes(0, 1), vs)),
    "grad": (lambda h: jax.grad(loss(h), (0, 1)), (x, v)),
    "jit of grad": (lambda h: jax.jit(jax.grad(loss(h), 1)), (x, v)),
    "vmap of grad": (lambda h: jax.vmap(jax.grad(loss(h), (0, 1))), (xs, vs)),
    "vmap of grad over one": (lambda h: jax.vmap(jax.grad(loss(h), (0, 1)), (0, None)), (xs, v)),
    "grad of vmap": (
        lambda h: jax.grad(lambda x, v: jax.vmap(h, (0, None))(x, v)["mean"].sum() ** 2, (0, 1)),
        (xs, v),
    ),
    "second derivative": (lambda h: jax.jacrev(jax.jacrev(loss(h), 1), 1), (x, v)),
}


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.SharedValueWarning")  # Of the original.
@pytest.mark.parametrize("name", TRANSFORMED)
def test_loaded_is_saved(g, name):
    transform, args = TRANSFORMED[name]
    assert_close(transform(g)(*args), transform(f)(*args))


def test_it_describes_itself(g):
    assert repr(g) == (
        "<loaded function model(X: float64[n,3], b: float64[3]) -> "
        "{'mean': float64[n], 'parts': [float64[], int64[]]}>"
    )
    assert str(g.__signature__) == "(X, b)"
    assert [i.name for i in g.inputs] == ["X", "b"]
    assert sorted(g.data) == ["constant_0", "weights"]
    np.testing.assert_array_equal(g.data["constant_0"], LARGE)
    assert not g.data["constant_0"].flags.writeable
    text = g.as_text()
    assert "stablehlo.exponential" in text and "3000" not in text
    assert "tensor<?x3xf64>" in text


@pytest.mark.parametrize(
    ("args", "named", "error", "message"),
    [
        ((x,), {}, ArgumentCountError, "takes 2 arguments, but 1 was"),
        ((x, v, v), {}, ArgumentCountError, "takes 2 arguments, but 3 were"),
        ((x, v), {"c": 1}, ArgumentCountError, "no input named 'c'"),
        ((x,), {"X": x}, ArgumentCountError, "two values for input 'X'"),
        ((x, v * 1j), {}, ArgumentTypeError, "'b' has dtype float64"),
        ((v, v), {}, ArgumentShapeError, "'X' has 2 dimensions"),
        ((x, v[:2]), {}, ArgumentShapeError, "'b' must have size 3 along axis 0"),
        ((x[:0], v), {}, ArgumentShapeError, "n is 0, from input 'X' along axis 0"),
    ],
)
def test_wrong_arguments_are_refused_as_before(g, args, named, error, message):
    with pytest.raises(error, match=message):
        g(*args, **named)
    with pytest.raises(error, match=message):
        jax.jit(g)(*args, **named)


def test_sizes_that_belong_together_are_compared(tmp_path):
    h = jaxprgen.compile([X, b], X @ b)
    path = tmp_path / "h.jxg"
    jaxprgen.save(path, h, "f64[n,k]", "f64[k]", constraints=["n >= k"])
    h = jaxprgen.load(path)
    assert h.constraints == ("n >= k",)
    assert_close(h(np.ones((5, 4)), np.ones(4)), np.full(5, 4.0))
    with pytest.raises(ArgumentShapeError, match=r"'b' must have size 4 \(k\).*\nk is 4, from"):
        h(np.ones((5, 4)), np.ones(5))
    with pytest.raises(ArgumentShapeError, match="for n >= k, which does not hold: n is 3"):
        h(np.ones((3, 4)), np.ones(4))


def test_arguments_are_converted_as_before(tmp_path):
    h = jaxprgen.compile([X, b], X @ b)
    jaxprgen.save(tmp_path / "h.jxg", h, "f64[n,k]", "f64[k]")
    h = jaxprgen.load(tmp_path / "h.jxg")
    for ones in (np.ones(4, "float32"), jax.numpy.ones(4, "int32")):
        assert_close(h(np.ones((5, 4)), ones), np.full(5, 4.0))


@pytest.mark.parametrize("key", [jax.random.key(3), jax.random.PRNGKey(3)], ids=["typed", "legacy"])
@pytest.mark.parametrize("spec", ["key[]", "u32[2]"])
def test_draws_are_the_same(tmp_path, spec, key):
    draws = at.random.RandomStream(1).normal(size=(3,)) + b
    h = jaxprgen.compile([b], draws)
    jaxprgen.save(tmp_path / "h.jxg", h, spec, "f64[3]", batched=["key", "b"], vjp_order=1)
    loaded = jaxprgen.load(tmp_path / "h.jxg")
    assert_close(loaded(key, v), h(key, v))
    keys = jax.random.split(key, 3)
    assert_close(jax.vmap(loaded)(keys, vs), jax.vmap(h)(keys, vs))
    assert_close(jax.grad(lambda v: loaded(key, v)[0] ** 2)(v)[1:], np.zeros(2))


def test_a_value_that_decides_a_shape_is_fixed(tmp_path):
    n = at.lscalar("n")
    h = jaxprgen.compile([n, b], at.arange(n) * b.sum())
    jaxprgen.save(tmp_path / "h.jxg", h, 4, "f64[k]")
    loaded = jaxprgen.load(tmp_path / "h.jxg")
    assert_close(loaded(v), h(4, v))
    with pytest.raises(ArgumentCountError, match="takes no 'n': its value decides a shape"):
        loaded(v, n=4)


def test_a_mask_that_decides_a_size_is_fixed(tmp_path):
    mask = at.vector("mask", dtype="bool")
    h = jaxprgen.compile([b, mask], b[mask])
    jaxprgen.save(tmp_path / "h.jxg", h, "f64[3]", np.array([True, False, True]))
    loaded = jaxprgen.load(tmp_path / "h.jxg")
    assert_close(loaded(v), v[[0, 2]])


@pytest.mark.parametrize("outputs", [b, [b], (b, b), {"a": {"b": (b, [b])}}], ids=str)
def test_outputs_keep_their_arrangement(tmp_path, outputs):
    h = jaxprgen.compile([b], outputs)
    jaxprgen.save(tmp_path / "h.jxg", h, "f64[n]")
    assert_close(jaxprgen.load(tmp_path / "h.jxg")(v), h(v))


def test_without_a_derivative_the_error_says_how_to_save_it(tmp_path):
    h = jaxprgen.compile([b], b.sum())
    jaxprgen.save(tmp_path / "h.jxg", h, "f64[n]")
    with pytest.raises(ReverseModeError, match="larger vjp_order"):
        jax.grad(jaxprgen.load(tmp_path / "h.jxg"))(v)


@pytest.mark.parametrize(
    ("graph", "specs", "options", "error", "message"),
    [
        (([b], b), ["f64[n]"], {"batched": ["c"]}, UnknownNameError, "no input 'c'; there are b"),
        (([b], b), ["f64[n]"], {"vjp_order": -1}, ExportError, "must be an integer >= 0"),
        (([b], b > 0), ["f64[n]"], {"vjp_order": 1}, ExportError, "has no derivative"),
        (([b], b), ["f64[n"], {}, ArgumentTypeError, "is not a type such as"),
        (([b], b), ["f65[n]"], {}, ArgumentTypeError, "f65 is not a dtype"),
        (([b], b), ["f64[n!]"], {}, ArgumentTypeError, "are no sizes"),
        (([b], b), ["f64[n,k]"], {}, ArgumentShapeError, "'b' has 1 dimension"),
        (([b], b), ["f64[n]"], {"constraints": ["n > 2"]}, ArgumentTypeError, "'n > 2'"),
        (([b], b), [], {}, ArgumentCountError, "takes 1 argument, but 0 were"),
    ],
)
def test_what_cannot_be_saved_is_said(tmp_path, graph, specs, options, error, message):
    with pytest.raises(error, match=message):
        jaxprgen.save(tmp_path / "h.jxg", jaxprgen.compile(*graph), *specs, **options)
    assert list(tmp_path.iterdir()) == []


def test_only_compiled_functions_can_be_saved(tmp_path):
    with pytest.raises(ArgumentTypeError, match="takes a compiled function, got function"):
        jaxprgen.save(tmp_path / "h.jxg", lambda x: x, "f64[n]")


def test_a_stateful_function_is_saved_with_its_state_as_arguments(tmp_path):
    count = aesara.shared(np.array(2.0), name="count")
    h = jaxprgen.function([b], count * b, updates=[(count, count + 1)])
    with pytest.raises(ArgumentTypeError, match="Save its attribute `compiled`, which takes the"):
        jaxprgen.save(tmp_path / "h.jxg", h, "f64[n]")
    jaxprgen.save(tmp_path / "h.jxg", h.compiled, "f64[]", "f64[n]")
    outputs, new = jaxprgen.load(tmp_path / "h.jxg")(count=5.0, b=v)
    assert_close(outputs, 5 * v)
    assert new == 6


def test_equal_functions_give_equal_files(tmp_path):
    for name in "ab":
        jaxprgen.save(tmp_path / name, jaxprgen.compile([X, b], OUTPUTS), "f64[n,3]", "f64[3]")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def hidden(folder):
    return [each.name for each in folder.iterdir() if each.name.startswith(".")]


def test_savers_in_threads_remove_nothing_of_each_other(tmp_path):
    """Threads, and containers in which each process has the same number, write side by side."""
    path = tmp_path / "model.jxg"
    jaxprgen.save(path, f, "f64[n,3]", "f64[3]")
    members = {"data_0": LARGE}
    with ThreadPoolExecutor(4) as pool:
        written = [pool.submit(write, path, {"number": i}, members) for i in range(100)]
        read = [pool.submit(lambda: Archive(path).manifest) for _ in range(100)]
    assert Archive(path).sha256 in {each.result() for each in written}
    assert all("members" in each.result() for each in read)
    assert [each.name for each in tmp_path.iterdir()] == ["model.jxg"]


@pytest.mark.parametrize("is_named", [False, True], ids=["without a name", "with a name"])
@pytest.mark.parametrize("step", ["write", "chmod", "fsync", "replace"])
def test_a_save_that_fails_leaves_what_was_there(tmp_path, monkeypatch, step, is_named):
    if is_named:  # As where the system has no files without a name.
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path = tmp_path / "model.jxg"
    write(path, {}, {"data_0": LARGE})
    before = path.read_bytes()

    def fails(*_, **__):
        raise OSError(28, "No space left on device")

    if step == "write":
        fails = None
        resource = pytest.importorskip("resource")  # As a disk that is full: no file may grow.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    else:
        monkeypatch.setattr(os, step, fails)
    try:
        with pytest.raises(ExportError, match=r"model\.jxg cannot be written: (No space|File too)"):
            write(path, {}, {"data_0": LARGE})
    finally:
        if step == "write":
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert [each.name for each in tmp_path.iterdir()] == ["model.jxg"]
    assert path.read_bytes() == before


KILLED = """\
import os, signal, sys
from jaxprgen.export.archive import write

os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
write(sys.argv[1], {}, {"data_0": bytes(100_000)})
"""


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="the system names every file")
def test_a_saver_that_is_killed_leaves_nothing(tmp_path):
    write(tmp_path / "f", {}, {})
    before = (tmp_path / "f").read_bytes()
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "f")], env=ENVIRONMENT)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "f").read_bytes() == before
    assert not hidden(tmp_path)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o444])
def test_a_file_that_is_replaced_keeps_its_mode_and_its_links(tmp_path, mode):
    path, link = tmp_path / "folder" / "model.jxg", tmp_path / "link.jxg"
    path.parent.mkdir()
    link.symlink_to(path)
    write(link, {}, {})  # A link to a file that does not exist yet.
    path.chmod(mode)
    sha256 = write(link, {"a": 1}, {})
    assert link.is_symlink() and Archive(link).sha256 == Archive(path).sha256 == sha256
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "path", ["", ".", "/", "/dev/null", "a\0b", "n" * 256, "no/such", "\x1b[2J/x"]
)
def test_where_nothing_can_be_written_the_error_says_so(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExportError, match=" cannot be written: ") as caught:
        write(path, {}, {})
    assert str(caught.value).isprintable()
    assert not list(tmp_path.iterdir()) and stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_any_name_that_the_file_system_takes_can_be_written(tmp_path):
    for name in ("a", "n" * 255, "é\n"):
        assert write(tmp_path / name, {}, {}) == Archive(tmp_path / name).sha256
    assert not hidden(tmp_path)


@pytest.mark.parametrize("size", [0, 100, None])
def test_what_becomes_of_a_file_after_it_is_loaded_does_not_matter(tmp_path, size):
    path = tmp_path / "model.jxg"
    jaxprgen.save(path, f, "f64[n,3]", "f64[3]")
    loaded, content = jaxprgen.load(path), path.read_bytes()
    before = {name: np.array(x) for name, x in loaded.data.items()}
    with open(path, "r+b") as file:  # As `cp` does: the same file gets other content.
        file.write(bytes(len(content)))
        if size is not None:
            file.truncate(size)
    for name, value in loaded.data.items():
        np.testing.assert_array_equal(value, before[name])
        assert not value.flags.writeable
    assert_close(loaded(x, v), f(x, v))


def test_a_loaded_function_keeps_a_bounded_number_of_programs(tmp_path, monkeypatch):
    gc.collect(1)  # Of young objects: of all, it would take seconds.
    monkeypatch.setattr(loaded_functions, "MOST_PROGRAMS", 3)
    jaxprgen.save(tmp_path / "h.jxg", jaxprgen.compile([b], b * 2), "f64[n]")
    h = jaxprgen.load(tmp_path / "h.jxg")
    first = weakref.ref(h._jitted)
    for size in (1, 2, 3, 2, 1):
        assert_close(h(np.ones(size)), np.full(size, 2.0))
    assert h._jitted is first()
    assert_close(h(np.ones(4)), np.full(4, 2.0))
    gc.collect(1)
    assert first() is None
    second = weakref.ref(h._jitted)
    h.cache_clear()
    gc.collect(1)
    assert second() is None
    assert_close(h(np.ones(1)), np.full(1, 2.0))
