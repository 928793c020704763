"""What must hold of parameters: written as text, tested of arrays and of values of a program."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import Value

_EMITTED: dict[Any, Callable[[Value, Value], Value]] = {
    operator.lt: operator.lt,
    operator.le: operator.le,
    operator.gt: operator.gt,
    operator.ge: operator.ge,
}
_OPPOSITES = {"<": operator.ge, "<=": operator.gt, ">": operator.le, ">=": operator.lt}


class Constraint(NamedTuple):
    """That one parameter compares so with another one, with a sum of others, or with a number.

    ``text`` is for messages; ``others`` are the positions of what is added up, or empty.
    """

    text: str
    position: int
    opposite: Any
    others: tuple[int, ...]
    limit: float


def parse_constraints(names: str, *texts: str) -> tuple[Constraint, ...]:
    """What the texts say of parameters of these names: ``"low < high"``, ``"n <= a + b"``."""
    places = {name: i for i, name in enumerate(names.split())}
    found: list[Constraint] = []
    for text in texts:
        name, sign, *terms = text.split()
        others = tuple(places[t] for t in terms if t in places)
        limit = 0.0 if others else float(terms[0])
        found.append(Constraint(text, places[name], _OPPOSITES[sign], others, limit))
    return tuple(found)


def violated(constraint: Constraint, parameters: Sequence[Value], strict: bool) -> Value:
    """Where a constraint does not hold, or, for NaN, if ``strict``; known of known parameters."""
    x, others = parameters[constraint.position], [parameters[i] for i in constraint.others]
    arrays = [p.static for p in (x, *others)]
    if not any(a is None for a in arrays):
        first, *rest = (np.asarray(a) for a in arrays)
        limit: Any = functools.reduce(np.add, rest) if rest else constraint.limit
        wrong = constraint.opposite(first, limit)
        return Value(np.asarray(wrong | np.isnan(first) if strict else wrong))
    # In one dtype, as of NumPy; a number is compared in that of the parameter.
    dtype = ew.canonical(np.result_type(x.dtype, *(p.dtype for p in others)))
    terms = [p.astype(dtype) for p in (x, *others)]
    limit = functools.reduce(operator.add, terms[1:]) if others else constraint.limit
    wrong = _EMITTED[constraint.opposite](terms[0], limit)
    return wrong | ew.isnan(x) if strict and dtype.kind == "f" else wrong


def nan_where(wrong: Value, x: Value) -> Value:
    """A parameter, as a float, that is NaN where it is wrong."""
    if x.dtype.kind != "f":
        x = x.astype(ew.canonical(np.float64))
    return ew.where(wrong, np.nan, x)
