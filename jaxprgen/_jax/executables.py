"""XLA's compiled executables as bytes, without pickles."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
from jaxlib import lapack as _lapack
from jaxlib import xla_client as _xla_client

from jaxprgen._jax.types import default_platform, is_key


def initialize_lapack() -> None:
    """Load LAPACK, from SciPy. A program that calls it fails without this."""
    _lapack._lapack.initialize()


def _device() -> Any:
    device: Any = jax.config.jax_default_device
    return device if hasattr(device, "client") else jax.devices(default_platform())[0]


def machine() -> dict[str, str]:
    """Return what must be equal where an executable is made and where it is run."""
    device = _device()
    return {
        "jax": jax.__version__,
        "jaxlib": jax.lib.__version__,
        "platform": device.platform,
        "platform_version": device.client.platform_version,
        "device": device.device_kind,
        "processor": f"{platform.system()} {platform.machine()} {_processor_features()}",
    }


def _processor_features() -> str:
    """Return a checksum of the instructions that the processor has, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    flags = next((x for x in lines if x.startswith(("flags", "Features"))), platform.processor())
    return hashlib.sha256(flags.encode()).hexdigest()[:16]


def executable_bytes(compiled: jax.stages.Compiled) -> bytes:
    """Return an executable as XLA serializes it."""
    executable: Any = compiled.runtime_executable()
    return executable.client.serialize_executable(executable)


def executable_of(content: bytes) -> Callable[[Sequence[Any]], list[Any]]:
    """Return an executable as a function of arrays, for the device that JAX uses now.

    XLA loads machine code, which can do anything.
    """
    device = _device()
    devices = _xla_client.DeviceList((device,))  # type: ignore[attr-defined]
    loaded = device.client.deserialize_executable(content, executable_devices=devices)

    def run(arrays: Sequence[Any]) -> list[Any]:
        plain = [jax.random.key_data(x) if is_key(x) else x for x in arrays]
        results = loaded.execute_sharded(jax.device_put(plain, device))
        return [x for (x,) in results.disassemble_into_single_device_arrays()]

    return run
