"""Which elements an equation reads for one element of its result, and how steep it may be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Jaxpr, JaxprEqn, Literal, Var
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.loops import Loop

_CALLS = frozenset({"custom_jvp_call", "custom_vjp_call"})


def result_axes(eqn: JaxprEqn, i: int) -> Sequence[int | None]:
    """Return the axis of the result that each axis of the i-th operand becomes, or None."""
    found: list[int | None] = [None] * len(getattr(eqn.invars[i].aval, "shape", ()))
    for d, k in enumerate(operand_axes(eqn, i)):
        if k is not None:
            found[k] = d
    return found


def operand_axes(eqn: JaxprEqn, i: int) -> Sequence[int | None]:
    """Return the axis of the i-th operand that each axis of the result comes from, or None.

    An element of the result must depend on nothing of the operand but the elements at its own place
    along these axes. No axes are known of primitives that are not listed here.
    """
    x: Any = eqn.invars[i].aval
    if eqn.primitive.name in ("while", "scan"):
        return _of_loop(eqn, i)
    if len(eqn.outvars) != 1:
        return ()
    out: Any = eqn.outvars[0].aval
    if not hasattr(x, "shape"):
        return ()
    name, params = eqn.primitive.name, eqn.params
    if is_elementwise(eqn):
        if len(x.shape) != len(out.shape):
            return ()
        return [d if m == n else None for d, (m, n) in enumerate(zip(x.shape, out.shape))]  # noqa: B905
    if name in _CALLS:
        return _of_call(_jax.open_jaxpr(params["call_jaxpr"]), i)
    find = _AXES.get(name)
    return () if find is None else find(params, x.shape, out.shape, i)


def is_elementwise(eqn: JaxprEqn) -> bool:
    """Return whether an equation computes each element from those at its own place."""
    name = eqn.primitive.name
    if name in lax.ELEMENTWISE or name in ("add_any", "select_n", "clamp", "stop_gradient"):
        return True
    if name in _CALLS:
        jaxpr = _jax.open_jaxpr(eqn.params["call_jaxpr"])
        return all(map(_keeps_places, jaxpr.eqns))
    return False


def _keeps_places(eqn: JaxprEqn) -> bool:
    if eqn.primitive.name == "broadcast_in_dim":
        return not eqn.invars[0].aval.shape  # type: ignore[attr-defined]
    return is_elementwise(eqn)


def _of_loop(eqn: JaxprEqn, i: int) -> Sequence[int | None]:
    """Return the axes for a loop whose equations are elementwise, on arrays of one shape.

    What a loop stacks is not followed.
    """
    loop = Loop.of(eqn)
    condition = loop.condition.equations if loop.condition else ()
    shapes = {v.aval.shape for v in loop.inputs}
    if loop.stacked or len(shapes - {()}) > 1:
        return ()
    if not all(_keeps_places(e) for e in (*loop.equations, *condition)):
        return ()
    is_row = i >= len(eqn.invars) - len(loop.rows)
    return range(is_row, len(eqn.invars[i].aval.shape))  # type: ignore[attr-defined]


def _of_call(jaxpr: Jaxpr, i: int) -> Sequence[int | None]:
    """Return the axis of a program's i-th operand that each axis of its result comes from."""
    x: Any = jaxpr.invars[i]
    known: dict[Any, list[int | None]] = {x: list(range(len(x.aval.shape)))}
    for eqn in jaxpr.eqns:
        own = [
            [None if d is None else known[v][d] for d in operand_axes(eqn, k)]
            for k, v in enumerate(eqn.invars)
            if type(v) is Var and v in known
        ]
        for v in eqn.outvars if own else ():
            same = [a[0] if len(set(a)) == 1 else None for a in zip(*own)]  # noqa: B905
            rank = len(v.aval.shape)  # type: ignore[attr-defined]
            known[v] = [*same, *[None] * rank][:rank]
    return known.get(jaxpr.outvars[0], ())


def _of_broadcast(params: Any, x: Any, out: Any, i: int) -> list[int | None]:
    found: list[int | None] = [None] * len(out)
    for k, d in enumerate(params["broadcast_dimensions"]):
        found[d] = k if x[k] == out[d] else None
    return found


def _of_reshape(params: Any, x: Any, out: Any, i: int) -> list[int | None]:
    places: dict[Any, int] = {}
    before = 1
    for k, n in enumerate(x if params["dimensions"] is None else ()):
        places.setdefault((before, n), k)
        before *= n
    found: list[int | None] = []
    before = 1
    for n in out:
        found.append(places.get((before, n)) if n != 1 else None)
        before *= n
    return found


def _without(axes: Collection[int], rank: int) -> list[int | None]:
    return [d for d in range(rank) if d not in axes]


def _except(axes: Collection[int], rank: int) -> list[int | None]:
    return [None if d in axes else d for d in range(rank)]


