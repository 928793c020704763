"""Checks at run time, for `jax.experimental.checkify`."""

from __future__ import annotations

from jaxprgen import _jax
from jaxprgen.emit.values import Value
from jaxprgen.ir import current_builder


def check(condition: Value, message: str) -> None:
    """Fail with a message where a boolean scalar is false.

    The program must then be run through `jax.experimental.checkify.checkify`.
    """
    b = current_builder()
    code, params = _jax.check_params(message)
    failed = (~condition).atom()
    b.bind_multiple(_jax.check_p, (failed, b.literal(code)), params)
