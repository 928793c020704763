"""XLA's executables in saved files, for arguments of concrete sizes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from jaxprgen import _jax
from jaxprgen.errors import ArgumentTypeError, ExportError
from jaxprgen.export.archive import Archive
from jaxprgen.export.exporting import named_program
from jaxprgen.texts import visible

logger = logging.getLogger("jaxprgen")

Sizes = Mapping[str, int]


class Executable(NamedTuple):
    """An executable, and the sizes of the symbols that it is for."""

    sizes: Sizes
    content: bytes


def compiled(
    exported: jax.export.Exported, wanted: bool | Sizes | Sequence[Sizes]
) -> Iterator[Executable]:
    """Compile a program for the device that JAX uses now.

    Parameters
    ----------
    exported
        The program.
    wanted
        The sizes of its symbols, once or several times; True if it has none.

    Raises
    ------
    ArgumentTypeError
        A symbol has no size.
    ExportError
        XLA cannot serialize the executable.
    """
    listed = [wanted] if isinstance(wanted, Mapping) else [{}] if wanted is True else wanted or []
    for sizes in listed:
        specs = [_concrete(aval, sizes) for aval in exported.in_avals]
        program = named_program(exported.call, exported.fun_name)
        try:
            content = _jax.executable_bytes(program, specs)
        except RuntimeError as error:
            raise ExportError(f"XLA cannot save the executable: {error}") from error
        yield Executable(dict(sizes), content)


def _concrete(aval: Any, sizes: Sizes) -> jax.ShapeDtypeStruct:
    """Return a type with the sizes of its symbols."""
    missing = {s for n in aval.shape for s in _jax.symbols_of(n)} - set(sizes)
    if missing:
        listed = ", ".join(f"{name!r}: 100" for name in sorted(missing))
        raise ArgumentTypeError(
            "An executable is for concrete sizes. Name the size of each symbol, as in "
            f"executable={{{listed}}}."
        )
    shape = tuple(_jax.size_at(n, sizes) if _jax.symbols_of(n) else n for n in aval.shape)
    return jax.ShapeDtypeStruct(shape, aval.dtype)


def executables_in(archive: Archive) -> list[Executable]:
    """Return the executables of a file that are for this machine, and log why others are not."""
    found: list[Executable] = []
    own = _jax.machine() if archive.manifest["executables"] else {}
    for i, listed in enumerate(archive.manifest["executables"]):
        sizes, machine = listed["sizes"], listed["machine"]
        other = [
            visible(f"{k} {machine.get(k)!r} instead of {v!r}")
            for k, v in own.items()
            if machine.get(k) != v
        ]
        if not other:
            found.append(Executable(sizes, bytes(archive.member(f"executable_{i}"))))
            continue
        logger.warning(
            "%s: the executable for %s is compiled anew: it was made for %s.",
            archive.path,
            sizes or "these sizes",
            ", ".join(other),
        )
    return found


def callables(
    exported: jax.export.Exported, executables: Sequence[Executable]
) -> dict[Any, Callable[[Sequence[Any]], list[Any]]]:
    """Return the executables as functions of arrays, by the shapes of the program's arguments."""
    if any(b"lapack" in exported.mlir_module_serialized for _ in executables):
        _jax.initialize_lapack()
    return {
        tuple(_concrete(aval, e.sizes).shape for aval in exported.in_avals): _jax.executable_of(
            e.content
        )
        for e in executables
    }
