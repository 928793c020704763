"""Explanations of what a program repeats, and of the branches that it guards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprgen import _jax
from jaxprgen._jax import ClosedJaxpr, JaxprEqn, Var
from jaxprgen.ir.describe import atom_text, innermost_frame, variable_names
from jaxprgen.passes import DEFAULT, GuardBranches, Pass, Pipeline
from jaxprgen.passes.repeat_notes import Repeats, listening
from jaxprgen.runtime.compiled import CompiledFunction
from jaxprgen.runtime.observe import Observable, Observation
from jaxprgen.texts import visible
from jaxprgen.tools.text import program_of


def explain_repeats(
    f: CompiledFunction | Observation | ClosedJaxpr | Callable[..., Any],
    *args: Any,
    passes: Sequence[Pass] = DEFAULT,
) -> Repeats:
    """Explain what `VmapRepeats` and `ScanRepeats` find in a program, and what they leave alone.

    Parameters
    ----------
    f, args
        As for `jaxprgen.inspect.pretty`.
    passes : sequence of Pass
        The passes to explain. Compiled functions are explained by their own passes instead.

    Returns
    -------
    Repeats
        What became a batched computation or a loop, and what repeats but was left alone, with the
        reason; ``str`` describes it.

    Raises
    ------
    ArgumentTypeError
        ``f`` is not a program, or ``passes`` is not a sequence of passes.
    """
    if isinstance(f, Observable):
        f = f.observe(*args)
    if isinstance(f, Observation):
        return f.repeats
    with listening() as notes:
        Pipeline(passes)(program_of(f, *args)[0])
    return notes.repeats()


_SIGNS = {"gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!="}
_KEPT = ("broadcast_in_dim", "reshape", "transpose", "squeeze", "convert_element_type", "copy")


class Guard(NamedTuple):
    """A value that a branch reads, and whose derivative is zero where the branch is not taken.

    Attributes
    ----------
    variable : str
        The value.
    predicate : str
        Where the branch is taken, such as ``"x > 0.0"``.
    line : str
        The user's line that computes with the value; empty if it is not known.
    """

    variable: str
    predicate: str
    line: str

    def __str__(self) -> str:
        return f"{self.variable} where {self.predicate}" + (f", {self.line}" if self.line else "")


def explain_guards(
    f: CompiledFunction | Observation | ClosedJaxpr | Callable[..., Any], *args: Any
) -> list[Guard]:
    """Explain which branches `GuardBranches` guards, by which predicates, on which lines.

    Parameters
    ----------
    f, args
        As for `jaxprgen.inspect.pretty`. To a program without guards, the pass is applied.

    Returns
    -------
    list of Guard
        The guards, in the order of the program.

    Raises
    ------
    ArgumentTypeError
        ``f`` is not a program.
    """
    closed, names = program_of(f, *args)
    return [*_guards(closed, names)] or [*_guards(GuardBranches()(closed), names)]


def _guards(closed: ClosedJaxpr, own: Mapping[Var, str]) -> Iterator[Guard]:
    names = variable_names(closed.jaxpr, own)
    for jaxpr in _jax.every_jaxpr(closed.jaxpr):
        makers = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
        for eqn in jaxpr.eqns:
            if eqn.primitive.name != "custom_jvp_call" or len(eqn.invars) != 2:
                continue
            if _jax.open_jaxpr(eqn.params["call_jaxpr"]).debug_info.func_name == "mask":
                predicate, value = eqn.invars
                frame = innermost_frame(eqn, ())
                line = frame.built if frame else ""
                yield Guard(atom_text(value, names), _text(predicate, makers, names), line)


def _text(x: Any, makers: Mapping[Any, JaxprEqn], names: Mapping[Var, str], depth: int = 6) -> str:
    """Return a predicate as a reader writes it, down to a depth."""
    eqn = makers.get(x) if type(x) is Var else None
    if eqn is None or not depth:
        return atom_text(x, names)
    name = eqn.primitive.name
    if name in _KEPT:
        return _text(eqn.invars[0], makers, names, depth)
    if name in _SIGNS:
        return f" {_SIGNS[name]} ".join(atom_text(y, names) for y in eqn.invars)
    if name not in ("not", "and", "or"):
        return atom_text(x, names)
    operands = [f"({_text(y, makers, names, depth - 1)})" for y in eqn.invars]
    return f"not {operands[0]}" if name == "not" else visible(f" {name} ".join(operands))
