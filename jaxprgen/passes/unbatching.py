"""Unbatching rules: from an equation on all rows to an equation on one row.

This is the reverse of `jaxprgen.passes.batching`. An array has its rows along one of its axes,
which need not be the first. In the body of a loop, one row is an array of the same rank and of size
one along that axis. So an equation that treats all rows alike keeps its form, except for parameters
that are sizes. An equation that reduces over rows computes what one row contributes; its `Monoid`
combines these contributions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.loops import pure_loop
from jaxprgen.passes.places import operand_axes


class Unbatched(NamedTuple):
    """How an equation on all rows becomes an equation on one row.

    Attributes
    ----------
    axes : sequence of int or None
        For each operand, the axis of the rows, or None if all rows share the operand.
    params : dict
        The parameters of the equation on one row.
    """

    axes: Sequence[int | None]
    params: dict[str, Any]


def unbatched(eqn: JaxprEqn, axis: int, n: int) -> Unbatched | None:
    """Return how an equation computes one row of its result.

    Parameters
    ----------
    eqn : JaxprEqn
        The equation on all rows.
    axis : int
        The axis of the result along which the rows lie.
    n : int
        The number of rows, at least 2.

    Returns
    -------
    Unbatched or None
        None if the equation does not treat all rows alike, or is not known to. An operand that the
        rows share is a scalar, or has size one along the axis.
    """
    name, avals = eqn.primitive.name, [v.aval for v in eqn.outvars]
    if name not in ROW_BY_ROW or not avals or eqn.effects:
        return None
    if not all(isinstance(t.dtype, np.dtype) for t in avals):  # type: ignore[attr-defined]
        return None
    if name == "scan":
        return _step(eqn, axis)
    axes: list[int | None] = []
    for i, x in enumerate(eqn.invars):
        shape = x.aval.shape  # type: ignore[attr-defined]
        found = [*operand_axes(eqn, i)]
        axes.append(found[axis] if shape and found else None)
        if shape and axes[-1] is None and not (found and name in _SHARING):
            return None
    if name == "iota" and axis == eqn.params["dimension"]:
        return None
    key, params = _SIZES.get(name), eqn.params
    if key is not None:
        params = {**params, key: (*params[key][:axis], 1, *params[key][axis + 1 :])}
    return Unbatched(axes, params)


def _step(eqn: JaxprEqn, axis: int) -> Unbatched | None:
    """Run one step: a loop without carries treats all rows alike."""
    loop = pure_loop(eqn)
    if axis or loop is None or loop.carries:
        return None
    axes = [*[None] * len(loop.constants), *[0] * len(loop.rows)]
    return Unbatched(axes, {**eqn.params, "length": 1})


_SIZES = {
    "broadcast_in_dim": "shape",
    "iota": "shape",
    "reshape": "new_sizes",
    "slice": "limit_indices",
}
"""The parameters that are sizes of a result, or the ends of what it is read from."""

_SHARING = frozenset(
    {*lax.ELEMENTWISE, *("select_n", "clamp", "add_any", "stop_gradient", "broadcast_in_dim")}
)
"""Primitives whose rows may share an operand that is an array."""

ROW_BY_ROW = frozenset(
    {
        *(*_SHARING, *_SIZES, "concatenate", "pad", "rev", "scan", "squeeze", "transpose"),
        *(f"reduce_{name}" for name in ("sum", "prod", "max", "min", "and", "or", "xor")),
    }
)
"""The primitives that may treat all rows alike."""


class Monoid(NamedTuple):
    """How values accumulate.

    Attributes
    ----------
    combine : callable
        ``combine(builder, x, y)`` emits the combination of two values.
    reduce : callable
        ``reduce(builder, x, axes)`` emits the combination of all values along axes.
    identity : callable
        ``identity(dtype)`` returns the combination of no values.
    is_exact : bool
        Whether the order does not change the result, even in floating-point numbers.
    """

    combine: Callable[..., Var]
    reduce: Callable[..., Var]
    identity: Callable[[Any], Any]
    is_exact: bool = True


def _extreme(dtype: Any, sign: int) -> Any:
    """Return the largest value of a dtype, or the smallest for a negative sign."""
    if dtype.kind == "b":
        return sign > 0
    if dtype.kind == "f":
        return sign * np.inf
    return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min


_SUM = Monoid(lax.add, lax.reduce_sum, lambda dtype: 0, is_exact=False)
REDUCTIONS = {
    "add": _SUM,
    "add_any": _SUM,
    "mul": Monoid(lax.mul, lax.reduce_prod, lambda dtype: 1, is_exact=False),
    "max": Monoid(lax.max, lax.reduce_max, lambda dtype: _extreme(dtype, -1)),
    "min": Monoid(lax.min, lax.reduce_min, lambda dtype: _extreme(dtype, 1)),
    "and": Monoid(lax.bitwise_and, lax.reduce_and, lambda dtype: ~dtype.type(0)),
    "or": Monoid(lax.bitwise_or, lax.reduce_or, lambda dtype: dtype.type(0)),
}
"""The monoid of each primitive that may accumulate a carry."""

MONOIDS = {"dot_general": _SUM, **{m.reduce.__name__: m for m in REDUCTIONS.values()}}
"""The monoid of each primitive that can reduce over rows."""
