"""Checks at run time, for `jax.experimental.checkify`."""

from __future__ import annotations

from jaxprgen import _jax
from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import Value, atom
from jaxprgen.ir import Builder


def check(b: Builder, condition: Value, message: str) -> None:
    """Fail with a message where a boolean scalar is false.

    The program must then be run through `jax.experimental.checkify.checkify`.
    """
    code, params = _jax.check_params(message)
    failed = atom(b, ew.invert(b, condition))
    b.bind_multiple(_jax.check_p, (failed, b.literal(code)), params)
