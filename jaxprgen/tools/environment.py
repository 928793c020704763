"""What a report of a fault needs: versions, devices and settings. It needs no Aesara."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import jax

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
