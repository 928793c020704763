"""Programs as text, with the graph's own names."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import jax

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, Var
from jaxprgen.errors import ArgumentTypeError
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.observe import Observation
from jaxprgen.tools.names import binder_names, bound, corresponding

WIDTH = 100


def pretty(
    f: CompiledFunction | Observation | ClosedJaxpr | Callable[..., Any],
    *args: Any,
    names: bool = True,
    source: bool = False,
    shapes: bool = True,
    color: bool | None = None,
) -> str:
    """A program as JAX prints it, with the names of the graph it came from.

    Parameters
    ----------
    f
        A compiled function, or what `CompiledFunction.observe` returned; or a program; or any
        function that JAX can trace, as `jax.grad` of a compiled function, whose equations still
        carry the names they came from.
    args
        The arguments the program is for, as for `CompiledFunction.jaxpr`; none for a program.
    names
        Whether to write the graph's names, or JAX's letters.
    source
        Whether to add the user's line to each equation.
    shapes
        Whether to add its type to each variable that is bound.
    color
        Whether to colour the text. By default on a terminal, unless ``NO_COLOR`` is set (see
        https://no-color.org).
    """
    closed, own = program_of(f, *args)
    return _jax.pretty_jaxpr(
        closed.jaxpr,
        binder_names(closed.jaxpr, own) if names else {},
        source=source,
        shapes=shapes,
        color=use_color() if color is None else color,
        width=WIDTH,
    )


def program_of(f: Any, *args: Any) -> tuple[ClosedJaxpr, Mapping[Var, str]]:
    """The program of what `pretty` takes, and the user's names of its variables."""
    if isinstance(f, CompiledFunction):
        f = f.observe(*args)
    if isinstance(f, Observation):
        return f.closed_jaxpr, f.names
    if isinstance(f, ClosedJaxpr):
        return f, {}
    if not callable(f):
        raise ArgumentTypeError(
            f"This is about compiled functions, programs (ClosedJaxpr) and functions that JAX can "
            f"trace, not {type(f).__name__}. Compile a graph first: jaxprgen.compile."
        )
    return jax.make_jaxpr(f)(*args), {}


def use_color() -> bool:
    """Whether standard output is a terminal, and the user does not mind colours."""
    return sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def diff(before: ClosedJaxpr, after: ClosedJaxpr, names: Mapping[Var, str] | None = None) -> str:
    """What a pass changed, as a unified diff of the two programs' texts; empty if nothing.

    A variable that is in both has one name in both. If none is, as where a program was built
    anew, variables have one name that correspond.

    Parameters
    ----------
    before, after
        The programs.
    names
        The user's names of variables, such as `Observation.names`.
    """
    known = dict(names or {})
    first, second = (p.jaxpr for p in (before, after))
    if known.keys() & set(bound(second)):  # Whose names are the user's.
        first, second = second, first
    known.update(binder_names(first, known))
    if known.keys().isdisjoint(bound(second)):
        known.update(corresponding(second, first, known))
    known.update(binder_names(second, known))

    def lines(program: ClosedJaxpr) -> list[str]:
        return _jax.pretty_jaxpr(
            program.jaxpr, known, source=False, shapes=True, color=False, width=WIDTH
        ).splitlines()

    return "\n".join(
        difflib.unified_diff(lines(before), lines(after), "before", "after", lineterm="")
    )
