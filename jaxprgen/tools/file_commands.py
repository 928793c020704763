"""The commands about saved files, and about what is installed. They need no Aesara."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import numpy as np

from jaxprgen.errors import UsageError
from jaxprgen.export.loading import load
from jaxprgen.texts import visible, visible_lines
from jaxprgen.tools.values import by_place, value_of


def run(options: argparse.Namespace) -> int:
    """Run a saved program, print its results as JSON, and return the exit status."""
    f = load(options.file, sha256=options.sha256)
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
    f = load(options.file, sha256=options.sha256)
    if options.text:
        print(visible_lines(f.as_text()))
        return 0
    _print_table(
        [("function", repr(f)[len("<loaded function ") : -1]), *f.about, ("sha256", f.sha256)]
    )
    return 0


def _print_table(rows: Iterable[tuple[str, str]]) -> None:
    rows = [*rows]
    width = max(len(name) for name, _ in rows)
    print("\n".join(visible(f"{name:{width}}  {text}", None) for name, text in rows))


_PACKAGES = ("jaxprgen", "jax", "jaxlib", "numpy", "scipy", "aesara", "pytensor", "aeppl", "pymc")
_PACKAGES += ("blackjax", "numpyro")
_SETTINGS = ("JAX_", "XLA_", "AESARA_FLAGS", "PYTENSOR_FLAGS")
"""Environment variables that change what happens: those that begin like this."""


def environment() -> Iterator[tuple[str, str]]:
    """Yield a name and a text for each row of a report.

    Yields
    ------
    tuple of str
        A package and its version, a device, or an environment variable and its value.
    """
    for package in _PACKAGES:
        yield package, _version(package)
    yield "python", f"{platform.python_version()}, {platform.platform()}"
    for device in jax.devices():
        yield "device", f"{device.id}: {device.platform}, {device.device_kind}"
    for name, value in sorted(os.environ.items()):
        if name.startswith(_SETTINGS):
            yield "setting", f"{name}={value}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
