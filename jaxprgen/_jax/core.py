"""Programs and equations, as `jax.extend.core` has them.

That module imports all of `jax.extend`, and with it Pallas, which takes longer than the rest of
this package.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jax.extend.core import (
        ClosedJaxpr as ClosedJaxpr,
        Jaxpr as Jaxpr,
        JaxprEqn as JaxprEqn,
        Primitive as Primitive,
    )
else:
    from jax._src import core as _core

    Jaxpr = _core.Jaxpr
    ClosedJaxpr = getattr(_core, "ClosedJaxpr", Jaxpr)  # JAX >= 0.11 has one class for both.
    JaxprEqn = _core.JaxprEqn
    Primitive = _core.Primitive
