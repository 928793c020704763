"""Whole programs: assemble one from parts, count its equations, verify it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprgen.errors import EquationError
from jaxprgen.ir.inner import inner_programs

# --- Parts of programs -------------------------------------------------------------------


def count_equations(program: Jaxpr | ClosedJaxpr) -> int:
    """Return the number of equations of a program, including those of programs inside equations.

    A program that is called twice counts twice.
    """
    return int(summed(_jax.open_jaxpr(program).eqns, lambda eqn: 1))


def summed(
    eqns: Iterable[JaxprEqn],
    own: Callable[[JaxprEqn], float],
    known: dict[int, float] | None = None,
) -> float:
    """Return the sum of a number of each equation, those inside them included.

    A program counts as often as equations call it, and is read once; ``known`` has its number.
    """
    known, found = {} if known is None else known, 0.0
    for eqn in eqns:
        found += own(eqn)
        for inner in inner_programs(eqn):
            jaxpr = _jax.open_jaxpr(inner.program)
            key = _jax.identity(jaxpr)
            if key not in known:
                known[key] = summed(jaxpr.eqns, own, known)
            found += known[key]
    return found


def assembled(
    model: Jaxpr | ClosedJaxpr,
    equations: Sequence[JaxprEqn],
    *,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    constants: Sequence[tuple[Any, Any]] | None = None,
) -> ClosedJaxpr:
    """Return a program of these equations that is otherwise like another one.

    Parameters
    ----------
    model : ClosedJaxpr or Jaxpr
        The other program.
    equations : sequence of JaxprEqn
        The equations, in order.
    inputs, outputs : sequence of atoms, optional
        Inputs and outputs; by default those of the model. They have its names if they are as many.
    constants : sequence of (Var, value) pairs, optional
        Constants; by default those of the model.
    """
    closed = _jax.close(model)
    jaxpr, debug = closed.jaxpr, closed.jaxpr.debug_info
    invars: Any = jaxpr.invars if inputs is None else inputs
    outvars: Any = jaxpr.outvars if outputs is None else outputs
    if constants is None:
        constants = list(zip(jaxpr.constvars, closed.consts, strict=True))
    return _jax.closed_jaxpr(
        invars,
        outvars,
        equations,
        constants,
        name=debug.func_src_info,
        arg_names=debug.arg_names,
        result_names=debug.result_paths,  # type: ignore[arg-type]
        of=jaxpr,
    )


def outlined(equations: Sequence[JaxprEqn], outputs: Sequence[Any], name: str) -> ClosedJaxpr:
    """Return a program of equations of another one; its inputs are what they read from outside."""
    made = {v for eqn in equations for v in eqn.outvars}
    read: dict[Any, None] = dict.fromkeys(x for e in equations for x in e.invars if type(x) is Var)
    return _jax.closed_jaxpr([v for v in read if v not in made], outputs, equations, name=name)


def in_form_of(model: Any, closed: ClosedJaxpr) -> Any:
    """Return a closed program as the kind that the model is: open where that is open."""
    return closed if isinstance(model, ClosedJaxpr) else closed.jaxpr


def parts(xs: list[Any], *counts: int) -> list[list[Any]]:
    """Split a list into consecutive parts of these lengths, and the rest."""
    ends = [0, *itertools.accumulate(counts), len(xs)]
    return [xs[start:end] for start, end in itertools.pairwise(ends)]


# --- Verification ------------------------------------------------------------------------


def verify(program: ClosedJaxpr) -> None:
    """Check that programs bind every variable once, before they read it.

    Programs inside equations are checked, too. With JAX's flag ``jax_enable_checks``, JAX also
    checks the types of every equation. That costs more than emission, so it is for tests and
    debugging.

    Raises
    ------
    EquationError
        An equation reads a variable that is not bound before it, or binds a variable a second
        time, or holds a program whose numbers of inputs and outputs do not fit the equation.
    """
    for jaxpr in _jax.every_jaxpr(program.jaxpr):
        _verify(jaxpr)
    if _jax.checks_enabled.value:
        _jax.check_jaxpr(program.jaxpr)


def _verify(jaxpr: Jaxpr) -> None:
    bound: set[Any] = {*jaxpr.constvars, *jaxpr.invars}
    for eqn in jaxpr.eqns:
        for x in eqn.invars:
            if type(x) is Var and x not in bound:
                raise EquationError(
                    f"{eqn.primitive} reads a variable that is not bound before it: {eqn}"
                )
        for v in eqn.outvars:
            if v in bound:
                raise EquationError(f"{eqn.primitive} binds a variable a second time: {eqn}")
            bound.add(v)
        for inner in inner_programs(eqn):
            own = _jax.open_jaxpr(inner.program)
            counts = len(own.invars), len(own.outvars)
            if counts != (len(inner.operands), len(inner.results)):
                raise EquationError(
                    f"{eqn.primitive} holds a program with {counts[0]} inputs and {counts[1]} "
                    f"outputs, but needs {len(inner.operands)} and {len(inner.results)}: {eqn}"
                )
    for x in jaxpr.outvars:
        if type(x) is Var and x not in bound:
            raise EquationError("The program returns a variable that it does not bind.")
