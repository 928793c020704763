"""Load a function from a file that `jaxprgen.save` wrote."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import jax

from jaxprgen import _jax
from jaxprgen.arguments.inputs import KEY, Input
from jaxprgen.arguments.specs import scope_with
from jaxprgen.errors import ArgumentTypeError
from jaxprgen.export.archive import Archive
from jaxprgen.export.calls import Flat, Level
from jaxprgen.export.description import (
    Described,
    DescriptionError,
    field,
    input_of,
    program_of,
    tree_of,
)
from jaxprgen.export.executables import executables_in
from jaxprgen.export.exporting import differentiable
from jaxprgen.export.loaded import LoadedFunction, Parts
from jaxprgen.export.stablehlo import what_is_wrong


def load(path: str | os.PathLike[str], *, trust_executable: bool = False) -> LoadedFunction:
    """Load a function that `jaxprgen.save` wrote to a file.

    This needs neither Aesara nor the code that made the graph. The file is read once, as a whole;
    what becomes of it later does not matter. A call puts its arrays on the device.

    Parameters
    ----------
    path
        The file.
    trust_executable
        Use the executables in the file where they fit this machine and these versions. They are
        machine code, which can do anything: set this for files from a trusted source only. Without
        executables that fit, XLA compiles the program as otherwise, and the log of "jaxprgen" says
        why.

    Returns
    -------
    LoadedFunction
        A JAX function of the same arguments as the function that was saved.

    Raises
    ------
    SavedFileError
        The file is damaged, is of another kind, or is for other versions.
    """
    archive = Archive(path)
    try:
        return LoadedFunction(_parts(archive, trust_executable))
    except DescriptionError as error:
        archive.fail(str(error))


def _parts(archive: Archive, trusted: bool) -> Parts:
    manifest = archive.manifest
    try:
        scope = scope_with(_texts(manifest, "constraints"))
    except ArgumentTypeError as error:
        raise DescriptionError(str(error)) from None
    name = field(manifest, "name", str)
    inputs = tuple(input_of(x) for x in field(manifest, "inputs", list))
    data = {}
    for described in field(manifest, "data", list):
        member = _member(archive, described)
        data[field(described, "name", str)] = archive.array(member)
    batched = field(manifest, "batched", list)
    if len(batched) != len(inputs) or not all(type(x) is bool for x in batched):
        raise DescriptionError("'batched' does not say which inputs are mapped at once")
    programs = [
        program_of(x, name, scope, archive.bytes(_member(archive, x)))
        for x in field(manifest, "programs", list)
    ]
    flat = Flat(name, batched, len(data))
    parts = Parts(
        path=os.fspath(archive.path),
        inputs=inputs,
        fixed=MappingProxyType(field(manifest, "fixed", dict)),
        data=MappingProxyType(data),
        results=tree_of(manifest.get("results")),
        constraints=tuple(_texts(manifest, "constraints")),
        levels=_levels(programs, flat),
        flat=flat,
        executables=executables_in(archive) if trusted else [],
    )
    _require_agreement(parts)
    wrong = None if trusted else what_is_wrong([program.exported for program in programs])
    if wrong:
        raise DescriptionError(wrong)
    return parts


def _texts(manifest: Any, name: str) -> list[str]:
    texts = field(manifest, name, list)
    if not all(type(x) is str and len(x) <= 1000 for x in texts):
        raise DescriptionError(f"{name!r} is not a list of short texts")
    return texts


def _member(archive: Archive, described: Any) -> str:
    name = field(described, "member", str)
    if name not in archive:
        raise DescriptionError(f"there is no member {name[:100]!r}")
    return name


def _levels(programs: list[Described], flat: Flat) -> tuple[Level, ...]:
    """Return the programs by the order of their derivatives."""
    found = {(p.order, p.batched): p.exported for p in programs}
    count = sum(not batched for _, batched in found)
    kinds = (False, True) if any(flat.batched) else (False,)
    wanted = {(k, is_batched) for k in range(count) for is_batched in kinds}
    if not programs or len(found) != len(programs) or set(found) != wanted:
        raise DescriptionError("its programs are not those of one function")
    return tuple(Level(found[k, False], found.get((k, True))) for k in range(count))


def _require_agreement(parts: Parts) -> None:
    """Raise if the types of programs do not agree with those of inputs, data and results."""
    first = parts.levels[0].one
    count = len(parts.inputs)
    if len(first.in_avals) != count + len(parts.data):
        raise DescriptionError("its program takes another number of arguments than it has inputs")
    if len(first.out_avals) != parts.results.num_leaves:
        raise DescriptionError("its program returns another number of results than are arranged")
    for declared, aval in zip(parts.inputs, first.in_avals, strict=False):
        if not _fits(declared, aval):
            raise DescriptionError(f"its program and its input {declared.name!r} have other types")
    for (name, array), aval in zip(parts.data.items(), first.in_avals[count:], strict=True):
        if (array.shape, array.dtype) != (aval.shape, aval.dtype):
            raise DescriptionError(f"its program takes another type than that of {name!r}")
    # Derivatives take cotangents of the results, too, and return those of the arguments.
    before = first
    for level in parts.levels[1:]:
        inputs = parts.flat.with_derivative(before.in_avals)
        outputs = [before.out_avals[i] for i in differentiable(before.out_avals)]
        takes = _types([*before.in_avals, *outputs]), _types([before.in_avals[i] for i in inputs])
        if takes != (_types(level.one.in_avals), _types(level.one.out_avals)):
            raise DescriptionError("its derivative is not that of its program")
        before = level.one


def _fits(declared: Input, aval: Any) -> bool:
    """Return whether an argument that fits an input can become one of this type."""
    if declared.dtype is KEY:
        return _jax.is_key(aval) or aval.dtype == jax.numpy.uint32
    sizes = zip(declared.shape, aval.shape, strict=False)
    return (
        len(declared.shape) == len(aval.shape)
        and aval.dtype in (declared.dtype, _jax.NARROW.get(declared.dtype))
        and all(n is None or n == size for n, size in sizes)
    )


def _types(avals: Sequence[Any]) -> list[Any]:
    return [(x.shape, x.dtype) for x in avals]
