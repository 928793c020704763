"""Functions that bring their own derivative, as `jax.custom_jvp` does."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jax._src import linear_util as _linear_util
from jax._src.custom_derivatives import custom_jvp_call_p as custom_jvp_call_p
from jax.extend.core import ClosedJaxpr

from jaxprgen._jax.programs import open_jaxpr


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
        "jvp_jaxpr_fun": _linear_util.wrap_init(jvp_jaxpr, debug_info=debug_info),
        "num_consts": constants,
        "symbolic_zeros": True,
    }
