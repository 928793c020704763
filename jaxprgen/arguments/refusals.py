"""Say why an argument holds no numbers for its input, and what to pass instead."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from jaxprgen.arguments.inputs import Input
from jaxprgen.errors import ArgumentTypeError

Remedy = str | Callable[[Any, Input], str]

_PYTHON_TYPES = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}


def _convert(x: Any, declared: Input) -> str:
    return f"Convert it with {_PYTHON_TYPES[declared.dtype.kind]}()."


def _spelled(x: str | bytes, declared: Input) -> str:
    kind = declared.dtype.kind
    return (
        "Pass True or False."
        if kind == "b"
        else f"If it spells a number, convert it with {_PYTHON_TYPES[kind]}()."
    )


def _of_rows(x: Sequence[Any], declared: Input) -> str:
    try:
        kind = np.asarray(x).dtype.kind
    except ValueError:
        return "Its rows have different lengths; pad them to one length."
    if kind in _PYTHON_TYPES:
        return "Convert it with numpy.asarray."
    what, _ = _KINDS.get(kind, ("values", ""))
    return f"It holds {what}; convert those to numbers, and it with numpy.asarray."


_REMEDIES: list[tuple[type | tuple[type, ...], Remedy]] = [
    (type(None), "Pass a number or an array."),
    ((str, bytes), _spelled),
    (numbers.Number, _convert),
    (datetime.datetime, "Convert it with .timestamp()."),
    (datetime.date, "Convert it with .toordinal()."),
    (datetime.timedelta, "Convert it with .total_seconds()."),
    (Mapping, "Unpack it, f(**values), to pass its values by name."),
    (Set, "It has no order; convert it with numpy.array(sorted(...))."),
    (Iterator, "Convert it with numpy.array(list(...))."),
    ((list, tuple), _of_rows),
]
"""What to do with an argument of a type, of which the first counts."""
_DUCKS: dict[str, Remedy] = {
    "get_value": "Pass its value, .get_value().",  # A shared variable.
    "owner": "Pass a value; to connect graphs, do so before compiling them.",  # A variable.
    "toarray": "Convert it with .toarray().",
    "__array__": "Convert it with numpy.asarray.",
    "__len__": "Convert it with numpy.asarray.",
    "__call__": "Call it, and pass its result.",
}
"""What to do with an argument of any other type, by the first attribute that it has."""


def not_an_array(x: Any, declared: Input) -> ArgumentTypeError:
    """Return the error of an argument that is neither a number nor an array."""
    of_type = (remedy for kind, remedy in _REMEDIES if isinstance(x, kind))
    like = (remedy for attribute, remedy in _DUCKS.items() if hasattr(x, attribute))
    remedy = next(of_type, None) or next(like, "Pass a number or an array.")
    text = remedy if isinstance(remedy, str) else remedy(x, declared)
    got = "None" if x is None else f"{a(type(x).__name__)}, not an array"
    return ArgumentTypeError(f"Input {declared.name!r} got {got}. {text}")


_TEXT = (
    "text",
    "Convert it with .astype({dtype!r}) if it spells numbers, or number its categories with "
    "numpy.unique(..., return_inverse=True).",
)
_KINDS = {
    "U": _TEXT,
    "S": _TEXT,
    "T": _TEXT,
    "M": (
        "dates",
        "Convert them to numbers, such as days: (x - x.min()) / numpy.timedelta64(1, 'D').",
    ),
    "m": ("durations", "Convert them to numbers, such as days: x / numpy.timedelta64(1, 'D')."),
    "O": ("Python objects", "Convert them with .astype({dtype!r}) if all of them are numbers."),
}
"""Contents other than numbers, by the kind of an array's dtype, and how to convert them."""


def wrong_dtype(x: Any, declared: Input) -> ArgumentTypeError:
    """Return the error of an array whose dtype the input's does not hold."""
    dtype = str(declared.dtype)
    start = f"Input {declared.name!r} has dtype {dtype}"
    if x.dtype.kind in _KINDS:
        what, remedy = _KINDS[x.dtype.kind]
        text = f"{start}; the argument holds {what} ({x.dtype}). {remedy.format(dtype=dtype)}"
    elif x.dtype.names:
        text = (
            f"{start}; the argument has fields {', '.join(x.dtype.names)}. Pass one of them, "
            f"such as x[{x.dtype.names[0]!r}]."
        )
    else:
        real = ".real" if x.dtype.kind == "c" else ""
        text = (
            f"{start}, which cannot hold all values of the argument's {x.dtype}. "
            f"Convert it with {real}.astype({dtype!r}) if the loss is meant."
        )
    return ArgumentTypeError(text)


def out_of_range(x: Any, declared: Input, narrow: np.dtype[Any]) -> ArgumentTypeError:
    """Return the error of a number that the input's dtype does not hold, as JAX computes with it.

    Parameters
    ----------
    x
        The number, or a dtype whose values are not all held.
    declared
        The input.
    narrow
        The input's dtype, or its 32-bit form if x64 is off.
    """
    text = f"Input {declared.name!r} has dtype {declared.dtype}, which "
    if narrow != declared.dtype:
        text = (
            f"jax_enable_x64 is off: input {declared.name!r}, declared {declared.dtype}, is "
            f"computed as {narrow}, which "
        )
    text += f"cannot hold {x}."
    if narrow != declared.dtype:
        text += "\nRun jax.config.update('jax_enable_x64', True) before anything else of JAX."
    elif isinstance(x, complex) and declared.dtype.kind == "f":
        text += " Pass its .real if the loss is meant."
    return ArgumentTypeError(text)


def a(noun: str) -> str:
    """Return a noun with its article."""
    return ("an " if noun[0] in "aeiouAEIOU" else "a ") + noun
