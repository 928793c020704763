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

from jaxprgen._jax.programs import open_jaxpr
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
    closed: ClosedJaxpr,
    derivative: Callable[..., tuple[ClosedJaxpr, Sequence[bool]]],
    constants: int = 0,
) -> dict[str, Any]:
    """The parameters of a ``custom_jvp_call`` equation, whose first operands are constants.

    ``derivative`` is asked when JAX differentiates. It is told which tangents are zero, one
    boolean for each operand behind the constants, and returns the program from these operands
    and the tangents that are not zero to the outputs and those of their tangents that are not,
    and which are.
    """

    @functools.cache
    def jvp_jaxpr(*zeros: bool) -> tuple[Any, Any, list[bool]]:
        program, zeros_out = derivative(*zeros)
        return open_jaxpr(program), program.consts, list(zeros_out)

    debug_info = open_jaxpr(closed).debug_info
    return {
        "call_jaxpr": closed,
        "jvp_jaxpr_fun": _lu.wrap_init(jvp_jaxpr, debug_info=debug_info),
        "num_consts": constants,
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
