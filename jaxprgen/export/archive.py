"""A saved file: a description and members, and the SHA-256 of both, by which damage is found.

The first line names the format, the second is a description in JSON. Members follow, each at a
multiple of 64 bytes, so that arrays are used where they lie in memory. The last 32 bytes are the
SHA-256 of all before them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import mmap
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import numpy as np

from jaxprgen.errors import SavedFileError, UnwritableFileError
from jaxprgen.texts import visible

_START = b"jaxprgen saved function, format "
_FORMAT = _START + b"2\n"
_ALIGNMENT = 64
_DIGEST = hashlib.sha256().digest_size


def write(
    path: str | os.PathLike[str], manifest: Mapping[str, Any], members: Mapping[str, Any]
) -> str:
    """Write a file at once: readers see the file that was there before, or all of the new one.

    Parameters
    ----------
    path
        Where to write it. A link is followed, and a file that is replaced keeps its mode.
    manifest
        What JSON can hold.
    members
        Bytes or arrays, by name.

    Returns
    -------
    str
        The file's SHA-256, as 64 hexadecimal digits.

    Raises
    ------
    UnwritableFileError
        The file cannot be written.
    """
    contents = [_bytes_of(x) for x in members.values()]
    places, end = {}, 0
    for name, content in zip(members, contents, strict=True):
        places[name] = end, len(content)
        end += len(content) + -len(content) % _ALIGNMENT
    head = _FORMAT + json.dumps({**manifest, "members": places}).encode()
    head += b" " * (-(len(head) + 1) % _ALIGNMENT) + b"\n"
    padded = (part for x in contents for part in (x, bytes(-len(x) % _ALIGNMENT)))
    try:
        return _replace(os.path.realpath(path), [head, *padded])
    except (OSError, ValueError) as error:
        raise UnwritableFileError(f"{_shown(path)} cannot be written: {_reason(error)}.") from error


def _bytes_of(content: Any) -> memoryview:
    if isinstance(content, bytes):
        return memoryview(content)
    array: Any = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
    return memoryview(array)


def _replace(path: str, parts: Iterable[Any]) -> str:
    """Write beside a file, and put the result in its place only when the disk has it."""
    if os.path.lexists(path) and not os.path.isfile(path):
        raise ValueError("it is not a regular file")
    mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else None
    creation = 0o666 if mode is None else mode  # Less what the process's mask takes away.
    folder = os.path.dirname(path)
    # No other thread, process or container writes to this name.
    beside = os.path.join(folder, f".jaxprgen-{secrets.token_hex(8)}.part")
    checksum = hashlib.sha256()
    try:
        with open(beside, "xb", opener=lambda x, flags: _new(x, flags, creation)) as file:
            for part in parts:
                file.write(part)
                checksum.update(part)
            file.write(digest := checksum.digest())
            file.flush()
            os.fsync(file.fileno())
            if not os.path.exists(beside):
                os.link(f"/proc/self/fd/{file.fileno()}", beside, src_dir_fd=file.fileno())
        if mode is not None:  # Until now, the part was at most as open to others.
            os.chmod(beside, mode)
        os.replace(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
    with contextlib.suppress(OSError):  # Windows opens no folder.
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    checksum.update(digest)
    return checksum.hexdigest()


def _new(path: str, flags: int, mode: int) -> int:
    """Open a new file; on Linux one without a name, which vanishes with a saver that is killed."""
    if os.path.exists("/proc/self/fd"):
        with contextlib.suppress(AttributeError, OSError):
            return os.open(os.path.dirname(path), os.O_WRONLY | os.O_TMPFILE, mode)
    return os.open(path, flags, mode)


def _shown(path: str | os.PathLike[str]) -> str:
    return visible(os.fspath(path), 300) or "''"


def _reason(error: Exception) -> str:
    return visible(getattr(error, "strerror", None) or error, 300)


class Archive:
    """A file that `write` wrote.

    Its content is copied into memory before it is checked, so nothing that happens to the file
    later changes what was checked.

    Parameters
    ----------
    path
        The file.
    sha256
        The SHA-256 that the file must have, in hexadecimal digits.

    Raises
    ------
    SavedFileError
        The file is not what `write` wrote, has another SHA-256, or is of another format.
    """

    def __init__(self, path: str | os.PathLike[str], sha256: str | None = None) -> None:
        self.path = _shown(path)
        try:
            copied = _content(path)
        except FileNotFoundError:
            raise SavedFileError(f"There is no file {self.path}.") from None
        except (OSError, ValueError) as error:
            self.fail(f"it cannot be read ({_reason(error)})")
        content = memoryview(copied).toreadonly()
        checksum = hashlib.sha256(content[:-_DIGEST])
        is_whole = checksum.digest() == bytes(content[-_DIGEST:])
        checksum.update(content[-_DIGEST:])
        self.sha256 = checksum.hexdigest()
        if sha256 is not None and str(sha256).lower() != self.sha256:
            self.fail(
                f"its SHA-256 is {self.sha256}, not {visible(sha256, 80)}",
                "It is not the file that was meant, or it was changed.",
            )
        first, self._description = copied.readline(), copied.readline()
        if not first.startswith(_START):
            self.fail("it is of another kind", "jaxprgen.save writes such files.")
        if not is_whole:
            self.fail("it was damaged, or is only part of a file")
        if first != _FORMAT:
            self.fail(
                f"its format is {visible(first[len(_START) : -1].decode(errors='replace'), 20)}, "
                f"and this jaxprgen reads format {_FORMAT[len(_START) : -1].decode()}",
                "Install the version of jaxprgen that wrote it.",
            )
        self._members = content[copied.tell() :]

    @functools.cached_property
    def manifest(self) -> dict[str, Any]:
        """What `write` was told of the members."""
        return json.loads(self._description)

    def fail(
        self, cause: str, remedy: str = "Save the function or copy the file anew."
    ) -> NoReturn:
        """Raise what is wrong with the file."""
        raise SavedFileError(f"{self.path} is not a file that can be loaded: {cause}.\n{remedy}")

    def member(self, name: str) -> memoryview:
        """Return a member's content, read-only, in the memory of the archive."""
        start, size = self.manifest["members"][name]
        return self._members[start : start + size]


def _content(path: str | os.PathLike[str]) -> mmap.mmap:
    """Return a copy of a file, in memory that begins at a page, so that arrays are aligned."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError("it is not a regular file")  # A pipe would be waited for.
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise ValueError("it is empty")
        content = mmap.mmap(-1, size)
        if file.readinto(content) != size:
            raise ValueError("it became shorter while it was read")
    return content
