"""Files that are damaged, of other versions or hostile are refused, and do nothing else."""

import copy
import io
import json
import struct
import tracemalloc
import zipfile

import aesara.tensor as at
import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

import jaxprgen
from jaxprgen.errors import SavedFileError
from jaxprgen.export.archive import write

X, b = at.dmatrix("X"), at.dvector("b")
DATA = np.arange(3000.0).reshape(3, 1000)
x, v = np.ones((2, 3)), np.arange(3.0)
f = jaxprgen.compile([X, b], at.exp(X).sum(1).sum() + (b @ at.as_tensor(DATA)).sum())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A good file."""
    path = tmp_path_factory.mktemp("saved") / "good.jxg"
    jaxprgen.save(path, f, "f64[n,3]", "f64[3]")
    np.testing.assert_allclose(jaxprgen.load(path)(x, v), f(x, v))
    return path.read_bytes()


def opened(content):
    """The members of a file, and its manifest as `write` takes it."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    del manifest["members"]
    return manifest, members


def archived(path, entries, **options):
    """A zip of these entries, whatever they are called."""
    with zipfile.ZipFile(path, "w", **options) as file:
        for name, content in entries:
            file.writestr(name, content)


def refused(path, message):
    with pytest.raises(SavedFileError, match=message) as caught:
        jaxprgen.load(path)
    assert str(path) in str(caught.value)
    assert "\n" in str(caught.value)  # The remedy.


# --- The bytes of the file ----------------------------------------------------------------


def flipped(content, part):
    """The content with one bit changed where a part of it begins."""
    changed = bytearray(content)
    changed[content.index(part) + 1] ^= 4
    return bytes(changed)


def with_field(content, signature, offset, kind, value):
    """The content with a field of the last header of that kind changed."""
    changed = bytearray(content)
    struct.pack_into(kind, changed, content.rindex(signature) + offset, value)
    return bytes(changed)