def _of_slice(params: Any, x: Any, out: Any, i: int) -> list[int | None]:
    return [d if m == n else None for d, (m, n) in enumerate(zip(x, out, strict=True))]


def _of_pad(params: Any) -> list[int | None]:
    def is_zero(n: Any) -> bool:
        return isinstance(n, int | np.integer) and n == 0

    config = enumerate(params["padding_config"])
    return [d if all(map(is_zero, sizes)) else None for d, sizes in config]


def _of_stack(params: Any, x: Any, out: Any, i: int) -> list[int | None]:
    found: list[int | None] = [*range(len(x))]
    return [*found[: params["axis"]], None, *found[params["axis"] :]]


def _of_gather(params: Any, x: Any, out: Any, i: int) -> list[int | None]:
    found: list[int | None] = [None] * len(out)
    if i > 0:
        return found
    numbers = params["dimension_numbers"]
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    kept = (k for k in range(len(x)) if k not in dropped)
    for d, k in zip(numbers.offset_dims, kept, strict=True):
        is_whole = params["slice_sizes"][k] == x[k]
        found[d] = k if is_whole and k not in numbers.start_index_map else None
    return found


def _of_product(params: Any, x: Any, out: Any, i: int) -> list[int | None]:
    contracted, batch = (pair[i] for pair in params["dimension_numbers"])
    other = params["dimension_numbers"][1][0]
    free = [d for d in range(len(x)) if d not in (*contracted, *batch)]
    unknown: list[int | None] = [None] * (len(out) - len(other) - len(free))
    return [*batch, *free, *unknown] if i == 0 else [*batch, *unknown, *free]


def _of_batches(params: Any, x: Any, out: Any, i: int) -> list[int | None]:
    return list(range(len(x) - 2))


_AXES: Mapping[str, Any] = {
    "broadcast_in_dim": _of_broadcast,
    "reshape": _of_reshape,
    "transpose": lambda params, x, out, i: list(params["permutation"]),
    "squeeze": lambda params, x, out, i: _without(params["dimensions"], len(x)),
    **dict.fromkeys(
        [f"reduce_{name}" for name in ("sum", "prod", "max", "min", "and", "or", "xor")],
        lambda params, x, out, i: _without(params["axes"], len(x)),
    ),
    **dict.fromkeys(
        ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"),
        lambda params, x, out, i: _except([params["axis"]], len(x)),
    ),
    "rev": lambda params, x, out, i: _except(params["dimensions"], len(x)),
    "slice": _of_slice,
    "pad": lambda params, x, out, i: _of_pad(params) if i == 0 else (),
    "concatenate": lambda params, x, out, i: _except([params["dimension"]], len(x)),
    "stack": _of_stack,
    "gather": _of_gather,
    "dot_general": _of_product,
    "cholesky": _of_batches,
    "triangular_solve": _of_batches,
}
"""``find(params, operand shape, result shape, i)`` for primitives that are not elementwise."""


# --- Slopes ---------------------------------------------------------------------------------

_LINEAR = frozenset(
    {
        *("add", "sub", "neg", "add_any", "convert_element_type", "copy", "reduce_precision"),
        *("broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims", "reduce_sum"),
        *("slice", "pad", "rev", "concatenate", "select_n", "cumsum", "real", "imag", "complex"),
        *("conj", "dynamic_slice", "gather", "split", "stack", "unstack", "clamp"),
    }
)

_BOUNDED = frozenset(
    {
        *("mul", "square", "dot_general", "sin", "cos", "tanh", "atan", "logistic", "erf", "erfc"),
        *("abs", "sign", "floor", "ceil", "round"),
    }
)
"""Functions whose slope is finite wherever their operands are finite, as products are."""


def is_linear(eqn: JaxprEqn) -> bool:
    """Return whether derivatives of an equation multiply by finite numbers alone."""
    name = eqn.primitive.name
    if name in ("mul", "div"):
        factors: list[Any] = eqn.invars if name == "mul" else eqn.invars[1:]
        return any(isinstance(x, Literal) and np.isfinite(x.val) and x.val != 0 for x in factors)
    return name in _LINEAR


def is_bounded(eqn: JaxprEqn) -> bool:
    """Return whether the slopes of an equation are finite wherever its operands are finite."""
    name = eqn.primitive.name
    return name in _BOUNDED or (name == "integer_pow" and eqn.params["y"] >= 0) or is_linear(eqn)


def is_complex(v: Any) -> bool:
    """Return whether an atom holds complex numbers."""
    return getattr(getattr(v.aval, "dtype", None), "kind", "") == "c"


def is_inexact(v: Any) -> bool:
    """Return whether an atom holds real or complex numbers."""
    dtype: Any = getattr(v.aval, "dtype", None)
    kind = getattr(dtype, "kind", "")
    return kind in ("f", "c") or (kind == "V" and jax.numpy.issubdtype(dtype, np.inexact))
