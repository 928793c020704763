"""What every process has imported before it starts: imports are in no figure."""

import contextlib
import gc
import importlib
import logging
import warnings

import jax

MODULES = (
    "jaxprgen",  # First: it makes Aesara importable.
    "aesara.link.jax.dispatch",
    "aesara.tensor.nnet",
    "numpyro.infer.util",
    "pytensor.link.jax.dispatch",
    "compare.measure",
    "core",
)

warnings.simplefilter("ignore")
for name in MODULES:
    with contextlib.suppress(ImportError):  # A system that is not there says so in its place.
        importlib.import_module(name)
for name in ("aesara", "pytensor"):
    logging.getLogger(name).setLevel(logging.CRITICAL)  # What fails is said on the page.
jax.config.update("jax_enable_x64", True)
gc.freeze()  # A process pays for collecting what it made, not for all that is imported.
