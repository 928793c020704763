"""The rule for Ops of other packages that PyTensor's own JAX backend knows.

Their authors register a JAX function by ``pytensor.link.jax.dispatch.jax_funcify.register``.
"""

from __future__ import annotations

import sys
from typing import Any

from jaxprgen.emit.values import Value
from jaxprgen.lowering.context import RuleContext
from jaxprgen.lowering.implementation import lower_function
from jaxprgen.lowering.registry import lowers


@lowers("pytensor.graph.Op", folds=False)
def lower_registered(ctx: RuleContext, *xs: Value) -> list[Value]:
    """Stage the JAX function that is registered for the Op."""
    function = _registered(ctx.op)(ctx.op, node=ctx.node)
    return lower_function(ctx, function, xs)


def _registered(op: Any) -> Any:
    """Return what is registered for an Op by another package, or None.

    PyTensor's own functions are left out: the rules of this package take their place.
    """
    backend: Any = sys.modules.get("pytensor.link.jax.dispatch.basic")
    found = backend and backend.jax_funcify.dispatch(type(op))
    return None if found is None or found.__module__.startswith("pytensor.") else found


lower_registered.supports = lambda op: _registered(op) is not None  # type: ignore[attr-defined]
