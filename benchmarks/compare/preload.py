"""Import everything before a process measures, so that no figure includes imports."""

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
    with contextlib.suppress(ImportError):  # The system itself reports that it is missing.
        importlib.import_module(name)
for name in ("aesara", "pytensor"):
    logging.getLogger(name).setLevel(logging.CRITICAL)  # The page reports failures.
jax.config.update("jax_enable_x64", True)
gc.freeze()  # Exclude imports from garbage collection.
