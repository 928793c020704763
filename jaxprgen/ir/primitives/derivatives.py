"""Programs that bring their own derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.ir.builder import Atom, Builder


def custom_jvp_call(
    b: Builder,
    program: ClosedJaxpr,
    derivative: Callable[..., tuple[ClosedJaxpr, Sequence[bool]]],
    operands: Sequence[Atom],
) -> list[Var]:
    """``program`` of the operands; for ``derivative`` see `jaxprgen._jax.custom_jvp_params`."""
    closed, constants = _jax.hoist_constants(program)
    params = _jax.custom_jvp_params(closed, derivative, len(constants))
    leading = [b.constant(array) for array in constants]
    return b.call(_jax.custom_jvp_call_p, closed, [*leading, *operands], params)
