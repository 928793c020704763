"""Interpreters of one's own: what runs a JAX program with other rules, or on other values.

`Interpreter` is a table of rules by primitive, a default for the others, and a `Domain`, which says
what the values are. It makes functions of functions, as `jax.grad` does; ``docs/interpreters.md``
teaches it.
"""

from jaxprgen.interpreters.context import Context, Domain, Rule, evaluate, refuse
from jaxprgen.interpreters.interpreter import Interpreter
from jaxprgen.interpreters.programs import STEPWISE, TRACED

__all__ = ["STEPWISE", "TRACED", "Context", "Domain", "Interpreter", "Rule", "evaluate", "refuse"]
