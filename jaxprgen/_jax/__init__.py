"""The only door to JAX's internals, and the only place with JAX-version branches.

Every JAX release from 0.7.1 on is supported. Other modules import public names from `jax`. This
package holds names that are private in at least one supported release. It imports its modules when
a name is first used, because loaded programs need few of them.
"""

import importlib
from typing import TYPE_CHECKING, Any

# Used as a namespace: ``from jaxprgen import _jax``.
if TYPE_CHECKING:
    from jaxprgen._jax.batching import *  # noqa: F403
    from jaxprgen._jax.checks import *  # noqa: F403
    from jaxprgen._jax.core import *  # noqa: F403
    from jaxprgen._jax.derivatives import *  # noqa: F403
    from jaxprgen._jax.executables import *  # noqa: F403
    from jaxprgen._jax.exporting import *  # noqa: F403
    from jaxprgen._jax.lines import *  # noqa: F403
    from jaxprgen._jax.meshes import *  # noqa: F403
    from jaxprgen._jax.placement import *  # noqa: F403
    from jaxprgen._jax.primitives import *  # noqa: F403
    from jaxprgen._jax.programs import *  # noqa: F403
    from jaxprgen._jax.rows import *  # noqa: F403
    from jaxprgen._jax.sizes import *  # noqa: F403
    from jaxprgen._jax.types import *  # noqa: F403
else:
    _MODULES = [
        *("types", "sizes", "core", "exporting", "executables"),  # For programs from files.
        *("programs", "primitives", "derivatives", "lines", "meshes", "placement", "checks"),
        *("rows", "batching"),
    ]
    """Where a name is looked for, in this order."""

    def __getattr__(name: str) -> Any:
        for module in [] if name.startswith("_") else _MODULES:
            found = vars(importlib.import_module(f"{__name__}.{module}"))
            if name in found:
                return globals().setdefault(name, found[name])
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
