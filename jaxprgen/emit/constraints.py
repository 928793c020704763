"""Constraints on parameters: written as text, tested on arrays and on values of a program."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit.values import Value

_OPPOSITES = {"<": operator.ge, "<=": operator.gt, ">": operator.le, ">=": operator.lt}


class Constraint(NamedTuple):
    """A comparison of one parameter with a number, with another parameter, or with a sum of others.

    Attributes
    ----------
    text
        The constraint as written, for messages.
    position
        The position of the parameter on the left.
    opposite
        The comparison that holds where the constraint is violated.
    others
        The positions of the parameters that are added up on the right; empty for a number.
    limit
        The number on the right, if ``others`` is empty.
    """

    text: str
    position: int
    opposite: Any
    others: tuple[int, ...]
    limit: float


def parse_constraints(names: str, *texts: str) -> tuple[Constraint, ...]:
    """Parse constraints such as ``"low < high"`` or ``"n <= a + b"``.

    Parameters
    ----------
    names
        The names of the parameters, in order, separated by spaces.
    texts
        One constraint each.
    """
    positions = {name: i for i, name in enumerate(names.split())}
    found: list[Constraint] = []
    for text in texts:
        name, sign, *terms = text.split()
        others = tuple(positions[t] for t in terms if t in positions)
        limit = 0.0 if others else float(terms[0])
        found.append(Constraint(text, positions[name], _OPPOSITES[sign], others, limit))
    return tuple(found)


def violated(constraint: Constraint, parameters: Sequence[Value], strict: bool) -> Value:
    """Return where a constraint is violated, as booleans, known for known parameters.

    Parameters
    ----------
    constraint
        The constraint.
    parameters
        The values of all parameters.
    strict
        Whether NaN violates the constraint.
    """
    x, others = parameters[constraint.position], [parameters[i] for i in constraint.others]
    arrays = [p.static for p in (x, *others)]
    if not any(a is None for a in arrays):
        first, *rest = (np.asarray(a) for a in arrays)
        limit: Any = functools.reduce(np.add, rest) if rest else constraint.limit
        wrong = constraint.opposite(first, limit)
        return Value(np.asarray(wrong | np.isnan(first) if strict else wrong))
    # Parameters are compared in NumPy's common dtype, a number in the dtype of the parameter.
    dtype = ew.canonical(np.result_type(x.dtype, *(p.dtype for p in others)))
    terms = [p.astype(dtype) for p in (x, *others)]
    limit = functools.reduce(operator.add, terms[1:]) if others else terms[0].like(constraint.limit)
    wrong: Value = constraint.opposite(terms[0], limit)
    return wrong | ew.isnan(x) if strict and dtype.kind == "f" else wrong


def nan_where(wrong: Value, x: Value) -> Value:
    """Return a parameter as a float that is NaN where it is ``wrong``."""
    if x.dtype.kind != "f":
        x = x.astype(ew.canonical(np.float64))
    return ew.where(wrong, np.nan, x)
