"""Unbatching rules: from an equation on all rows to an equation on one row.

This is the reverse of `jaxprgen.passes.batching`. An array has its rows along one of its axes,
which need not be the first. In the body of a loop, one row is an array of the same rank and of size
one along that axis. So an equation that treats all rows alike keeps its form, except for parameters
that are sizes. An equation that reduces over rows computes what one row contributes; its `Monoid`
combines these contributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Var
from jaxprgen.ir import primitives as lax


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


UnbatchingRule: TypeAlias = Callable[[JaxprEqn, int, int], Unbatched | None]


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
        None if the equation has no rule or does not treat all rows alike. An operand that the rows
        share is a scalar, or has size one along the axis.
    """
    rule = _UNBATCHING_RULES.get(eqn.primitive.name)
    avals: list[Any] = [v.aval for v in eqn.outvars]
    if rule is None or not avals or eqn.effects:
        return None
    return rule(eqn, axis, n) if all(isinstance(t.dtype, np.dtype) for t in avals) else None


def _shapes(eqn: JaxprEqn) -> list[tuple[int, ...]]:
    avals: list[Any] = [x.aval for x in eqn.invars]
    return [aval.shape for aval in avals]


def _elementwise(eqn: JaxprEqn, axis: int, n: int) -> Unbatched | None:
    out: Any = eqn.outvars[0].aval
    shapes = _shapes(eqn)
    if any(shape and len(shape) != len(out.shape) for shape in shapes):
        return None  # A bitcast to another width.
    return Unbatched([axis if shape and shape[axis] == n else None for shape in shapes], eqn.params)


def _broadcast_in_dim(eqn: JaxprEqn, axis: int, n: int) -> Unbatched:
    shape, kept = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    own = kept.index(axis) if axis in kept else None
    if own is not None and _shapes(eqn)[0][own] != n:
        own = None
    return Unbatched([own], {**eqn.params, "shape": (*shape[:axis], 1, *shape[axis + 1 :])})


def _reshape(eqn: JaxprEqn, axis: int, n: int) -> Unbatched | None:
    old, new = _shapes(eqn)[0], eqn.params["new_sizes"]
    before = math.prod(new[:axis])
    if eqn.params["dimensions"] is not None or not math.prod(new):
        return None
    for i, size in enumerate(old):
        if size == n and math.prod(old[:i]) == before:
            return Unbatched([i], {**eqn.params, "new_sizes": (*new[:axis], 1, *new[axis + 1 :])})
    return None


def _transpose(eqn: JaxprEqn, axis: int, n: int) -> Unbatched:
    return Unbatched([eqn.params["permutation"][axis]], eqn.params)


def _slice(eqn: JaxprEqn, axis: int, n: int) -> Unbatched | None:
    starts, limits, strides = (eqn.params[k] for k in ("start_indices", "limit_indices", "strides"))
    if _shapes(eqn)[0][axis] != n or (strides is not None and strides[axis] != 1):
        return None
    assert starts[axis] == 0
    return Unbatched(
        [axis], {**eqn.params, "limit_indices": (*limits[:axis], 1, *limits[axis + 1 :])}
    )


def _pad(eqn: JaxprEqn, axis: int, n: int) -> Unbatched | None:
    is_row = eqn.params["padding_config"][axis] == (0, 0, 0)
    return Unbatched([axis, None], eqn.params) if is_row else None


def _without(name: str) -> UnbatchingRule:
    """Return the rule of primitives that remove the axes in this parameter."""

    def rule(eqn: JaxprEqn, axis: int, n: int) -> Unbatched:
        gone = eqn.params[name]
        kept = [d for d in range(len(_shapes(eqn)[0])) if d not in gone]
        return Unbatched([kept[axis]], eqn.params)

    return rule


def _along(name: str) -> UnbatchingRule:
    """Return the rule of primitives that treat all axes alike except those in this parameter."""

    def rule(eqn: JaxprEqn, axis: int, n: int) -> Unbatched | None:
        value = eqn.params[name]
        is_row = axis not in ((value,) if isinstance(value, int) else value)
        return Unbatched([axis] * len(eqn.invars), eqn.params) if is_row else None

    return rule


def _iota(eqn: JaxprEqn, axis: int, n: int) -> Unbatched | None:
    shape = eqn.params["shape"]
    if axis == eqn.params["dimension"] or eqn.invars:
        return None
    return Unbatched([], {**eqn.params, "shape": (*shape[:axis], 1, *shape[axis + 1 :])})


def _scan(eqn: JaxprEqn, axis: int, n: int) -> Unbatched | None:
    """Run one step: a loop without carries treats all rows alike."""
    constants, carries = _jax.scan_counts(eqn)
    if axis or carries or _jax.close(eqn.params["jaxpr"]).consts:
        return None
    rows = len(eqn.invars) - constants
    return Unbatched([*[None] * constants, *[0] * rows], {**eqn.params, "length": 1})


_REDUCED = ("sum", "prod", "max", "min", "and", "or", "xor")
_UNBATCHING_RULES: dict[str, UnbatchingRule] = {
    **dict.fromkeys(lax.ELEMENTWISE, _elementwise),
    **dict.fromkeys(["select_n", "clamp", "add_any", "stop_gradient"], _elementwise),
    **{f"reduce_{name}": _without("axes") for name in _REDUCED},
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _along("dimension"),
    "iota": _iota,
    "pad": _pad,
    "reshape": _reshape,
    "scan": _scan,
    "rev": _along("dimensions"),
    "slice": _slice,
    "squeeze": _without("dimensions"),
    "transpose": _transpose,
}
"""The unbatching rule of each primitive that may treat all rows alike."""


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
