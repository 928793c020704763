"""The commands about saved files, and about what is installed. They need no Aesara."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

from jaxprgen.errors import UsageError
from jaxprgen.export.archive import Archive
from jaxprgen.export.loading import load
from jaxprgen.tools.environment import environment
from jaxprgen.tools.values import by_place, value_of


def run(options: argparse.Namespace) -> int:
    """Run a saved program, print its results as JSON, and return the exit status."""
    f = load(options.file)
    found = by_place(options.arg, f.inputs)
    missing = [declared.name for i, declared in enumerate(f.inputs) if i not in found]
    if missing:
        raise UsageError(
            "These inputs have no value:\n"
            + "\n".join(f"  --arg {name}=@{name}.npy" for name in missing)
        )
    results = f(*(value_of(*found[i], declared) for i, declared in enumerate(f.inputs)))
    print(json.dumps(jax.tree.map(_plain, results)))
    return 0


def _plain(x: Any) -> Any:
    """Return an array as numbers in lists; a complex number is a pair."""
    array: Any = np.asarray(x)
    return (np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array).tolist()


def info(options: argparse.Namespace) -> int:
    """Say what is in a saved file, or what is installed, and return the exit status."""
    if options.file is None:
        if options.text:
            raise UsageError("--text prints the StableHLO of a file. Name one: info FILE --text")
        _print_table(environment())
        return 0
    f = load(options.file)
    if options.text:
        print(f.as_text())
        return 0
    manifest = Archive(options.file).manifest
    rows = [("function", repr(f)[len("<loaded function ") : -1]), *_rows(manifest)]
    for name, array in f.data.items():
        rows.append(("data", f"{name}: {array.dtype}{list(array.shape)}, {array.nbytes} bytes"))
    _print_table(rows)
    return 0


def _print_table(rows: Iterable[tuple[str, str]]) -> None:
    rows = [*rows]
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:{width}}  {text}" for name, text in rows))


def _rows(manifest: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a manifest says of programs and executables."""
    programs = manifest["programs"]
    yield "platforms", ", ".join(programs[0]["platforms"])
    yield "derivatives", f"up to order {max(program['order'] for program in programs)}"
    batched = [
        declared["name"]
        for declared, is_batched in zip(manifest["inputs"], manifest["batched"], strict=True)
        if is_batched
    ]
    if batched:
        yield "vmap", f"maps {', '.join(batched)} at once"
    for name, value in manifest["fixed"].items():
        yield "fixed", f"{name} = {value}"
    for executable in manifest["executables"]:
        sizes = ", ".join(f"{name} = {size}" for name, size in executable["sizes"].items())
        machine = executable["machine"]
        made_for = f"{machine.get('device')}, jaxlib {machine.get('jaxlib')}"
        yield "executable", f"for {sizes or 'these sizes'} on {made_for}"
    versions = manifest["written_by"].items()
    yield "written by", ", ".join(f"{name} {version}" for name, version in versions)
