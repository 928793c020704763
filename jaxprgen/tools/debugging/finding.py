"""What a debugger finds, and how it says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Frame, Var
from jaxprgen.errors import (
    FailedAssertionError,
    IndexOutOfBoundsError,
    JaxprGenError,
    NonFiniteValueError,
    of_check,
)
from jaxprgen.runtime.observe import Node
from jaxprgen.tools.debugging.evaluate import Evaluated, OutOfBounds, holds, offenders
from jaxprgen.tools.equations import atom_text, parameters, type_text

KINDS = ("nan", "inf", "index", "check")
"""What can be looked for."""
SMALL = 4
"""Elements up to which values are shown."""
GIVEN = ("argument", "constant")
"""In the place of an Op, for what none computes."""
_NOUNS = {"nan": "NaN", "inf": "infinity"}


class Where(NamedTuple):
    """Where a value comes from.

    Attributes
    ----------
    op
        The graph's Op; the primitive of an equation that is of no graph; "argument" or "constant".
    frame
        The user's line, or nothing.
    equation
        The equation; empty for what is known before the program runs.
    iterations
        The loops around the equation, from the outside in, and the iteration of each, from 0.
    """

    op: str
    frame: Frame | None = None
    equation: str = ""
    iterations: tuple[tuple[str, int], ...] = ()


def where_is(done: Evaluated, node: Node | None, names: Mapping[Var, str]) -> Where:
    """Where the results of an equation come from."""
    eqn = done.eqn
    binders = (f"{atom_text(v, names)}:{type_text(v.aval)}" for v in eqn.outvars)
    applied = [eqn.primitive.name, *(atom_text(x, names) for x in eqn.invars)]
    if params := parameters(eqn):
        applied[0] += f"[{params}]"
    # Equations of a function of JAX's own may have no line of the user's, but its call has.
    frames = (_jax.frame_of(e.source_info) for e in (eqn, *(o.eqn for o in done.within[::-1])))
    loops = [(o.eqn.primitive.name, o.iteration) for o in done.within if o.iteration is not None]
    return Where(
        node.op if node else eqn.primitive.name,
        node.frame if node else next(filter(None, frames), None),
        f"{' '.join(binders)} = {' '.join(applied)}".strip(),
        tuple(loops),
    )


class Operand(NamedTuple):
    """An operand, its value, and the position of the element in question, if there is one.

    As text: its type and a summary of its elements.
    """

    name: str
    value: Any
    position: tuple[int, ...] = ()

    def __str__(self) -> str:
        text = f"{self.name}: {summary(self.value)}"
        if self.position and np.size(self.value) > SMALL:
            text += f"; {self.value[self.position]} at {list(self.position)}"
        return text


def summary(x: Any) -> str:
    """Type, and elements if they are few; else their range, and how many are not finite."""
    head = f"{x.dtype}[{', '.join(map(str, np.shape(x)))}]"
    if not np.size(x) or jax.numpy.issubdtype(x.dtype, jax.dtypes.extended):  # Random keys.
        return head
    array = np.asarray(x)
    if array.size <= SMALL:
        return f"{head} = {array.tolist()}"
    counts = [f"{offenders(w, x)[1]} {_NOUNS[w]}" for w in ("nan", "inf") if holds(w, x)]
    usual = array[np.isfinite(array)] if counts else array
    bounds = [f"{usual.min()} to {usual.max()}"] if usual.size and array.dtype.kind != "c" else []
    return ", ".join([head, *bounds, *counts])


class Finding(NamedTuple):
    """Something wrong with a value.

    Attributes
    ----------
    what
        "nan", "inf", "index" or "check".
    variable
        What the user calls the value, or else the program's text does.
    op, frame, equation, iterations
        Where it comes from, see `Where`.
    operands
        What it was computed from.
    position
        The position of the first element that is wrong, in the value or among the indices.
    message
        What is wrong, in one line.
    """

    what: str
    variable: str
    op: str
    frame: Frame | None
    equation: str
    iterations: tuple[tuple[str, int], ...]
    operands: tuple[Operand, ...]
    position: tuple[int, ...]
    message: str

    def __str__(self) -> str:
        rounds = "".join(f", in iteration {i} of {loop}" for loop, i in self.iterations)
        rows = [
            self.message,
            f"  {'given as' if self.op in GIVEN else 'in'} {self.op}{rounds}",
            *(f"    {operand}" for operand in self.operands),
            f"  as {self.equation}" if self.equation else "",
        ]
        if self.frame:
            rows.append(f"  {self.frame.built}")
        return "\n".join(filter(None, rows))


def not_finite(
    what: str, name: str, value: Any, where: Where, operands: Iterable[tuple[str, Any]]
) -> Finding:
    """A value that holds a "nan" or an "inf"; its operands are names and values."""
    position, count = offenders(what, value)
    message = f"{'NaN' if what == 'nan' else 'Infinity'} in {name!r}"
    if position:
        message += f": {count} of {np.size(value)} elements, the first at {list(position)}"
    shown = (
        Operand(own, x, position if np.shape(x) == np.shape(value) else ()) for own, x in operands
    )
    return Finding(what, name, *where, tuple(shown), position, f"{message}.")


def bad_index(
    index: OutOfBounds, name: str, where: Where, operands: Iterable[tuple[str, Any]]
) -> Finding:
    """An index out of the bounds of its axis."""
    taken = f", from which {index.extent} elements are taken," if index.extent > 1 else ""
    message = (
        f"Index {index.value}{taken} is out of bounds for axis {index.axis} of size {index.size}, "
        f"in {name!r}."
    )
    shown = tuple(Operand(own, x) for own, x in operands)
    return Finding("index", name, *where, shown, index.position, message)


def failed_check(message: str, name: str, where: Where) -> Finding:
    """A check that fails. Its equation and its operand, "failed", say less than its message."""
    return Finding("check", name, *where._replace(equation=""), (), (), f"{of_check(message)}.")


_ERRORS = {
    "nan": NonFiniteValueError,
    "inf": NonFiniteValueError,
    "index": IndexOutOfBoundsError,
    "check": FailedAssertionError,
}
_REMEDIES = {
    "nan": "Keep the operands where the operation is defined.",
    "inf": "Keep the operands where the result is finite.",
    "index": "JAX would use the nearest element, or none, without a word: correct the index.",
    "check": "Pass arguments for which the check holds.",
    "argument": "Pass an array without NaN.",
    "constant": "Put an array without NaN into the graph.",
}


def error_of(finding: Finding) -> JaxprGenError:
    """The error that stops a debugger."""
    remedy = _REMEDIES.get(finding.op, _REMEDIES[finding.what])
    return _ERRORS[finding.what](
        f"{finding}\n{remedy}\nWith jaxprgen.debug(f, stop=False), the run goes on and lists all "
        "findings; find= chooses what is looked for."
    )
