"""Verification of finished programs."""

from __future__ import annotations

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.errors import EquationError


def verify(closed: ClosedJaxpr) -> None:
    """Raise `EquationError` unless every variable is bound once and before it is read.

    With JAX's own flag ``jax_enable_checks`` on, `jax.extend.core.check_jaxpr` types every
    equation anew; that costs more than emitting does, so it is for tests and debugging.
    """
    jaxpr = closed.jaxpr
    bound = {*jaxpr.constvars, *jaxpr.invars}
    for eqn in jaxpr.eqns:
        for x in eqn.invars:
            if type(x) is Var and x not in bound:
                raise EquationError(f"{eqn.primitive} reads a variable of another program: {eqn}")
        for v in eqn.outvars:
            if v in bound:
                raise EquationError(f"{eqn.primitive} binds a variable a second time: {eqn}")
            bound.add(v)
    for x in jaxpr.outvars:
        if type(x) is Var and x not in bound:
            raise EquationError("The program returns a variable of another program.")
    if _jax.checks_enabled.value:
        _jax.check_jaxpr(jaxpr)
