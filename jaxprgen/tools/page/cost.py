"""Estimated costs of equations: floating-point operations, and bytes of results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import Jaxpr, JaxprEqn
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.inner import Kind, holder_of, inner_programs


def result_bytes(eqn: JaxprEqn) -> float:
    """Return the size of an equation's results, in bytes."""
    return sum(_jax.nbytes(v.aval) for v in eqn.outvars)


def flops(eqn: JaxprEqn) -> int | None:
    """Estimate the number of operations of an equation; None if it is unknown or symbolic.

    An elementwise operation or a comparison counts as one per element, an (m, k) by (k, n) matrix
    product as 2·m·n·k. A ``scan`` costs its body times its length, a ``cond`` its most expensive
    branch, and a call its program. The trip count of a ``while`` is unknown.
    """
    holder = holder_of(eqn)
    rule = _RULES.get(eqn.primitive.name)
    if holder is not None:
        found = _inner_flops(eqn, holder.kind)
    else:
        found = None if rule is None else rule(eqn)
    return None if _jax.is_symbolic(found) else found


def program_flops(jaxpr: Jaxpr) -> int | None:
    """Estimate the number of operations of a program; None if any equation's is unknown."""
    known, unknown = known_flops(jaxpr)
    return None if unknown else known


def known_flops(jaxpr: Jaxpr) -> tuple[int, int]:
    """Return the operations of a program's equations that are known, and how many are not."""
    costs = [flops(eqn) for eqn in jaxpr.eqns]
    return sum(filter(None, costs)), costs.count(None)


def _inner_flops(eqn: JaxprEqn, kind: Kind) -> int | None:
    costs = [program_flops(_jax.open_jaxpr(inner.program)) for inner in inner_programs(eqn)]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs) or kind not in ("call", "scan", "cond"):
        return None
    return max(known) * (eqn.params["length"] if kind == "scan" else 1)


def _size(x: Any) -> int:
    return math.prod(x.aval.shape)


def _results(eqn: JaxprEqn) -> int:
    return sum(map(_size, eqn.outvars))


def _reduction(eqn: JaxprEqn) -> int:
    """Reducing n elements to one takes n - 1 operations."""
    return _size(eqn.invars[0]) - _size(eqn.outvars[0])


def _dot_general(eqn: JaxprEqn) -> int:
    (contracted, _), _ = eqn.params["dimension_numbers"]
    shape: tuple[int, ...] = eqn.invars[0].aval.shape  # type: ignore[attr-defined]
    return 2 * _size(eqn.outvars[0]) * math.prod(shape[axis] for axis in contracted)


_FAMILIES: dict[str, Callable[[JaxprEqn], int]] = {
    "cumlogsumexp cummax cummin cumprod cumsum": _results,
    """argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum
    reduce_xor""": _reduction,
    # Moving, creating and converting data is free.
    """bitcast_convert_type broadcast_in_dim concatenate convert_element_type copy device_put
    dynamic_slice dynamic_update_slice gather iota optimization_barrier pad pvary reshape rev slice
    split squeeze stop_gradient transpose""": lambda _: 0,
    "dot_general": _dot_general,
}
_PER_ELEMENT = {*lax.ELEMENTWISE, *lax.OF_ONE_SHAPE, "add_any", "clamp"}
_RULES = {
    **dict.fromkeys(_PER_ELEMENT, _results),  # Even where it is transcendental.
    **{name: rule for names, rule in _FAMILIES.items() for name in names.split()},
}
