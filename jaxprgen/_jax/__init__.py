"""The only door to JAX's internals, and the only place with JAX-version branches.

Every JAX release from 0.7.1 on is supported. Other modules import public names from `jax`. This
package holds names that are private in at least one supported release.
"""

# Used as a namespace: ``from jaxprgen import _jax``.
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
from jaxprgen._jax.sizes import *  # noqa: F403
from jaxprgen._jax.types import *  # noqa: F403
