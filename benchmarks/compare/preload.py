"""Import what a process measures, before it measures, so that no figure includes imports."""

import contextlib
import gc
import importlib
import logging
import warnings

import jax

OURS = "jaxprgen", "aesara.tensor.slinalg", "aesara.tensor.special"  # The first finds the others.
PYTENSOR = "pytensor.tensor.random.utils", "pytensor.tensor.special", "pytensor.link.jax.dispatch"
MODULES = {
    "jaxprgen": OURS,
    "aesara": (*OURS, "aesara.link.jax.dispatch"),
    "pytensor": PYTENSOR,
    "jaxprgen pytensor": ("jaxprgen.pytensor", *PYTENSOR),
    "numba": (*PYTENSOR, "pytensor.link.numba.dispatch"),
    "c": PYTENSOR,
    "numpyro": ("numpyro.infer.util",),
}
"""The modules of each system."""


def prepare(system: str, others: tuple[str, ...] = ()) -> None:
    """Import the modules of a system and others, and set JAX up."""
    warnings.simplefilter("ignore")
    for name in (*MODULES.get(system, ()), *others):
        with contextlib.suppress(ImportError):  # The system itself reports that it is missing.
            importlib.import_module(name)
    for name in ("aesara", "pytensor"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # The page reports failures.
    jax.config.update("jax_enable_x64", True)
    gc.freeze()  # Exclude imports from garbage collection.
