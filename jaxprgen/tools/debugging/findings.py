"""What the debugger reports: findings, where they are, and their messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprgen import _jax
from jaxprgen._jax import Frame
from jaxprgen.errors import (
    FailedAssertionError,
    IndexOutOfBoundsError,
    JaxprGenError,
    NonFiniteValueError,
)
from jaxprgen.tools.debugging.faults import OutOfBounds, contains, locate

KINDS = ("nan", "inf", "index", "check")
"""The kinds of findings."""
_SMALL = 4
"""The number of elements up to which a message shows them all."""
_GIVEN = ("argument", "constant")
"""What stands for the Op of a value that no equation computes."""
_NOUNS = {"nan": "NaN", "inf": "infinity"}


class Location(NamedTuple):
    """Where a value comes from.

    Attributes
    ----------
    op
        The graph's Op; without a graph, the primitive, which may be "of the gradient"; or
        "argument" or "constant".
    frame
        The user's source line, if it is known.
    equation
        The equation's text; empty for a value that is known before the program runs.
    iterations
        The name of each loop around the equation and the iteration it is in, counted from 0, from
        the outermost to the innermost.
    """

    op: str
    frame: Frame | None = None
    equation: str = ""
    iterations: tuple[tuple[str, int], ...] = ()


class OperandValue(NamedTuple):
    """An operand's value; ``str()`` of it is its type and its elements, or a summary of them.

    ``position`` is that of the element in question, or empty.
    """

    name: str
    value: Any
    position: tuple[int, ...] = ()

    def __str__(self) -> str:
        text = f"{self.name}: {_summary(self.value)}"
        if self.position and np.size(self.value) > _SMALL:
            text += f"; {self.value[self.position]} at {list(self.position)}"
        return text


def _summary(x: Any) -> str:
    """The type and the elements; if there are many, their range and the non-finite ones' count."""
    head = f"{x.dtype}[{', '.join(map(str, np.shape(x)))}]"
    if not np.size(x) or jax.numpy.issubdtype(x.dtype, jax.dtypes.extended):  # Random keys.
        return head
    array = np.asarray(x)
    if array.size <= _SMALL:
        return f"{head} = {array.tolist()}"
    counts = [f"{locate(w, x)[1]} {noun}" for w, noun in _NOUNS.items() if contains(w, x)]
    finite = array[np.isfinite(array)] if counts else array
    has_bounds = finite.size and array.dtype.kind != "c"
    bounds = [f"{finite.min()} to {finite.max()}"] if has_bounds else []
    return ", ".join([head, *bounds, *counts])


class Finding(NamedTuple):
    """A wrong value, and where it comes from.

    Attributes
    ----------
    kind
        "nan", "inf", "index" or "check".
    variable
        The user's name of the value, or else its name in the program's text.
    op, frame, equation, iterations
        As in `Location`.
    operands
        The values that it was computed from.
    position
        The position of the first wrong element, in the value or in the array of indices.
    message
        What is wrong, on one line.
    """

    kind: str
    variable: str
    op: str
    frame: Frame | None
    equation: str
    iterations: tuple[tuple[str, int], ...]
    operands: tuple[OperandValue, ...]
    position: tuple[int, ...]
    message: str

    def error(self) -> JaxprGenError:
        """Return the error with which the debugger stops at this finding."""
        cause = self.op if self.op in _GIVEN else self.kind
        if cause == "nan" and any(contains("nan", operand.value) for operand in self.operands):
            cause = "mask"
        remedy = _REMEDIES[cause].format(name=self.variable)
        return _ERRORS[self.kind](
            f"{self}\n{remedy}\nTo collect all findings instead of stopping at the first, use "
            "jaxprgen.debug(f, stop=False); `find` selects their kinds."
        )

    def __str__(self) -> str:
        loops = "".join(f", in iteration {i} of {loop}" for loop, i in self.iterations)
        rows = [
            self.message,
            f"  {'given as' if self.op in _GIVEN else 'in'} {self.op}{loops}",
            *(f"    {operand}" for operand in self.operands),
            f"  as {self.equation}" if self.equation else "",
        ]
        if self.frame:
            rows.append(f"  {self.frame.built}")
        return "\n".join(filter(None, rows))


def non_finite_number(
    kind: str, name: str, value: Any, location: Location, operands: Iterable[tuple[str, Any]]
) -> Finding:
    """Return the finding of a value that contains a "nan" or an "inf"."""
    position, count = locate(kind, value)
    message = f"{'NaN' if kind == 'nan' else 'Infinity'} in {name!r}"
    if position:
        message += f": {count} of {np.size(value)} elements, the first at {list(position)}"
    shown = (
        OperandValue(own, x, position if np.shape(x) == np.shape(value) else ())
        for own, x in operands
    )
    return Finding(kind, name, *location, tuple(shown), position, f"{message}.")


def index_out_of_bounds(
    index: OutOfBounds, name: str, location: Location, operands: Iterable[tuple[str, Any]]
) -> Finding:
    """Return the finding of an index out of bounds."""
    window = f" of a window of {index.extent} elements" if index.extent > 1 else ""
    message = f"Index {index.value}{window} is out of bounds for axis {index.axis} of size "
    message += f"{index.size}, in {name!r}."
    shown = tuple(OperandValue(own, x) for own, x in operands)
    return Finding("index", name, *location, shown, index.position, message)


def check_that_fails(failed: Exception, name: str, location: Location) -> Finding:
    """Return the finding of a failed check, without its equation, which adds nothing."""
    location = location._replace(equation="")
    message = failed.message if isinstance(failed, _jax.FailedCheck) else str(failed)
    return Finding("check", name, *location, (), (), message)


_ERRORS = {
    "nan": NonFiniteValueError,
    "inf": NonFiniteValueError,
    "index": IndexOutOfBoundsError,
    "check": FailedAssertionError,
}
_REMEDIES = {
    "nan": "Keep the operands within the domain of the operation.",
    "inf": "Keep the operands where the result is finite.",
    "index": "Correct the index: JAX would silently clip it, or drop the element.",
    "check": "Pass arguments for which the check holds.",
    "mask": (
        "0 × NaN is NaN: a mask that is applied later, or as a factor of zero, does not remove it."
        "\nReplace the NaN before this operation, as in at.switch(at.isnan(y), 1.0, y)."
    ),
    "argument": "Pass an array without NaN. If its NaN are meant, use allow={name!r}.",
    "constant": "Use an array without NaN in the graph. If its NaN are meant, use allow={name!r}.",
}
