"""Set the environment before anything imports JAX or Aesara, and choose how much is tried.

The quick run is the default: few Hypothesis examples, and programs that XLA compiles fast instead
of well. ``pytest --deep`` adds the tests that are marked as deep, tries many more examples, and
compiles programs as users do.
"""

import gc
import os
import zlib
from importlib.metadata import version
from pathlib import Path

_ROOT = Path(__file__).parents[1]

# Results are compared with the libraries' Python modes: no C, no BLAS to link it with, and no
# files in the user's home. The last of two entries for one flag counts, so a developer's flags win.
os.environ["AESARA_FLAGS"] = ",".join(
    [
        "cxx=,blas__ldflags=",
        f"base_compiledir={_ROOT / '.aesara'}",
        os.environ.get("AESARA_FLAGS", ""),
    ]
)
os.environ["PYTENSOR_FLAGS"] = ",".join(
    ["cxx=", f"base_compiledir={_ROOT / '.pytensor'}", os.environ.get("PYTENSOR_FLAGS", "")]
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Warnings are errors in this process and its threads. In processes that tests start, the one of a
# default pass that fails is an error as well: its text begins like this.
os.environ["PYTHONWARNINGS"] = ",".join(
    filter(None, [os.environ.get("PYTHONWARNINGS", ""), "error:The default pass"])
)
# Devices for `shard_map` and `pmap`.
_XLA_FLAGS = [os.environ.get("XLA_FLAGS", ""), "--xla_force_host_platform_device_count=8"]
os.environ["XLA_FLAGS"] = " ".join(_XLA_FLAGS)

import jaxprgen  # noqa: E402, F401, I001  # before aesara, which it makes importable
import jax  # noqa: E402
import profiles  # noqa: E402
import pytest  # noqa: E402
from jax.experimental.compilation_cache.compilation_cache import reset_cache  # noqa: E402

jax.config.update("jax_enable_x64", True)


def pytest_addoption(parser):
    parser.addoption("--deep", action="store_true", help="try everything, which takes hours")
    parser.addoption(
        "--slice",
        default="0/1",
        metavar="I/N",
        help="run one test in N, always the same ones: those of which a hash modulo N is I",
    )


def pytest_configure(config):
    profiles.choose(deep=config.getoption("deep"))
    # The workers of one run share what they compile, and a second run need not compile it again.
    jax.config.update("jax_compilation_cache_dir", str(_ROOT / ".jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    _compile(fast=not profiles.is_deep(), cached=True)
    # XLA's older emitters compile in half the time; jaxlib 0.11 no longer has them.
    if not profiles.is_deep() and tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):
        os.environ["XLA_FLAGS"] = " ".join([*_XLA_FLAGS, "--xla_cpu_use_fusion_emitters=false"])


def pytest_collection_modifyitems(config, items):
    deep = config.getoption("deep")
    index, count = map(int, config.getoption("slice").split("/"))
    chosen = [
        item
        for item in items
        if (deep or not item.get_closest_marker("deep"))
        and zlib.crc32(item.nodeid.encode()) % count == index % count
    ]
    config.hook.pytest_deselected(items=list(set(items).difference(chosen)))
    items[:] = chosen


def pytest_collection_finish():
    # Modules and graphs at their top level stay: searching them for garbage took a sixth of a run.
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)


@pytest.fixture(autouse=True)
def _compiled_as_usual(request):
    """Let XLA compile, and optimize, in tests that are about what it compiles."""
    if request.node.get_closest_marker("compiles") is None:
        yield
        return
    _compile(fast=False, cached=False)
    yield
    _compile(fast=not profiles.is_deep(), cached=True)


def _compile(*, fast, cached):
    jax.config.update("jax_disable_most_optimizations", fast)
    jax.config.update("jax_enable_compilation_cache", cached)
    reset_cache()
