"""Interpreters of one's own: run a JAX program with other rules, or on other values.

An `Interpreter` is a table of rules by primitive, a default rule for the rest, and a `Domain` that
says what values are. Like `jax.grad`, it turns functions into functions. ``docs/interpreters.md``
is a tutorial.
"""

from jaxprgen.interpreters.interpreter import (
    STEPWISE,
    TRACED,
    Context,
    Domain,
    Interpreter,
    PrimitiveRule,
    bind,
    refuse,
)

__all__ = [
    "STEPWISE",
    "TRACED",
    "Context",
    "Domain",
    "Interpreter",
    "PrimitiveRule",
    "bind",
    "refuse",
]
