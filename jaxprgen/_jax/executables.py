"""XLA's compiled executables as bytes, without pickles."""

from __future__ import annotations

import hashlib
import platform
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
from jax._src import config as _config
from jaxlib import lapack as _lapack, version as _version, xla_client as _xla_client

from jaxprgen._jax.types import default_platform, is_key

_NEVER = 1e9
"""More seconds than any program takes to compile."""


def initialize_lapack() -> None:
    """Load LAPACK, from SciPy. A program that calls it fails without this."""
    library: Any = _lapack
    library._lapack.initialize()


def _device() -> Any:
    device: Any = _config.default_device.value
    return device if hasattr(device, "client") else jax.devices(default_platform())[0]


def machine() -> dict[str, str]:
    """Return what must be equal where an executable is made and where it is run."""
    device = _device()
    return {
        "jax": jax.__version__,
        "jaxlib": _version.__version__,
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


def executable_bytes(function: Callable[..., Any], specs: Sequence[Any]) -> bytes:
    """Compile a function for arguments of these types, and return what XLA serializes.

    XLA serializes an executable only if it has compiled it itself: one that JAX found in its
    persistent cache would lack its code. A name that is used once is not in the cache.
    """

    def program(*given: Any) -> Any:
        return function(*given)

    program.__name__ = f"{function.__name__}_{secrets.token_hex(8)}"
    lowered = jax.jit(program, keep_unused=True).lower(*specs)
    with _config.persistent_cache_min_compile_time_secs(_NEVER):
        executable: Any = lowered.compile().runtime_executable()
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
