"""Programs as text, with the names of the graph they came from."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxprgen.errors import ArgumentTypeError
from jaxprgen.ir.describe import bound_variables, variable_names
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.observe import Observable, Observation
from jaxprgen.texts import visible_lines

WIDTH = 100


def pretty(
    f: CompiledFunction | Observation | ClosedJaxpr | Callable[..., Any],
    *args: Any,
    names: bool = True,
    source: bool = False,
    shapes: bool = True,
    color: bool | None = None,
) -> str:
    """Return a program as JAX prints it, with the names of the graph it came from.

    Parameters
    ----------
    f
        A compiled function, the result of `CompiledFunction.observe`, a program, or any function
        that JAX can trace. The equations of ``jax.grad(f)`` still carry the names they came from.
    args
        The arguments to specialize the program for, as for `CompiledFunction.jaxpr`. A program
        and an observation take none: to pass arguments by name, give ``f.observe(x=1.0)``.
    names
        Write the graph's names instead of JAX's letters.
    source
        Add the user's source line to each equation.
    shapes
        Add its type to each variable where it is bound.
    color
        Use colors. By default they are used on a terminal, unless ``NO_COLOR`` is set (see
        https://no-color.org).

    Returns
    -------
    str
        The program, over several lines of at most 100 characters where possible.

    Raises
    ------
    ArgumentTypeError
        ``f`` is none of the above.
    """
    closed, own = program_of(f, *args)
    if color is None:
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        color = bool(is_terminal and not os.environ.get("NO_COLOR"))
    known = variable_names(closed.jaxpr, own) if names else {}
    text = _jax.pretty_jaxpr(
        closed.jaxpr, known, source=source, shapes=shapes, color=color, width=WIDTH
    )
    return text if color else visible_lines(text)


def program_of(f: Any, *args: Any) -> tuple[ClosedJaxpr, Mapping[Var, str]]:
    """Return the program of anything that `pretty` takes, and the user's names in it."""
    if isinstance(f, Observable):
        f = f.observe(*args)
    if isinstance(f, Observation):
        return f.closed_jaxpr, f.names
    if isinstance(f, ClosedJaxpr):
        return f, {}
    if not callable(f):
        raise ArgumentTypeError(
            "Expected a compiled function, a program (ClosedJaxpr) or a function that JAX can "
            f"trace, got {type(f).__name__}. Compile a graph first: jaxprgen.compile."
        )
    return jax.make_jaxpr(f)(*args), {}


def diff(before: ClosedJaxpr, after: ClosedJaxpr, names: Mapping[Var, str] | None = None) -> str:
    """Return the difference between two programs as a unified diff of their text.

    A variable that both programs share has one name in both. If they share none, because one was
    emitted anew, variables are matched by position and by the equations that compute them.

    Parameters
    ----------
    before, after
        The programs, such as those before and after a pass.
    names
        The user's names of variables of either program, such as `Observation.names`.

    Returns
    -------
    str
        The diff; empty if the programs are equal.
    """
    known = dict(names or {})
    first, second = (p.jaxpr for p in (before, after))
    if known.keys() & set(bound_variables(second)):  # Name the user's program first.
        first, second = second, first
    known.update(variable_names(first, known))
    if known.keys().isdisjoint(bound_variables(second)):
        known.update(_matching_names(second, first, known))
    known.update(variable_names(second, known))

    old, new = (
        _jax.pretty_jaxpr(p.jaxpr, known, source=False, shapes=True, color=False, width=WIDTH)
        for p in (before, after)
    )
    rows = difflib.unified_diff(old.splitlines(), new.splitlines(), "before", "after", lineterm="")
    return "\n".join(rows)


def _matching_names(jaxpr: Jaxpr, other: Jaxpr, names: Mapping[Var, str]) -> dict[Var, str]:
    """Names for the variables of ``jaxpr`` that match a variable of ``other``.

    Inputs match by position, results where equal equations read matching operands.
    """
    found: dict[Any, str] = {}
    named: Mapping[Any, str] = names
    for mine, theirs in ((jaxpr.constvars, other.constvars), (jaxpr.invars, other.invars)):
        if len(mine) == len(theirs):
            found.update((v, named[w]) for v, w in zip(mine, theirs, strict=True) if w in named)
    made: dict[Any, list[Any]] = {}
    for eqn in other.eqns:
        made.setdefault(_equation_key(eqn, named), []).append(eqn.outvars)
    for eqn in jaxpr.eqns:
        equal = made.get(_equation_key(eqn, found))
        if equal:
            pairs = zip(eqn.outvars, equal.pop(0), strict=True)
            found.update((v, named[w]) for v, w in pairs if w in named)
    return found


def _equation_key(eqn: JaxprEqn, names: Mapping[Any, str]) -> Any:
    """What an equation computes, in terms of names."""
    operands = (names.get(x, x) if type(x) is Var else str(x) for x in eqn.invars)
    return eqn.primitive, str(eqn.params), *operands
