"""Files that are damaged, of other versions or not those that are meant are refused by name."""

import copy
import hashlib
import json
import tracemalloc

import aesara.tensor as at
import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st
from profiles import examples

import jaxprgen
from jaxprgen.errors import SavedFileError
from jaxprgen.export.archive import Archive, write

X, b = at.dmatrix("X"), at.dvector("b")
DATA = np.arange(3000.0).reshape(3, 1000)
x, v = np.ones((2, 3)), np.arange(3.0)
f = jaxprgen.compile([X, b], at.exp(X).sum(1).sum() + (b @ at.as_tensor(DATA)).sum())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A good file."""
    path = tmp_path_factory.mktemp("saved") / "good.jxg"
    jaxprgen.save(path, f, "f64[n,3]", "f64[3]", executable={"n": 2})
    np.testing.assert_allclose(jaxprgen.load(path)(x, v), f(x, v))
    return path


def refused(path, message, **options):
    with pytest.raises(SavedFileError, match=message) as caught:
        jaxprgen.load(path, **options)
    first, remedy = str(caught.value).split("\n")  # Two lines, whatever the file holds.
    assert str(path) in first and remedy.endswith(".")
    assert str(caught.value).replace("\n", "").isprintable()


# --- The bytes of the file ----------------------------------------------------------------

WHOLE = "damaged, or is only part of a file"
BYTES = {
    "empty": (lambda c: b"", "cannot be read .it is empty"),
    "a byte": (lambda c: c[:1], "of another kind"),
    "text": (lambda c: b"import os\n" * 100, "of another kind"),
    "a zip": (lambda c: b"PK\3\4" + c, "of another kind"),
    "first line": (lambda c: c[: c.index(b"\n") + 1], WHOLE),
    "first half": (lambda c: c[: len(c) // 2], WHOLE),
    "without the last byte": (lambda c: c[:-1], WHOLE),
    "without the first byte": (lambda c: c[1:], "of another kind"),
    "with a further byte": (lambda c: c + b"\0", WHOLE),
    "twice": (lambda c: c + c, WHOLE),
    "of a later format": (lambda c: resealed(c.replace(b"format 2", b"format 33", 1)), "format is"),
    "of a hostile format": (
        lambda c: resealed(c.replace(b"format 2", b"format \x1b[2J", 1)),
        r"format is \\x1b\[2J, and this jaxprgen reads format 2",
    ),
    "without a description": (
        lambda c: resealed(c[: c.index(b"\n") + 1] + bytes(32)),
        "cannot use what it describes",
    ),
}


def resealed(content):
    """The content with a checksum that fits."""
    return content[:-32] + hashlib.sha256(content[:-32]).digest()


@pytest.mark.parametrize("name", BYTES)
def test_damaged_bytes(saved, name, tmp_path):
    change, message = BYTES[name]
    path, content = tmp_path / "bad.jxg", saved.read_bytes()
    path.write_bytes(change(content))
    tracemalloc.start()
    refused(path, message)
    assert tracemalloc.get_traced_memory()[1] < 10 * len(content)
    tracemalloc.stop()


@examples(50, quick=10)
@given(data=st.data())
def test_every_bit_is_checked(saved, data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "flipped.jxg"
    changed = bytearray(saved.read_bytes())
    for place in data.draw(st.sets(st.integers(0, 8 * len(changed) - 1), min_size=1, max_size=9)):
        changed[place // 8] ^= 1 << place % 8
    path.write_bytes(changed)
    refused(path, "damaged|of another kind")


def test_only_regular_files_are_read(tmp_path):
    with pytest.raises(SavedFileError, match="There is no file"):
        jaxprgen.load(tmp_path / "none.jxg")
    for path in ("", "a\0b", tmp_path / ("a" * 300), tmp_path / "n\n\x1b[2J"):
        with pytest.raises(SavedFileError) as caught:
            jaxprgen.load(path)
        assert str(caught.value).replace("\n", "", 1).isprintable()
    for path in (tmp_path, "/dev/null", "/dev/zero"):
        refused(path, "cannot be read .it is not a regular file")


# --- The file that is meant ---------------------------------------------------------------


def test_another_file_than_the_one_that_is_meant_is_not_interpreted(saved, tmp_path, monkeypatch):
    own = jaxprgen.save(tmp_path / "other.jxg", f, "f64[n,3]", "f64[3]")
    assert jaxprgen.load(tmp_path / "other.jxg", sha256=own.upper()).sha256 == own
    wanted = jaxprgen.load(saved).sha256
    assert own != wanted
    monkeypatch.setattr(json, "loads", lambda _: pytest.fail("it was interpreted"))
    refused(tmp_path / "other.jxg", f"its SHA-256 is {own}, not {wanted}", sha256=wanted)
    refused(saved, rf"its SHA-256 is {wanted}, not evil\\x1b\[2J", sha256="evil\x1b[2J")
    refused(saved, "its SHA-256 is", sha256="")


# --- What the file says -------------------------------------------------------------------


def places(node, path=()):
    """All places in a description."""
    yield path
    pairs = (
        node.items() if isinstance(node, dict) else enumerate(node if type(node) is list else ())
    )
    for key, inner in pairs:
        yield from places(inner, (*path, key))


def rewritten(saved, path, change):
    """Write a file whose description is changed, with a checksum that fits."""
    archive = Archive(saved)
    manifest = copy.deepcopy(archive.manifest)
    members = {name: bytes(archive.member(name)) for name in manifest.pop("members")}
    manifest = change(manifest) or manifest
    write(path, manifest, members)


def at_place(manifest, place, value):
    for key in place[:-1]:
        manifest = manifest[key]
    manifest[place[-1]] = value


HOSTILE = (
    None,
    -1,
    10**30,
    1.5,
    "",
    "\ud800\x1b]0;t\x07\u202e\n",
    "__dict__",
    [],
    [[]],
    {},
    {"a": 1},
)


@examples(60, quick=6)
@given(data=st.data())
def test_other_descriptions_are_refused_or_shown_harmless(saved, data, tmp_path_factory):
    """With a checksum that fits, any description loads and can be shown, or is refused by name."""
    path = tmp_path_factory.getbasetemp() / "described.jxg"
    there = [place for place in places(Archive(saved).manifest) if place and place[0] != "members"]
    place, value = data.draw(st.sampled_from(there)), data.draw(st.sampled_from(HOSTILE))
    rewritten(saved, path, lambda manifest: at_place(manifest, place, value))
    for trusted in (False, True):
        try:
            loaded = jaxprgen.load(path, trust_executable=trusted)
        except SavedFileError as error:
            assert str(error).replace("\n", "", 1).isprintable()
        else:
            assert repr(loaded).isprintable() and loaded.about


MANIFESTS = {
    "of a later convention": (
        ["programs", 0, "calling_convention_version"],
        10**6,
        "its calling convention is 1000000, not one of",
    ),
    "of an unknown dtype": (["programs", 0, "arguments", 0, "dtype"], "evil", "'evil'"),
    "of no sizes": (["programs", 0, "arguments", 0, "sizes"], "n!", "are no sizes"),
    "without programs": (["programs"], [], "IndexError"),
    "of no pytree": (["results"], {"set": ["leaf"]}, "KeyError: 'set'"),
    "of impossible constraints": (["constraints"], ["n >= 2", "n <= 1", "m"], "constraints"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_cause_is_said(saved, name, tmp_path):
    place, value, message = MANIFESTS[name]
    rewritten(saved, tmp_path / "bad.jxg", lambda manifest: at_place(manifest, place, value))
    refused(tmp_path / "bad.jxg", f"JAX {jax.__version__} cannot use what it describes.*{message}")


def test_stablehlo_that_this_jax_cannot_read(saved, tmp_path):
    archive = Archive(saved)
    members = {"program_0": b"evil" * 100, "data_0": DATA}
    write(tmp_path / "bad.jxg", archive.manifest, members)
    refused(tmp_path / "bad.jxg", "cannot use what it describes")
