"""Rewriting: apply a change to a program and to those inside its equations, the innermost first."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir.builder import Atom, Builder
from jaxprgen.ir.inner import holder_of, with_programs
from jaxprgen.ir.liveness import are_same, live_equations
from jaxprgen.ir.programs import assembled, in_form_of, verify

Change: TypeAlias = Callable[[ClosedJaxpr], ClosedJaxpr]


def each_program(closed: ClosedJaxpr, change: Change) -> ClosedJaxpr:
    """Apply a change to a program and to those inside its equations, the innermost first.

    Each program is changed once, however often it is called. Programs under ``shard_map`` are left
    alone: their types depend on a mesh that is not set here.

    Parameters
    ----------
    closed : ClosedJaxpr
        The program.
    change : callable
        ``change(program)`` returns a program with the same inputs and with outputs of the same
        types, or the program it was given.

    Returns
    -------
    ClosedJaxpr
        The changed program, verified; the one that was given if nothing changes.
    """
    known: dict[int, tuple[Any, Any]] = {}  # By identity; this keeps them alive.

    def changed(program: Any) -> Any:
        if id(program) not in known:
            closed = _jax.close(program)
            equations = [inside(eqn) for eqn in closed.jaxpr.eqns]
            if not are_same(equations, closed.jaxpr.eqns):
                closed = with_equations(closed, equations)
            found = change(closed)
            is_same = found.jaxpr is _jax.open_jaxpr(program)
            known[id(program)] = program, program if is_same else in_form_of(program, found)
        return known[id(program)][1]

    def inside(eqn: JaxprEqn) -> JaxprEqn:
        holder = holder_of(eqn)
        if holder is None or holder.kind == "shard_map":
            return eqn
        return with_programs(eqn, [changed(x.program) for x in holder.find(eqn)])

    found = changed(closed)
    if found is not closed:
        verify(found)
    return found


def rewritten(
    closed: ClosedJaxpr,
    primitives: Container[str],
    rule: Callable[[JaxprEqn], Sequence[JaxprEqn] | None],
) -> ClosedJaxpr:
    """Replace equations of some primitives, in a program and in those inside its equations.

    Parameters
    ----------
    closed : ClosedJaxpr
        The program.
    primitives : container of str
        The names of the primitives.
    rule : callable
        ``rule(eqn)`` returns equations that bind the same variables, or None to keep the equation.
        Programs inside the equation are rewritten already, and dead code is removed before and
        after, including carries of loops that are not read.

    Returns
    -------
    ClosedJaxpr
        The rewritten program; the one that was given if no equation was replaced.
    """

    def change(program: ClosedJaxpr) -> ClosedJaxpr:
        if not any(eqn.primitive.name in primitives for eqn in program.jaxpr.eqns):
            return program
        live, _ = live_equations(program.jaxpr.eqns, program.jaxpr.outvars)
        found = [(e, rule(e) if e.primitive.name in primitives else None) for e in live]
        if all(new is None for _, new in found):
            return program
        equations = [e for old, new in found for e in ([old] if new is None else new)]
        return with_equations(program, equations)

    return each_program(closed, change)


def with_equations(
    closed: ClosedJaxpr,
    equations: Sequence[JaxprEqn],
    outputs: Sequence[Any] | None = None,
    more: Mapping[Any, Any] = MappingProxyType({}),
) -> ClosedJaxpr:
    """Return a program with other equations, without the dead ones.

    Parameters
    ----------
    closed : ClosedJaxpr
        The program.
    equations : sequence of JaxprEqn
        The equations, in order.
    outputs : sequence of atoms, optional
        Other outputs, of the same types.
    more : mapping of Var to value
        Constants beside those of the program.
    """
    jaxpr = closed.jaxpr
    outputs = list(jaxpr.outvars if outputs is None else outputs)
    kept, live = live_equations(equations, outputs)
    constants = [*zip(jaxpr.constvars, closed.consts, strict=True), *more.items()]
    constants = [(v, x) for v, x in constants if v in live]
    return assembled(closed, kept, outputs=outputs, constants=constants)


def without_lines(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a traced program without the lines on which JAX was tracing it."""

    def change(program: ClosedJaxpr) -> ClosedJaxpr:
        equations = [
            e.replace(source_info=_jax.without_line(e.source_info)) for e in program.jaxpr.eqns
        ]
        return with_equations(program, equations)

    return each_program(closed, change)


def without_values(closed: ClosedJaxpr, variables: Sequence[Any], change: Change) -> ClosedJaxpr:
    """Apply a change that must not rely on the values of some constants.

    Parameters
    ----------
    closed : ClosedJaxpr
        The program.
    variables : sequence
        These constants, by identity: their values differ each time the program runs. To the change
        they are inputs.
    change : callable
        The change, as for `each_program`.
    """
    if not variables:
        return change(closed)
    own, jaxpr = {id(x) for x in variables}, closed.jaxpr
    pairs = [*zip(jaxpr.constvars, closed.consts, strict=True)]
    held = [(v, x) for v, x in pairs if id(x) in own]
    others = [(v, x) for v, x in pairs if id(x) not in own]
    inputs, count = [*jaxpr.invars, *(v for v, _ in held)], len(jaxpr.invars)
    found = change(assembled(closed, jaxpr.eqns, inputs=inputs, constants=others))
    inputs, outputs = found.jaxpr.invars, found.jaxpr.outvars
    constants = [*zip(inputs[count:], (x for _, x in held), strict=True)]
    constants += zip(found.jaxpr.constvars, found.consts, strict=True)
    inputs = inputs[:count]
    return assembled(closed, found.jaxpr.eqns, inputs=inputs, outputs=outputs, constants=constants)


def as_weak_as(b: Builder, x: Atom, v: Var) -> Atom:
    """Return a value with a weak type if a variable has one, and without if it has none."""
    is_weak = getattr(v.aval, "weak_type", False)  # Not all values are arrays.
    if getattr(x.aval, "weak_type", False) == is_weak:
        return x
    params = {"new_dtype": x.aval.dtype, "weak_type": is_weak, "sharding": None}
    return b.bind(_jax.primitive("convert_element_type"), (x,), params)
