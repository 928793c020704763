"""Inline calls, and splice the equations of a builder into another program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir import Atom, Builder
from jaxprgen.ir.liveness import are_same
from jaxprgen.ir.rewriting import as_weak_as, each_program, with_equations
from jaxprgen.passes.meaning import Meaning


@dataclass(frozen=True)
class Inline:
    """Replace ``jit`` calls by the equations of the programs they call.

    Rewrite rules and other passes then match across calls; many functions of `jax.numpy` and
    `jax.nn` are such calls. Calls with further requirements stay, such as a device or donated
    arguments, and so do functions with custom derivatives.
    """

    meaning = Meaning.SAME_BITS

    def __call__(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program without these calls, or the given one if it has none.

        Parameters
        ----------
        closed : ClosedJaxpr
            The program. It is not changed.
        """
        return each_program(closed, with_calls_inlined)


def with_calls_inlined(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program with its own calls inlined; inner programs stay as they are."""
    found = [x for e in closed.jaxpr.eqns for x in inlined(e)]
    return closed if are_same(found, closed.jaxpr.eqns) else with_equations(closed, found)


def with_lone_calls_inlined(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program with the calls inlined whose programs are called once.

    Such are the values and the gradients of a function under `jax.jit`, but not the steps of a loop
    of Python that call one function.
    """
    called = (e.params["jaxpr"] for e in _jax.every_equation(closed.jaxpr) if _is_call(e))
    calls = Counter(id(_jax.open_jaxpr(program)) for program in called)
    lone = {program for program, count in calls.items() if count == 1}
    found = [x for e in closed.jaxpr.eqns for x in inlined(e, lone)]
    return closed if are_same(found, closed.jaxpr.eqns) else with_equations(closed, found)


def _is_call(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name == "jit"


def inlined(eqn: JaxprEqn, programs: Collection[int] | None = None) -> list[JaxprEqn]:
    """Return the equations of a called program, recursively, or the equation if it must stay.

    Only programs of these identities are inlined, or any.
    """
    if not _is_call(eqn) or eqn.effects or not _jax.is_bare_call(eqn):
        return [eqn]
    if programs is not None and id(_jax.open_jaxpr(eqn.params["jaxpr"])) not in programs:
        return [eqn]
    b = Builder.in_place_of(eqn)
    given: Any = eqn.invars
    results = b.inline(_jax.close(eqn.params["jaxpr"]), given)
    return [x for e in bound_to(b, results, eqn.outvars) for x in inlined(e, programs)]


def bound_to(b: Builder, results: Sequence[Atom], variables: Sequence[Any]) -> list[JaxprEqn]:
    """Return a builder's equations, which bind its results to variables of another program.

    Parameters
    ----------
    b : Builder
        The builder.
    results : sequence of Atom
        The results, one for each variable.
    variables : sequence of Var or DropVar
        The variables. Results for a ``DropVar`` are not bound.
    """
    names: dict[Any, Any] = {}
    pairs = zip(results, variables, strict=True)
    results = [as_weak_as(b, x, v) if type(v) is Var else x for x, v in pairs]
    made = {v for e in b.equations_from(0) for v in e.outvars}
    for x, v in zip(results, variables, strict=True):
        if type(v) is not Var:
            continue
        is_new = type(x) is Var and x in made and x not in names
        names[x if is_new else b.bind_multiple(_jax.primitive("copy"), [x], {})[0]] = v
    return [
        e.replace(
            invars=[names.get(x, x) if type(x) is Var else x for x in e.invars],
            outvars=[names.get(v, v) for v in e.outvars],
        )
        for e in b.equations_from(0)
    ]
