"""A saved file: a zip of members that are read at once, and believed only if they fit.

Members are stored without compression, with their sizes and SHA-256 in a manifest. Arrays are
``.npy`` members whose data start at multiples of 64 bytes, so that they are used where they lie in
the memory that holds the file's content. Reading never writes, unpickles or allocates more than the
file holds.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import mmap
import os
import re
import secrets
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from jaxprgen.errors import ExportError, SavedFileError

MANIFEST = "manifest.json"
FORMAT = 1
"""The version of the format. A reader refuses files of later versions."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}")
_ALIGNMENT = 64
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_PADDING = 0xD935  # The extra field by which Android aligns members.


def write(
    path: str | os.PathLike[str], manifest: Mapping[str, Any], members: Mapping[str, Any]
) -> None:
    """Write a file at once: readers see the file that was there before, or all of the new one.

    Parameters
    ----------
    path
        Where to write it.
    manifest
        What JSON can hold. The members' sizes and checksums are added.
    members
        Bytes or arrays, by name.

    Raises
    ------
    ExportError
        The file cannot be written.
    """
    path = Path(path)
    # No other thread, process or container writes to this name.
    beside = path.with_name(f".jaxprgen-{secrets.token_hex(8)}.part")
    try:
        with open(beside, "xb") as opened:
            try:
                with zipfile.ZipFile(opened, "w", zipfile.ZIP_STORED) as file:
                    described = {name: _add(file, name, x) for name, x in members.items()}
                    listed = {"format": FORMAT, **manifest, "members": described}
                    _add(file, MANIFEST, json.dumps(listed, indent=1).encode())
                opened.close()  # Windows replaces no open file.
                os.replace(beside, path)
            finally:
                beside.unlink(missing_ok=True)
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror}.") from error


def _add(file: zipfile.ZipFile, name: str, content: Any) -> dict[str, Any]:
    """Write one member, and return its size and checksum."""
    parts = [content] if isinstance(content, bytes) else _npy(content)
    size = sum(memoryview(part).nbytes for part in parts)
    info = zipfile.ZipInfo(name)  # Of the year 1980: equal content gives equal files.
    info.external_attr = 0o644 << 16
    start = file.start_dir + _LOCAL_HEADER.size + len(name) + 4
    if size >= zipfile.ZIP64_LIMIT:
        start += 20
    padding = -start % _ALIGNMENT
    info.extra = struct.pack("<2H", _PADDING, padding) + bytes(padding)
    info.file_size = size
    checksum = hashlib.sha256()
    with file.open(info, "w") as opened:
        for part in parts:
            opened.write(part)
            checksum.update(part)
    return {"size": size, "sha256": checksum.hexdigest()}


def _npy(array: np.ndarray[Any, Any]) -> list[Any]:
    """Return the parts of a ``.npy`` file."""
    array = np.ascontiguousarray(array) if array.ndim else array
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    return [header.getvalue(), array.reshape(-1).view(np.uint8)]


def _content(file: BinaryIO) -> mmap.mmap:
    """Return a copy of a file, in memory that begins at a page, so that arrays are aligned."""
    size = os.fstat(file.fileno()).st_size
    if not size:
        raise ValueError("it is empty")
    content = mmap.mmap(-1, size)
    if file.readinto(content) != size:  # type: ignore[attr-defined]
        raise ValueError("it became shorter while it was read")
    content.seek(0)
    return content


