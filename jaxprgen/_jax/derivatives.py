"""Calls of programs with custom derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import (
    ad_util as _ad_util,
    custom_derivatives as _custom,
    dispatch as _dispatch,
    linear_util as _lu,
)
from jax._src.lib.mlir.dialects import hlo as _hlo
from jax.interpreters import ad as _ad, batching as _batching, mlir as _mlir

from jaxprgen._jax.core import ClosedJaxpr, Primitive
from jaxprgen._jax.programs import open_jaxpr
from jaxprgen._jax.types import ShapedArray

custom_jvp_call_p = _custom.custom_jvp_call_p
custom_vjp_call_p = _custom.custom_vjp_call_p

_SymbolicZero: Any = _ad_util.SymbolicZero
_cotangent_type: Any = getattr(ShapedArray, "to_ct_aval", ShapedArray.to_tangent_aval)

# Where JAX has logs of backward passes, `bwd` returns a pair: the cotangents, and values to log.
_LOGS = hasattr(jax.custom_vjp, "defvjp_with_logs")


def tangent_type(aval: ShapedArray) -> ShapedArray:
    """Return the type of tangents of values of a type; integers have ``float0`` tangents."""
    return aval.to_tangent_aval()  # type: ignore[return-value]


def custom_jvp_params(
    closed: ClosedJaxpr,
    derivative: Callable[..., tuple[ClosedJaxpr, Sequence[bool]]],
    constants: int = 0,
) -> dict[str, Any]:
    """Return the parameters of a ``custom_jvp_call`` equation.

    Parameters
    ----------
    closed
        The program to call.
    derivative
        A function that JAX calls when it differentiates the equation. Its arguments are booleans,
        one per operand after the constants: whether the tangent is zero. It returns a program and
        one boolean per output, which is true if the tangent of the output is zero. The program
        takes these operands and their nonzero tangents, and returns the outputs and their nonzero
        tangents.
    constants
        The number of leading operands that are constants.
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
    """Return the parameters of a ``custom_vjp_call`` equation.

    Parameters
    ----------
    program
        The program to call.
    forward
        The program for the forward pass. It returns the residuals and then the outputs.
    kept
        The positions of the inputs that ``pullback`` takes.
    pullback
        A function of the kept inputs, the residuals and the cotangents of the outputs. It returns
        one cotangent, or None for zero, per input.
    refuse
        A function that JAX calls with one boolean per input: whether JAX differentiates with
        respect to it. The function may raise an error.
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
        arrays = [np.zeros(x.shape, x.dtype) if type(x) is _SymbolicZero else x for x in operands]
        cotangents = [
            _ad_util.Zero(_cotangent_type(aval)) if x is None else x
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


# --- A tangent that reverse mode refuses ---------------------------------------------------


def _refuse(cotangent: Any, x: Any, *, refuse: Callable[[], Exception]) -> Any:
    raise refuse()


def _batched(xs: Any, axes: Any, **params: Any) -> Any:
    return forward_only_p.bind(*xs, **params), axes[0]


forward_only_p = Primitive("forward_only")
"""Returns its operand, a tangent; its transpose raises the error that ``refuse`` returns."""
forward_only_p.def_impl(lambda x, *, refuse: x)
forward_only_p.def_abstract_eval(lambda x, *, refuse: x)
_ad.deflinear2(forward_only_p, _refuse)
_batching.primitive_batchers[forward_only_p] = _batched
_mlir.register_lowering(forward_only_p, lambda ctx, x, *, refuse: [x])


# --- A tangent that a choice of a whole array keeps or drops --------------------------------


def _chosen_along(primals: Any, tangents: Any) -> Any:
    predicate, zeros, _ = primals
    moved = tangents[2]
    is_still = type(moved) is _ad_util.Zero
    return chosen_p.bind(*primals), moved if is_still else chosen_p.bind(predicate, zeros, moved)


def _chosen_batched(operands: Any, axes: Any) -> Any:
    pairs = [*zip(operands, axes, strict=True)]
    size = next(x.shape[d] for x, d in pairs if d is not None)
    return chosen_p.bind(*(_batching.bdim_at_front(x, d, size) for x, d in pairs)), 0


chosen_p = Primitive("chosen")
"""``chosen(predicate, zeros, x)`` returns ``x`` where the predicate holds, and zeros elsewhere.

``x`` is a tangent. The transpose by ``x`` is the identity: whoever binds this masks all that ``x``
depends on, so that cotangents from where the predicate does not hold are dropped there.
"""
chosen_p.def_impl(lambda *xs: _dispatch.apply_primitive(chosen_p, *xs))
chosen_p.def_abstract_eval(lambda predicate, zeros, x: x)
_ad.primitive_jvps[chosen_p] = _chosen_along
_ad.primitive_transposes[chosen_p] = lambda cotangent, *_: [None, None, cotangent]
_batching.primitive_batchers[chosen_p] = _chosen_batched
_mlir.register_lowering(chosen_p, lambda ctx, p, zeros, x: [_hlo.select(p, x, zeros)])
