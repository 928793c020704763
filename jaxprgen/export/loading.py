"""Load a function from a file that `jaxprgen.save` wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen.arguments.specs import scope_with
from jaxprgen.export.archive import Archive
from jaxprgen.export.calls import Flat, Level
from jaxprgen.export.description import input_of, program_of, tree_of
from jaxprgen.export.executables import executables_in
from jaxprgen.export.loaded import LoadedFunction
from jaxprgen.texts import visible


def load(
    path: str | os.PathLike[str], *, sha256: str | None = None, trust_executable: bool = False
) -> LoadedFunction:
    """Load a function that `jaxprgen.save` wrote to a file.

    A file is a program: load only what you trust. This needs neither Aesara nor the code that made
    the graph. The file is read once, as a whole; what becomes of it later does not matter. The
    first call puts its arrays on the device.

    Parameters
    ----------
    path
        The file.
    sha256
        The SHA-256 of the file that is meant, as `jaxprgen.save` returned it. A file that has
        another one is refused before any of it is interpreted.
    trust_executable
        Use the executables in the file where they fit this machine and these versions. They are
        machine code. Without executables that fit, XLA compiles the program as otherwise, and the
        log of "jaxprgen" says why.

    Returns
    -------
    LoadedFunction
        A JAX function of the same arguments as the function that was saved.

    Raises
    ------
    SavedFileError
        The file is damaged, has another SHA-256, is of another kind, or is for other versions.
    """
    archive = Archive(path, sha256)
    try:
        loaded = _loaded(archive, trust_executable)
        repr(loaded)  # It fails if names, types and results do not belong together.
        return loaded
    except Exception as error:  # Whatever JAX raises for what another version wrote.
        cause = visible(f"{type(error).__name__}: {error}", 200)
        archive.fail(f"JAX {jax.__version__} cannot use what it describes ({cause})")


def _loaded(archive: Archive, trusted: bool) -> LoadedFunction:
    manifest = archive.manifest
    scope, name = scope_with(manifest["constraints"]), manifest["name"]
    programs = [
        program_of(x, name, scope, bytes(archive.member(x["member"]))) for x in manifest["programs"]
    ]
    _jax.require_readable([program.exported for program in programs])
    found = {(p.order, p.batched): p.exported for p in programs}
    levels = [Level(x, found.get((k, True))) for (k, batched), x in found.items() if not batched]
    data = {
        x["name"]: np.frombuffer(archive.member(f"data_{i}"), x["dtype"]).reshape(x["shape"])
        for i, x in enumerate(manifest["data"])
    }
    return LoadedFunction(
        inputs=tuple(map(input_of, manifest["inputs"])),
        data=MappingProxyType(data),
        constraints=tuple(manifest["constraints"]),
        about=tuple(_about(manifest, data)),
        sha256=archive.sha256,
        _fixed=MappingProxyType(manifest["fixed"]),
        _results=tree_of(manifest["results"]),
        _levels=levels,
        _layout=Flat(name, manifest["batched"], len(data)),
        _executables=executables_in(archive) if trusted else [],
    )


def _about(manifest: dict[str, Any], data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a reader may want to know of a file, as names and texts."""
    programs = manifest["programs"]
    yield "platforms", ", ".join(programs[0]["platforms"])
    yield "derivatives", f"up to order {max(program['order'] for program in programs)}"
    pairs = zip(manifest["inputs"], manifest["batched"], strict=True)
    batched = [declared["name"] for declared, is_batched in pairs if is_batched]
    if batched:
        yield "vmap", f"maps {', '.join(batched)} at once"
    for name, value in manifest["fixed"].items():
        yield "fixed", f"{name} = {value}"
    for executable in manifest["executables"]:
        sizes = ", ".join(f"{name} = {size}" for name, size in executable["sizes"].items())
        machine = executable["machine"]
        made_for = f"{machine['device']}, jaxlib {machine['jaxlib']}"
        yield "executable", f"for {sizes or 'these sizes'} on {made_for}"
    versions = manifest["written_by"].items()
    yield "written by", ", ".join(f"{name} {version}" for name, version in versions)
    for name, array in data.items():
        yield "data", f"{name}: {array.dtype}{[*array.shape]}, {array.nbytes} bytes"