CENTRAL, LOCAL, END = b"PK\1\2", b"PK\3\4", b"PK\5\6"
BYTES = {
    "empty": (lambda c: b"", "cannot be read"),
    "text": (lambda c: b"import os\n" * 100, "not a zip file"),
    "first half": (lambda c: c[: len(c) // 2], "not a zip file"),
    "without the last bytes": (lambda c: c[:-10], "not a zip file"),
    "without the first bytes": (
        lambda c: c[10:],
        "not where it should be|not a zip|overlaps|lacks",
    ),
    "a bit of the program": (lambda c: flipped(c, b"ML\xefR"), "checksum of program_0.mlir"),
    "a bit of the data": (lambda c: flipped(c, DATA.tobytes()[8000:]), "checksum of data_0.npy"),
    "a bit of the manifest": (lambda c: flipped(c, b'"name": "main"'), "checksum of manifest.json"),
    "a huge member": (
        lambda c: with_field(
            with_field(c, CENTRAL, 20, "<I", 0xFFFFFFF0), CENTRAL, 24, "<I", 0xFFFFFFF0
        ),
        "declares 4294967280 bytes",
    ),
    "a member of other sizes": (lambda c: with_field(c, CENTRAL, 24, "<I", 7), "declares 7 bytes"),
    "a member that is elsewhere": (
        lambda c: with_field(c, CENTRAL, 42, "<I", 5),
        "not where it should be|overlaps",
    ),
    "members on each other": (lambda c: with_field(c, CENTRAL, 42, "<I", 0), "overlaps|checksum"),
    "an encrypted member": (lambda c: with_field(c, CENTRAL, 8, "<H", 1), "compressed or encrypt"),
    "a huge directory": (lambda c: with_field(c, END, 12, "<I", 0xFFFFFFF0), "not a zip file"),
}


@pytest.mark.parametrize("name", BYTES)
def test_damaged_bytes(saved, name, tmp_path):
    change, message = BYTES[name]
    path = tmp_path / "bad.jxg"
    path.write_bytes(change(saved))
    tracemalloc.start()
    refused(path, message)
    assert tracemalloc.get_traced_memory()[1] < 10 * len(saved)
    tracemalloc.stop()


@examples(10)
@given(data=st.data())
def test_any_bit_is_checked_or_does_not_matter(saved, data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "flipped.jxg"
    place = data.draw(st.integers(0, 8 * len(saved) - 1))
    changed = bytearray(saved)
    changed[place // 8] ^= 1 << place % 8
    path.write_bytes(changed)
    try:
        loaded = jaxprgen.load(path)
    except SavedFileError:
        return
    # Of the zip's dates and the like.
    assert repr(loaded) == "<loaded function main(X: float64[n,3], b: float64[3]) -> float64[]>"
    np.testing.assert_array_equal(loaded.data["constant_0"], DATA)


# --- The members --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../evil.npy", "/tmp/evil.npy", "a/b.npy", "..", "C:\\x", "é"])
def test_names_of_members_are_plain(saved, name, tmp_path):
    manifest, members = opened(saved)
    entries = [*members.items(), ("manifest.json", json.dumps(manifest)), (name, b"evil")]
    path = tmp_path / "in" / "bad.jxg"
    path.parent.mkdir()
    archived(path, entries)
    refused(path, "unsuitable name")
    assert [p.name for p in tmp_path.rglob("*")] == ["in", "bad.jxg"]  # Nothing was written.


def test_members_are_those_of_the_manifest(saved, tmp_path):
    path = tmp_path / "bad.jxg"
    with zipfile.ZipFile(io.BytesIO(saved)) as file:
        entries = [(name, file.read(name)) for name in file.namelist()]
    archived(path, [*entries, ("more.npy", b"")])
    refused(path, "members are not those")
    archived(path, entries[1:])
    refused(path, "members are not those")
    with pytest.warns(UserWarning, match="Duplicate name"):
        archived(path, [*entries, entries[0]])
    refused(path, "unsuitable name 'program_0.mlir'")
    archived(path, entries, compression=zipfile.ZIP_DEFLATED)
    refused(path, "is compressed")
    archived(path, [(name, x) for name, x in entries if name != "manifest.json"])
    refused(path, "has no member manifest.json")
    for text in ("{", "[]", "[" * 100_000, '{"format": "1"}', "\xff"):
        archived(path, [*entries[:-1], ("manifest.json", text.encode("latin-1"))])
        refused(path, "manifest.json (is not JSON|gives no version)")


def npy(header, content=b""):
    """A `.npy` file with this header."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + content


ARRAYS = {
    "no array": (b"evil", "is not an array"),
    "a huge one": (
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 1000000000000)}"),
        "has another size",
    ),
    "a negative size": (
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1)}", bytes(8)),
        "unsuitable type",
    ),
    "objects": (
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos\nsystem\n."),
        "unsuitable type, object",
    ),
    "code": (npy("{'descr': '<f8', 'shape': __import__('os').getcwd()}"), "is not an array"),
    "another type": (
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
        "takes another type than that of 'constant_0'",
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_what_they_should_be(saved, name, tmp_path):
    content, message = ARRAYS[name]
    manifest, members = opened(saved)
    write(tmp_path / "bad.jxg", manifest, {**members, "data_0.npy": content})
    refused(tmp_path / "bad.jxg", message)


# --- The program --------------------------------------------------------------------------


def exported(function, *shapes):
    specs = [jax.ShapeDtypeStruct(shape, "float64") for shape in shapes]
    return jax.export.export(jax.jit(function))(*specs).mlir_module_serialized


def unstable(x, b, c):
    return jax.ffi.ffi_call("evil", jax.ShapeDtypeStruct((), "float64"))(x, b, c)


def calls_evil():
    checks = [jax.export.DisabledSafetyCheck.custom_call("evil")]
    specs = [jax.ShapeDtypeStruct(s, "float64") for s in ((2, 3), (3,), (3, 1000))]
    made = jax.export.export(jax.jit(unstable), disabled_checks=checks)(*specs)
    return made.mlir_module_serialized


PROGRAMS = {
    "no StableHLO": (lambda: b"evil" * 100, "cannot read its StableHLO"),
    "other types": (
        lambda: exported(lambda x, b, c: x.sum(), (2, 3), (4,), (3, 1000)),
        "has other types than its description",
    ),
    "another number": (lambda: exported(lambda x: x.sum(), (2, 3)), "has other types than its"),
    "a call of this process": (calls_evil, "its program calls 'evil', which is not allowed"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_what_they_should_be(saved, name, tmp_path):
    program, message = PROGRAMS[name]
    manifest, members = opened(saved)
    write(tmp_path / "bad.jxg", manifest, {**members, "program_0.mlir": program()})
    refused(tmp_path / "bad.jxg", message)


# --- The manifest -------------------------------------------------------------------------

MANIFESTS = {
    "of a later format": (["format"], 99, "format has version 99"),
    "of a later convention": (
        ["programs", 0, "calling_convention_version"],
        10**6,
        "calling convention has version 1000000",
    ),
    "of an unknown dtype": (["programs", 0, "arguments", 0, "dtype"], "evil", "'evil' is not a dt"),
    "of a function's name": (["programs", 0, "arguments", 0, "dtype"], "save", "'save' is not a d"),
    "of a large power": (
        ["programs", 0, "arguments", 0, "sizes"],
        "n^99999999,3",
        "too complicated",
    ),
    "of a deep expression": (
        ["programs", 0, "arguments", 0, "sizes"],
        "max(" * 200,
        "are no sizes|too compl",
    ),
    "of negative sizes": (["programs", 0, "arguments", 0, "sizes"], "-1,3", "negative|no sizes"),
    "of another rank": (["programs", 0, "arguments", 0, "sizes"], "3", "have other types"),
    "without arguments": (["programs", 0, "arguments"], [], "are not among its arguments"),
    "without programs": (["programs"], [], "not those of one function"),
    "of a kept argument that does not exist": (
        ["programs", 0, "kept_arguments"],
        [7],
        "arguments that a",
    ),
    "of no platform": (["programs", 0, "platforms"], [], "platforms"),
    "of another member": (["programs", 0, "member"], "../x", "there is no member '../x'"),
    "of itself": (["programs", 0, "member"], "manifest.json", "there is no member"),
    "of no pytree": (["results"], {"set": ["leaf"]}, "not a pytree"),
    "of two results": (["results"], {"list": ["leaf", "leaf"]}, "another number of results"),
    "of impossible constraints": (["constraints"], ["n >= 2", "n <= 1", "m"], "constraints"),
    "of inputs that are not a list": (["inputs"], "Xb", "'inputs' is not of type list"),
    "of a derivative that is missing": (["programs", 0, "order"], 1, "not those of one function"),
    "of a shape that is none": (["inputs", 0, "shape"], [-3, 3], "is not a shape"),
    "of batched inputs that are no flags": (["batched"], [1], "which inputs are mapped"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_are_what_they_should_be(saved, name, tmp_path):
    path, value, message = MANIFESTS[name]
    manifest, members = opened(saved)
    manifest = copy.deepcopy(manifest)
    *before, last = path
    place = manifest
    for step in before:
        place = place[step]
    place[last] = value
    write(tmp_path / "bad.jxg", manifest, members)
    refused(tmp_path / "bad.jxg", message)


def test_there_must_be_a_file(tmp_path):
    with pytest.raises(SavedFileError, match="There is no file"):
        jaxprgen.load(tmp_path / "none.jxg")
    refused(tmp_path, "cannot be read")
