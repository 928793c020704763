"""Settles the environment before anything imports JAX or Aesara."""

import os
import zlib
from pathlib import Path

_ROOT = Path(__file__).parents[1]

# Aesara's Python mode is what results are compared with: no C, no BLAS to link it with, and nothing
# kept in the user's home. Of two entries for one flag Aesara takes the last: a developer's own win.
os.environ["AESARA_FLAGS"] = ",".join(
    [
        "cxx=,blas__ldflags=",
        f"base_compiledir={_ROOT / '.aesara'}",
        os.environ.get("AESARA_FLAGS", ""),
    ]
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Devices for `shard_map` and `pmap`.
os.environ["XLA_FLAGS"] = " ".join(
    [os.environ.get("XLA_FLAGS", ""), "--xla_force_host_platform_device_count=8"]
)

import jaxprgen  # noqa: E402, F401, I001  # before aesara, which it makes importable
import jax  # noqa: E402
from hypothesis import settings  # noqa: E402

jax.config.update("jax_enable_x64", True)

# Compiling takes what it takes, hence no deadline. CI draws the same examples each time; elsewhere
# a failure prints the line that reproduces it.
settings.register_profile(
    "jaxprgen", deadline=None, derandomize="CI" in os.environ, print_blob=True
)
settings.load_profile("jaxprgen")


def pytest_addoption(parser):
    parser.addoption(
        "--share", type=int, default=1, metavar="N", help="run one test in N, always the same ones"
    )


def pytest_collection_modifyitems(config, items):
    share = config.getoption("--share")
    chosen = [x for x in items if zlib.crc32(x.nodeid.encode()) % share == 0]
    config.hook.pytest_deselected(items=list(set(items).difference(chosen)))
    items[:] = chosen