class Archive:
    """A file that `write` wrote.

    Its content is copied into memory before it is checked, so nothing that happens to the file
    later changes what was checked.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    SavedFileError
        The file is not what `write` wrote, or a later version of it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            with open(self.path, "rb") as file:
                self._content = _content(file)
        except FileNotFoundError:
            raise SavedFileError(f"There is no file {self.path}.") from None
        except (OSError, ValueError) as error:
            self.fail(f"it cannot be read ({error})")
        self._members = self._listed()
        self.manifest = self._manifest()
        self._check_members()

    def fail(
        self, cause: str, remedy: str = "Save the function or copy the file anew."
    ) -> NoReturn:
        """Raise what is wrong with the file."""
        raise SavedFileError(f"{self.path} is not a file that can be loaded: {cause}.\n{remedy}")

    def __contains__(self, name: str) -> bool:
        return name in self._members and name != MANIFEST

    def bytes(self, name: str) -> bytes:
        """Return a member's content."""
        return bytes(self._members[name])

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """Return the array of a ``.npy`` member, read-only, in the memory of the archive."""
        content = self._members[name]
        file = io.BytesIO(content[: 1 << 14])
        try:
            version = np.lib.format.read_magic(file)
            if version != (1, 0):
                raise ValueError(f"version {version}")
            shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
        except ValueError as error:
            self.fail(f"{name} is not an array ({str(error).splitlines()[0]})")
        sizes_fit = all(type(n) is int and n >= 0 for n in shape)
        if dtype.kind not in "biufc" or dtype.hasobject or is_fortran or not sizes_fit:
            self.fail(f"{name} has an unsuitable type, {dtype}{list(shape)}")
        count = math.prod(shape)
        if count * dtype.itemsize != len(content) - file.tell():
            self.fail(f"{name} says that it holds {dtype}{list(shape)}, but has another size")
        return np.frombuffer(content, dtype, count, file.tell()).reshape(shape)

    def _listed(self) -> dict[str, memoryview]:
        """Return the content of each member."""
        try:
            with zipfile.ZipFile(self._content) as file:  # type: ignore[arg-type]
                infos = file.infolist()
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
            self.fail(f"it is not a zip file, or only part of one ({error})")
        found: dict[str, memoryview] = {}
        end = 0
        for info in sorted(infos, key=lambda info: info.header_offset):
            name = info.filename
            if not _NAME.fullmatch(name) or name in found:
                self.fail(f"it has a member with the unsuitable name {name[:100]!r}")
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x1:
                self.fail(f"its member {name} is compressed or encrypted")
            if info.header_offset < end:
                self.fail(f"its member {name} overlaps another one")
            start = self._start(info)
            end = start + info.file_size
            if info.file_size != info.compress_size or end > len(self._content):
                self.fail(f"its member {name} declares {info.file_size} bytes, which it lacks")
            found[name] = memoryview(self._content)[start:end].toreadonly()
            if name == MANIFEST and zlib.crc32(found[name]) != info.CRC:
                self.fail(f"the checksum of {name} is wrong")
        return found

    def _start(self, info: zipfile.ZipInfo) -> int:
        """Return where the content of a member begins."""
        header = self._content[info.header_offset : info.header_offset + _LOCAL_HEADER.size]
        if len(header) < _LOCAL_HEADER.size or header[:4] != b"PK\3\4":
            self.fail(f"its member {info.filename} is not where it should be")
        *_, name, extra = _LOCAL_HEADER.unpack(header)
        return info.header_offset + _LOCAL_HEADER.size + name + extra

    def _manifest(self) -> dict[str, Any]:
        if MANIFEST not in self._members:
            self.fail(f"it has no member {MANIFEST}", "jaxprgen.save writes such files.")
        try:
            manifest = json.loads(self.bytes(MANIFEST))
        except (ValueError, RecursionError) as error:
            self.fail(f"its {MANIFEST} is not JSON ({error})")
        if not isinstance(manifest, dict) or type(manifest.get("format")) is not int:
            self.fail(f"its {MANIFEST} gives no version of the format")
        if manifest["format"] != FORMAT:
            self.fail(
                f"its format has version {manifest['format']}, and this jaxprgen reads {FORMAT}",
                "Install the version of jaxprgen that wrote it, or a later one.",
            )
        return manifest

    def _check_members(self) -> None:
        """Compare the members with what the manifest says about them."""
        described = self.manifest.get("members")
        names = set(self._members) - {MANIFEST}
        if not isinstance(described, dict) or set(described) != names:
            self.fail(f"its members are not those that its {MANIFEST} lists")
        for name in sorted(names):
            content, said = self._members[name], described[name]
            fits = isinstance(said, dict) and said.get("size") == len(content)
            if not fits or said.get("sha256") != hashlib.sha256(content).hexdigest():
                self.fail(f"the size or checksum of {name} is wrong: the file was damaged")
