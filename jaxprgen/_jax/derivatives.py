"""Programs with derivatives of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import ad_util as _ad_util
from jax._src import custom_derivatives as _custom
from jax._src import linear_util as _lu
from jax._src.interpreters import ad as _ad
from jax.extend.core import ClosedJaxpr

from jaxprgen._jax.types import ShapedArray

custom_jvp_call_p = _custom.custom_jvp_call_p
custom_vjp_call_p = _custom.custom_vjp_call_p

_ZEROS: tuple[Any, ...] = (_ad_util.SymbolicZero,)

# Newer rules for the reverse mode return what there is to log beside the cotangents.
_LOGS = hasattr(_ad, "CustomBwdWithAccums")


def tangent_type(aval: ShapedArray) -> ShapedArray:
    """The type of the tangents of values of a type; that of integers is ``float0``."""
    return aval.to_tangent_aval()  # type: ignore[return-value]


def custom_jvp_params(
    program: ClosedJaxpr, rule: Callable[[Sequence[bool]], ClosedJaxpr]
) -> dict[str, Any]:
    """Parameters of a ``custom_jvp_call`` equation.

    ``rule(zeros)`` gives a program that takes what this one does, then tangents of those whose
    tangent is not said to be zero; it returns what this one does, then tangents of those that
    have some: integers have none.
    """
    without = [tangent_type(aval).dtype == jax.dtypes.float0 for aval in program.out_avals]

    @functools.cache
    def jvp(*zeros: bool) -> tuple[Any, Any, list[bool]]:
        closed = rule(zeros)
        return closed.jaxpr, closed.consts, without

    return {
        "call_jaxpr": program,
        "jvp_jaxpr_fun": _lu.wrap_init(jvp, debug_info=program.jaxpr.debug_info),
        "num_consts": 0,
        "symbolic_zeros": True,
    }


def custom_vjp_params(
    program: ClosedJaxpr,
    forward: ClosedJaxpr,
    kept: Sequence[int],
    pullback: Callable[..., Sequence[Any]],
    refuse: Callable[[Sequence[bool]], None],
) -> dict[str, Any]:
    """Parameters of a ``custom_vjp_call`` equation.

    ``forward`` returns what ``pullback`` takes beside the inputs ``kept`` (before it) and the
    cotangents of the outputs (behind it), then the outputs. The pullback gives a cotangent for
    each input, or None. ``refuse`` is told with respect to which inputs is differentiated.
    """
    count = len(program.out_avals)
    extra = len(forward.out_avals) - count

    def fwd(*perturbed: bool) -> tuple[Any, Any]:
        refuse(perturbed)
        return forward.jaxpr, forward.consts

    def trees() -> tuple[Any, Any, list[int | None]]:
        out, residuals = ((0,) * n for n in (count, len(kept) + extra))
        return jax.tree.structure(out), jax.tree.structure(residuals), [*kept, *[None] * extra]

    def bwd(*operands: Any) -> Any:
        arrays = [np.zeros(x.shape, x.dtype) if type(x) in _ZEROS else x for x in operands]
        cotangents = [
            _ad_util.Zero(
                aval.to_ct_aval() if hasattr(aval, "to_ct_aval") else aval.to_tangent_aval()
            )
            if x is None
            else x
            for x, aval in zip(pullback(*arrays), program.in_avals, strict=True)
        ]
        return (cotangents, None) if _LOGS else cotangents

    info = program.jaxpr.debug_info
    return {
        "call_jaxpr": program,
        "fwd_jaxpr_thunk": _lu.wrap_init(fwd, debug_info=info),
        "num_consts": 0,
        "bwd": _lu.wrap_init(bwd, debug_info=info),
        "out_trees": trees,
        "symbolic_zeros": False,
    }
